#include "grille/kernels/cuda/pack_24_sm90.h"

#include "grille/kernels/cuda/device/violation.cuh"
#include "grille/kernels/cuda/launch.h"
#include "grille/kernels/two_four_group.h"
#include "grille/kernels/weight_bits.h"

namespace grille::kernels {
namespace {

constexpr int kTilesPerBlock = 4;  // neighbouring k-tiles, so that a row is read in pieces of 256 bytes
constexpr int kThreads = 256;
constexpr std::uint32_t kPaddingMetadata = 0x44444444u;

struct PackParams {
  const std::uint8_t* values;
  const std::uint8_t* positions;
  std::int64_t rows, cols, value_row_bytes, position_stride;
  formats::TwoFourSm90Layout layout;
  std::uint8_t* slabs;
  NibbleTable metadata;  // stored nibble -> metadata, or 0
  WeightBits kind;
  TwoFourViolation* violation;
  bool vector_values;     // rows of values begin at multiples of 16 bytes
  bool vector_positions;  // rows of positions begin at multiples of 4 bytes
};

__device__ inline void report(const PackParams& p, std::int64_t row, std::int64_t group) {
  report_violation(p.violation, row * (p.cols / 4) + group);
}

// 0xff in every byte (0xffff in every half) that is zero but for the sign, or not finite.
template <int kSize>
__device__ inline std::uint32_t zero_elements(std::uint32_t word, std::uint32_t magnitudes) {
  if constexpr (kSize == 1) return __vcmpeq4(word & magnitudes, 0);
  return __vcmpeq2(word & magnitudes, 0);
}
template <int kSize>
__device__ inline std::uint32_t not_finite_elements(std::uint32_t word, std::uint32_t magnitudes,
                                                    std::uint32_t first) {
  if constexpr (kSize == 1) return __vcmpgeu4(word & magnitudes, first);
  return __vcmpgeu2(word & magnitudes, first);
}

// 16 bytes of a row's values from byte `offset` on; zero past the row's end.
__device__ inline uint4 read_values(const PackParams& p, std::int64_t row, std::int64_t offset,
                                    std::int64_t used) {
  if (row >= p.rows || offset >= used) return {};
  const std::uint8_t* source = p.values + row * p.value_row_bytes + offset;
  if (p.vector_values && offset + 16 <= used) return __ldg(reinterpret_cast<const uint4*>(source));
  union {
    uint4 vector;
    std::uint8_t byte[16];
  } chunk = {};
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    if (offset + i < used) chunk.byte[i] = source[i];
  }
  return chunk.vector;
}

// -0.0 becomes +0; reports the first group with a NaN or an infinity.
template <int kSize>
__device__ inline uint4 clean_values(const PackParams& p, std::int64_t row, std::int64_t offset,
                                     uint4 chunk) {
  constexpr std::uint32_t repeat = kSize == 1 ? 0x01010101u : 0x00010001u;
  const std::uint32_t magnitudes = p.kind.magnitude_mask * repeat;
  std::uint32_t* words[4] = {&chunk.x, &chunk.y, &chunk.z, &chunk.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    std::uint32_t& word = *words[i];
    if (p.kind.dtype != DType::kInt8) {
      const std::uint32_t bad =
          not_finite_elements<kSize>(word, magnitudes, p.kind.first_not_finite * repeat);
      if (bad != 0) report(p, row, (offset + 4 * i + (__ffs(static_cast<int>(bad)) - 1) / 8) / (2 * kSize));
    }
    word &= ~zero_elements<kSize>(word, magnitudes);
  }
  return chunk;
}

// The stored nibbles of `kGroups` groups of a row from `group` (a multiple of kGroups) on, as metadata.
template <int kGroups>
__device__ inline std::uint32_t read_metadata(const PackParams& p, std::int64_t row, std::int64_t group) {
  const std::int64_t groups = p.cols / 4;
  if (row >= p.rows || group >= groups) return kPaddingMetadata & ((1ull << (4 * kGroups)) - 1);
  const std::uint8_t* source = p.positions + row * p.position_stride + group / 2;
  std::uint32_t stored = 0;
  if (p.vector_positions && group + kGroups <= groups) {
    if constexpr (kGroups == 8) stored = __ldg(reinterpret_cast<const std::uint32_t*>(source));
    if constexpr (kGroups == 4) stored = __ldg(reinterpret_cast<const std::uint16_t*>(source));
  } else {
#pragma unroll
    for (int i = 0; i < kGroups / 2; ++i) {
      if (group + 2 * i < groups) stored |= static_cast<std::uint32_t>(source[i]) << (8 * i);
    }
  }
  std::uint32_t metadata = 0;
#pragma unroll
  for (int i = kGroups - 1; i >= 0; --i) {
    std::uint32_t nibble = formats::kFirstTwoMetadata;
    if (group + i < groups) {
      nibble = look_up(p.metadata, (stored >> (4 * i)) & 0xfu);
      if (nibble == 0) report(p, row, group + i);
    }
    metadata |= nibble << (4 * i);
  }
  return metadata;
}

// A block packs up to kTilesPerBlock slabs of one row block.
template <int kSize>
__global__ void __launch_bounds__(kThreads) pack_kernel(const PackParams p) {
  constexpr int kChunks = 128 * 4 * kTilesPerBlock / kThreads;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.y) * formats::kSm90BlockRows;
  const std::int64_t first_tile = static_cast<std::int64_t>(blockIdx.x) * kTilesPerBlock;
  const std::int64_t used = p.cols / 2 * kSize;
  const int tiles =
      static_cast<int>(min(static_cast<std::int64_t>(kTilesPerBlock), p.layout.k_tiles() - first_tile));
  std::uint8_t* slabs = p.slabs + p.layout.slab_offset(blockIdx.y, first_tile);
  const int slab_bytes = static_cast<int>(p.layout.slab_bytes());

  // Of 16-byte chunks: 4 a row and tile.
  uint4 chunks[kChunks];
#pragma unroll
  for (int i = 0; i < kChunks; ++i) {
    const int id = i * kThreads + thread;
    chunks[i] = read_values(p, first_row + id / 16, first_tile * 64 + id % 16 * 16, used);
  }
#pragma unroll
  for (int i = 0; i < kChunks; ++i) {
    const int id = i * kThreads + thread;
    const int row = id / 16;
    const int tile = id % 16 / 4;
    if (tile >= tiles) continue;
    const uint4 clean = clean_values<kSize>(p, first_row + row, first_tile * 64 + id % 16 * 16, chunks[i]);
    *reinterpret_cast<uint4*>(slabs + tile * slab_bytes +
                              formats::sm90_value_offset(kSize, row, id % 4 * 16 / kSize)) = clean;
  }

  // A thread's metadata of both m64 blocks (see sm90_metadata_place): 8-bit types, 8 groups of one row in
  // each of two words; 16-bit types, 4 groups of each of two rows in one word.
  const int quad = thread % 4;
  const std::int64_t row = first_row + thread / 128 * 64 + thread % 128 / 32 * 16 + thread % 32 / 4;
  for (int tile = 0; tile < tiles; ++tile) {
    std::uint8_t* words = slabs + tile * slab_bytes + formats::kSm90SlabValueBytes;
    if constexpr (kSize == 1) {
      const std::int64_t group = (first_tile + tile) * 32 + quad / 2 * 8;
      const std::int64_t source_row = row + quad % 2 * 8;
      const uint2 pair = {read_metadata<8>(p, source_row, group),
                          read_metadata<8>(p, source_row, group + 16)};
      reinterpret_cast<uint2*>(words)[thread] = pair;
    } else {
      const std::int64_t group = (first_tile + tile) * 16 + quad * 4;
      const std::uint32_t low = read_metadata<4>(p, row, group);
      reinterpret_cast<std::uint32_t*>(words)[thread] = low | (read_metadata<4>(p, row + 8, group) << 16);
    }
  }
}

__global__ void finish_pack_kernel(const PackParams p, int size) {
  if (take_violation(p.violation, p.cols / 4) < 0) return;
  const std::int64_t row = p.violation->row;
  const std::int64_t group = p.violation->group;
  const std::uint32_t byte = p.positions[row * p.position_stride + group / 2];
  p.violation->nibble = (byte >> (4 * (group % 2))) & 0xfu;
  for (int j = 0; j < 2; ++j) {
    const std::uint8_t* value = p.values + row * p.value_row_bytes + (2 * group + j) * size;
    const std::uint32_t bits = size == 1 ? value[0] : value[0] | static_cast<std::uint32_t>(value[1]) << 8;
    p.violation->values[j] = weight_value(p.kind, bits);
  }
}

bool starts_at(const void* data, std::int64_t row_bytes, int alignment) {
  return reinterpret_cast<std::uintptr_t>(data) % static_cast<unsigned>(alignment) == 0 &&
         row_bytes % alignment == 0;
}

}  // namespace

void pack_24_sm90_cuda(const Pack24Sm90Args& args) {
  const CurrentDevice device(args.stream.device.index);
  const Sm90Source source = sm90_source(args);
  const int size = static_cast<int>(dtype_size(source.dtype));
  const TwoFourTables tables = two_four_tables(source.form);
  PackParams p = {};
  p.values = static_cast<const std::uint8_t*>(source.values);
  p.positions = source.positions;
  p.rows = source.rows;
  p.cols = source.cols;
  p.value_row_bytes = source.value_stride * size;
  p.position_stride = source.position_stride;
  p.layout = {source.rows, source.cols, size};
  p.slabs = static_cast<std::uint8_t*>(args.slabs);
  for (std::uint32_t nibble = 0; nibble < 16; ++nibble) {
    const NibbleTable metadata = look_up(tables.metadata, look_up(tables.bitmask, nibble));
    p.metadata |= metadata << (4 * nibble);
  }
  p.kind = weight_bits(source.dtype);
  p.violation = args.violation;
  p.vector_values = starts_at(p.values, p.value_row_bytes, 16);
  p.vector_positions = starts_at(p.positions, p.position_stride, 4);
  auto* stream = static_cast<cudaStream_t>(args.stream.handle);
  check_cuda(clear_violation(args.violation, stream), "pack_24_sm90");
  const dim3 grid(static_cast<unsigned>((p.layout.k_tiles() + kTilesPerBlock - 1) / kTilesPerBlock),
                  static_cast<unsigned>(p.layout.row_blocks()));
  if (grid.x > 0 && grid.y > 0) {
    if (size == 1) {
      pack_kernel<1><<<grid, kThreads, 0, stream>>>(p);
    } else {
      pack_kernel<2><<<grid, kThreads, 0, stream>>>(p);
    }
    check_cuda(cudaGetLastError(), "pack_24_sm90");
  }
  finish_pack_kernel<<<1, 1, 0, stream>>>(p, size);
  check_cuda(cudaGetLastError(), "pack_24_sm90");
}

}  // namespace grille::kernels
