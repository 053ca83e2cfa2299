// From a warpgroup's sums to y: scales, bias, residual or SwiGLU, conversion, transposition through shared
// memory, and stores: by the copy engine where it can, since all multiprocessors end their tiles at about the
// same time and a thread that stores itself waits for that burst; else 16 bytes a thread.
//
// A chunk is 32 tokens of one m64 block. In shared memory a buffer holds two chunks as 64 token rows of 128
// bytes (SwiGLU: 64 bytes), swizzled against bank conflicts; or one chunk of float32, as two planes of 32
// token rows of 128 bytes.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "grille/kernels/cuda/device/matmul_24_large_schedule.cuh"
#include "grille/kernels/cuda/device/matmul_24_large_tile.cuh"
#include "grille/kernels/cuda/device/sm90_ptx.cuh"

namespace grille::kernels::sm90 {

// Byte `byte` of token row `row`, as the copy engine's swizzle of rows of kRowBytes has it.
template <int kRowBytes>
__device__ __forceinline__ int staged_at(int row, int byte) {
  if constexpr (kRowBytes == 128) return row * 128 + (byte ^ ((row & 7) << 4));
  return row * 64 + (byte ^ (((row >> 1) & 3) << 4));
}

// Two neighbouring tokens of a row, the first in the low half.
__device__ __forceinline__ std::uint32_t pack_halves(float first, float second, bool bfloat16) {
  if (bfloat16) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  }
  const __half2 pair = __floats2half2_rn(first, second);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}
__device__ __forceinline__ float2 unpack_halves(std::uint32_t pair, bool bfloat16) {
  if (bfloat16) return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&pair));
  return __half22float2(*reinterpret_cast<const __half2*>(&pair));
}

__device__ __forceinline__ void store_transposed(std::uint32_t at, const std::uint32_t (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(r[0]),
               "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}
__device__ __forceinline__ void load_transposed(std::uint32_t at, std::uint32_t (&r)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
}

template <class Tile>
class LargeEpilogue {
 public:
  using Sums = typename Tile::Sum[Tile::kBlocks][Tile::kAccumulators];

  __device__ __forceinline__ LargeEpilogue(const LargeParams& p, std::uint32_t shared)
      : p_(p), shared_(shared) {
    locate({0, 0});
    for (int i = thread_; i < Tile::kTokens + 2 * kWarpgroupRows; i += 128) {
      set_vector(i, i < Tile::kTokens + kWarpgroupRows ? 1.0f : 0.0f);  // scales and bias that are null
    }
    sync_threads(barrier_, 128);
  }

  // Which tile; asks for what its epilogue will read, so that it is there when the sums are.
  __device__ __forceinline__ void begin(const LargePlace& place) {
    locate(place);
    if (p_.x_scale != nullptr) {
      for (int i = thread_; i < Tile::kTokens; i += 128) {
        const int token = token0_ + i;
        copy_float(vectors_ + 4 * i, p_.x_scale + min(token, p_.m - 1), token < p_.m);
      }
    }
    for (int i = thread_; i < kWarpgroupRows; i += 128) {
      const int row = row0_ + i;
      const int from = min(row, p_.n - 1);
      const std::uint32_t at = vectors_ + 4 * (Tile::kTokens + i);
      if (p_.weight_scale != nullptr) copy_float(at, p_.weight_scale + from, row < p_.n);
      if (p_.bias != nullptr) copy_float(at + 4 * kWarpgroupRows, p_.bias + from, row < p_.n);
    }
  }

  __device__ __forceinline__ void finish(const Sums& sums, const LargePlace& place) {
    locate(place);
    wait_copied_floats();
    if (thread_ == 0) wait_box_reads<0>();  // of the tile before this one
    sync_threads(barrier_, 128);
    if (p_.y_by_map && p_.residual == nullptr && !p_.swiglu) {
      finish_plain(sums);
    } else {
      finish_any(sums);
    }
  }

  // Shared memory must outlive the copy engine's reads.
  __device__ __forceinline__ void drain() const {
    if (thread_ == 0) wait_box_reads<0>();
  }

 private:
  static constexpr int kWarpgroupRows = 64 * Tile::kBlocks;
  static constexpr int kPlaneBytes = 32 * 128;

  // Where this thread is. Nothing of it is kept in registers while the tensor cores work on sums that take
  // most of them: the thread index is read anew (volatile), and all else follows from it.
  __device__ __forceinline__ void locate(const LargePlace& place) {
    int index;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
    const int warpgroup = index / 128;
    thread_ = index % 128;
    lane_ = index % 32;
    warp_ = thread_ / 32;
    barrier_ = 1 + warpgroup;
    buffers_ = shared_ + Tile::kBuffersAt + warpgroup * Tile::kBuffers * Tile::kBufferBytes;
    vectors_ = shared_ + Tile::kVectorsAt + warpgroup * Tile::kVectorBytes;
    token0_ = place.token_tile * Tile::kTokens;
    row0_ = place.row_tile * Tile::kRows + warpgroup * kWarpgroupRows;
  }

  __device__ __forceinline__ bool words() const { return p_.output == LargeOutput::kFloat32; }
  __device__ __forceinline__ bool bfloat16() const { return p_.output == LargeOutput::kBFloat16; }

  __device__ __forceinline__ float vector(int i) const {
    float value;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(vectors_ + 4 * i) : "memory");
    return value;
  }
  __device__ __forceinline__ void set_vector(int i, float value) const {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(vectors_ + 4 * i), "f"(value) : "memory");
  }

  // The common case: bfloat16 or float16, aligned, nothing to add but the bias.
  __device__ __forceinline__ void finish_plain(const Sums& sums) {
    int unit = 0;
#pragma unroll
    for (int block = 0; block < Tile::kBlocks; ++block) {
      float row_scale[2], row_bias[2];
      load_row_vectors(block, row_scale, row_bias);
#pragma unroll
      for (int chunk = 0; chunk < Tile::kChunks; chunk += 2) {
        if (token0_ + 32 * chunk >= p_.m) continue;
        const std::uint32_t buffer = buffers_ + unit % Tile::kBuffers * Tile::kBufferBytes;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float values[16];
#pragma unroll
          for (int i = 0; i < 16; ++i) values[i] = static_cast<float>(sums[block][16 * (chunk + half) + i]);
          scale(values, chunk + half, row_scale, row_bias);
          stage_halves(values, buffer + half * kPlaneBytes);
        }
        send(unit++, buffer, token0_ + 32 * chunk, row0_ + 64 * block);
      }
    }
  }

  // Hands a buffer to the copy engine, which reads it while the tensor cores work on the next tile.
  __device__ __forceinline__ void send(int unit, std::uint32_t buffer, int token, int feature) const {
    fence_before_copy();
    // The next unit's buffer, where there is not one for each, is free when at most kBuffers - 2 stores are
    // read.
    if (unit + 1 >= Tile::kBuffers && thread_ == 0) wait_box_reads<Tile::kBuffers - 2>();
    sync_threads(barrier_, 128);
    if (thread_ == 0) {
      store_box(&p_.y_map, 2 * feature, token, buffer);
      commit_boxes();
    }
  }

  // Everything else. Not unrolled: the sums of a chunk are moved to `values`, so that there is one copy of
  // what follows.
  __device__ __forceinline__ void finish_any(const Sums& sums) {
    const int chunks_in_buffer = words() ? 1 : 2;
    int unit = 0;
#pragma unroll 1
    for (int block = 0; block < Tile::kBlocks; ++block) {
      float row_scale[2], row_bias[2];
      load_row_vectors(block, row_scale, row_bias);
#pragma unroll 1
      for (int chunk = 0; chunk < Tile::kChunks && token0_ + 32 * chunk < p_.m; chunk += chunks_in_buffer) {
        const std::uint32_t buffer = buffers_ + unit % Tile::kBuffers * Tile::kBufferBytes;
#pragma unroll 1
        for (int half = 0; half < chunks_in_buffer; ++half) {
          float values[16];
          select_chunk<0, Tile::kChunks * Tile::kBlocks>(sums, block * Tile::kChunks + chunk + half, values);
          scale(values, chunk + half, row_scale, row_bias);
          stage_any(values, chunk + half, block, buffer, half);
        }
        store_any(unit++, chunk, block, buffer);
      }
    }
  }

  __device__ __forceinline__ void store_any(int unit, int chunk, int block, std::uint32_t buffer) const {
    const int feature = row0_ + 64 * block;
    if (p_.y_by_map) {
      return send(unit, buffer, token0_ + 32 * chunk, p_.swiglu ? feature / 2 : feature);
    }
    // With two or more, a buffer's readers have passed the next barrier before anyone writes it again.
    sync_threads(barrier_, 128);
    if (words()) {
      write_words(chunk, block, buffer);
    } else if (p_.swiglu) {
      write_halves<64>(chunk, block, buffer);
    } else {
      write_halves<128>(chunk, block, buffer);
    }
  }

  __device__ __forceinline__ void stage_any(float (&values)[16], int chunk, int block, std::uint32_t buffer,
                                            int half) const {
    const std::uint32_t plane = buffer + half * (p_.swiglu ? kPlaneBytes / 2 : kPlaneBytes);
    if (p_.residual != nullptr) add_residual(values, chunk, block, plane);
    if (p_.swiglu) {
      stage_swiglu(values, plane);
    } else if (words()) {
      stage_words(values, buffer);
    } else {
      stage_halves(values, plane);
    }
  }

  // values = the sums of chunk index % kChunks of block index / kChunks: registers have no index, so the way
  // there is a tree of branches.
  template <int kBegin, int kEnd>
  __device__ __forceinline__ void select_chunk(const Sums& sums, int index, float (&values)[16]) const {
    if constexpr (kEnd - kBegin == 1) {
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        values[i] = static_cast<float>(sums[kBegin / Tile::kChunks][16 * (kBegin % Tile::kChunks) + i]);
      }
    } else {
      constexpr int kMiddle = (kBegin + kEnd) / 2;
      if (index < kMiddle) {
        select_chunk<kBegin, kMiddle>(sums, index, values);
      } else {
        select_chunk<kMiddle, kEnd>(sums, index, values);
      }
    }
  }

  __device__ __forceinline__ void load_row_vectors(int block, float (&row_scale)[2],
                                                   float (&row_bias)[2]) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = 64 * block + 16 * warp_ + lane_ / 4 + 8 * h;
      row_scale[h] = vector(Tile::kTokens + row);
      row_bias[h] = vector(Tile::kTokens + kWarpgroupRows + row);
    }
  }

  __device__ __forceinline__ void scale(float (&values)[16], int chunk, const float (&row_scale)[2],
                                        const float (&row_bias)[2]) const {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float x_scale[2];
      asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                   : "=f"(x_scale[0]), "=f"(x_scale[1])
                   : "r"(vectors_ + 4 * (32 * chunk + 8 * j + 2 * (lane_ % 4)))
                   : "memory");
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        values[4 * j + i] = fmaf(values[4 * j + i], x_scale[i % 2] * row_scale[i / 2], row_bias[i / 2]);
      }
    }
  }

  // Where lane `lane_` points for 8x8 matrices 4 half ... 4 half + 3 of the plane of a chunk: matrix q is
  // tokens 8 (q / 2) ..., rows 8 (q % 2) ... of the warp's 16.
  __device__ __forceinline__ std::uint32_t matrix_at(std::uint32_t buffer, int half) const {
    const int matrix = lane_ / 8;
    const int token = 16 * half + 8 * (matrix / 2) + lane_ % 8;
    return buffer + staged_at<128>(token, 32 * warp_ + 16 * (matrix % 2));
  }

  __device__ __forceinline__ void stage_halves(const float (&values)[16], std::uint32_t buffer) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      std::uint32_t packed[4];
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        packed[q] = pack_halves(values[8 * half + 2 * q], values[8 * half + 2 * q + 1], bfloat16());
      }
      store_transposed(matrix_at(buffer, half), packed);
    }
  }

  // Two planes of 32 features.
  __device__ __forceinline__ void stage_words(const float (&values)[16], std::uint32_t buffer) const {
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int token = 8 * (i / 4) + 2 * (lane_ % 4) + i % 2;
      const int feature = 16 * (warp_ % 2) + 8 * ((i / 2) % 2) + lane_ / 4;
      const std::uint32_t at = buffer + warp_ / 2 * kPlaneBytes + staged_at<128>(token, 4 * feature);
      asm volatile("st.shared.f32 [%0], %1;" ::"r"(at), "f"(values[i]) : "memory");
    }
  }

  // Gate and up of a feature are in neighbouring lanes 4 apart, for the same two tokens: the even lane
  // finishes the first token, the odd one the second.
  __device__ __forceinline__ void stage_swiglu(const float (&values)[16], std::uint32_t buffer) const {
    const int second = (lane_ / 4) % 2;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float mine = second ? values[2 * i + 1] : values[2 * i];
      const float other = __shfl_xor_sync(0xffffffffu, second ? values[2 * i] : values[2 * i + 1], 4);
      const float gate = second ? other : mine;
      const float up = second ? mine : other;
      const float product = up * gate / (1.0f + __expf(-gate));
      const int token = 8 * (i / 2) + 2 * (lane_ % 4) + second;
      const int feature = 8 * warp_ + 4 * (i % 2) + lane_ / 8;
      const std::uint32_t at = buffer + staged_at<64>(token, 2 * feature);
      const auto bits = static_cast<std::uint16_t>(pack_halves(product, 0.0f, bfloat16()));
      asm volatile("st.shared.u16 [%0], %1;" ::"r"(at), "h"(bits) : "memory");
    }
  }

  __device__ __forceinline__ void add_residual(float (&values)[16], int chunk, int block,
                                               std::uint32_t buffer) const {
    if (!words() && p_.residual_by_16) return add_staged_residual(values, chunk, block, buffer);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int token = token0_ + 32 * chunk + 8 * (i / 4) + 2 * (lane_ % 4) + i % 2;
      const int row = row0_ + 64 * block + 16 * warp_ + lane_ / 4 + 8 * ((i / 2) % 2);
      if (token >= p_.m || row >= p_.n) continue;
      const std::int64_t at = token * p_.residual_stride + row;
      values[i] += words() ? static_cast<const float*>(p_.residual)[at]
                           : unpack_halves(static_cast<const std::uint16_t*>(p_.residual)[at], bfloat16()).x;
    }
  }

  // A lane reads its token's 16 features as two vectors; the matrix loads turn them as the stores will.
  __device__ __forceinline__ void add_staged_residual(float (&values)[16], int chunk, int block,
                                                      std::uint32_t buffer) const {
    const int token = token0_ + 32 * chunk + lane_;
    const int row = row0_ + 64 * block + 16 * warp_;
    const auto* from = static_cast<const std::uint16_t*>(p_.residual) + token * p_.residual_stride + row;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      uint4 vector = {};
      if (token < p_.m && row + 8 * h < p_.n) vector = *reinterpret_cast<const uint4*>(from + 8 * h);
      asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(
                       buffer + staged_at<128>(lane_, 32 * warp_ + 16 * h)),
                   "r"(vector.x), "r"(vector.y), "r"(vector.z), "r"(vector.w)
                   : "memory");
    }
    __syncwarp();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      std::uint32_t packed[4];
      load_transposed(matrix_at(buffer, half), packed);
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        const float2 pair = unpack_halves(packed[q], bfloat16());
        values[8 * half + 2 * q] += pair.x;
        values[8 * half + 2 * q + 1] += pair.y;
      }
    }
    __syncwarp();
  }

  // 64 tokens x kRowBytes / 2 features.
  template <int kRowBytes>
  __device__ __forceinline__ void write_halves(int chunk, int block, std::uint32_t buffer) const {
    constexpr int kPieces = kRowBytes / 16;  // of a row
    const int feature0 = (row0_ + 64 * block) / (128 / kRowBytes);
#pragma unroll
    for (int i = 0; i < 64 * kPieces / 128; ++i) {
      const int row = i * (128 / kPieces) + thread_ / kPieces;
      const int piece = thread_ % kPieces;
      write_piece<std::uint16_t>(buffer + staged_at<kRowBytes>(row, 16 * piece), token0_ + 32 * chunk + row,
                                 feature0 + 8 * piece);
    }
  }

  // 32 tokens x 64 features.
  __device__ __forceinline__ void write_words(int chunk, int block, std::uint32_t buffer) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = i % 2 * 16 + thread_ / 8;
      const int piece = thread_ % 8;
      write_piece<std::uint32_t>(buffer + i / 2 * kPlaneBytes + staged_at<128>(row, 16 * piece),
                                 token0_ + 32 * chunk + row, row0_ + 64 * block + i / 2 * 32 + 4 * piece);
    }
  }

  // 16 bytes of y from shared memory.
  template <class Element>
  __device__ __forceinline__ void write_piece(std::uint32_t from, int token, int feature) const {
    constexpr int kElements = 16 / static_cast<int>(sizeof(Element));
    const int features = p_.swiglu ? p_.n / 2 : p_.n;
    if (token >= p_.m || feature >= features) return;
    uint4 piece;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(piece.x), "=r"(piece.y), "=r"(piece.z), "=r"(piece.w)
                 : "r"(from)
                 : "memory");
    Element* to = static_cast<Element*>(p_.y) + token * p_.y_stride + feature;
    if (p_.y_by_16 && feature + kElements <= features) {
      *reinterpret_cast<uint4*>(to) = piece;
      return;
    }
    const std::uint32_t words[4] = {piece.x, piece.y, piece.z, piece.w};
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      if (feature + i < features) {
        to[i] = static_cast<Element>(words[i * sizeof(Element) / 4] >> (8 * (i * sizeof(Element) % 4)));
      }
    }
  }

  const LargeParams& p_;
  const std::uint32_t shared_;
  int thread_, lane_, warp_, barrier_;  // barrier_: the warpgroup's named one
  std::uint32_t buffers_, vectors_;
  int token0_, row0_;
};

}  // namespace grille::kernels::sm90
