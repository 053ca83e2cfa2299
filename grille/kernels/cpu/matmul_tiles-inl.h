// Many tokens on a machine with tile registers. After decode_avx512-inl.h and matmul-inl.h, inside the
// AVX-512 region. `Tiles` is AmxTiles (tiles_amx-inl.h) or, in tests, an emulation.
//
// Two tiles of 16 weight rows are decoded at a time, so few columns that they stay in the first-level cache,
//   [tile of 16 rows][k step][row of the tile][kStep columns],
// tokens are packed as the instruction wants its second factor: pairs of columns outside, tokens inside,
//   [tile of 16 tokens][k step][vector of 32 columns][pair of columns][token of the tile][2],
// and 2 x 2 tiles of sums are multiplied at a time, so that a loaded tile is used twice. The sums of a block,
//   [tile of 16 tokens][tile of 16 rows][row][token],
// stay in the second-level cache until all columns are in.
#pragma once

namespace grille::kernels {
namespace {

constexpr std::int64_t kTileRows = 16;         // of weights; and tokens
constexpr std::int64_t kTileSums = 16 * 16;    // of a tile of sums
constexpr std::int64_t kTileColumns = 512;     // decoded at a time: a pair of row tiles then takes 32 KiB
constexpr std::int64_t kTileTokenBlock = 512;  // tokens whose sums are kept
constexpr std::int64_t kTileRowBytes = 64;

// Tokens of any pair class, tiles [begin, end). Tokens past the last one are zero.
template <typename C, typename X>
void pack_token_tiles(const ConstMatrixView& x, std::int64_t begin, std::int64_t end, BFloat16* packed) {
  const typename C::Constants constants;
  const std::int64_t steps = step_count<C>(x.cols);
  for (std::int64_t tile = begin; tile < end; ++tile) {
    const std::int64_t tokens = std::min(kTileRows, x.rows - tile * kTileRows);
    BFloat16* out = packed + tile * kTileRows * steps * C::kStep;
    for (std::int64_t step = 0; step < steps; ++step) {
      const std::int64_t left = x.cols - step * C::kStep;
      Simd::Vec pairs[C::kVectors][kTileRows] = {};
      for (std::int64_t t = 0; t < tokens; ++t) {
        const X* in = reinterpret_cast<const X*>(x.row(tile * kTileRows + t)) + step * C::kStep;
        X tail[C::kStep] = {};
        if (left < C::kStep) {
          std::memcpy(tail, in, static_cast<std::size_t>(left) * sizeof(X));
          in = tail;
        }
        typename C::In v[C::kVectors];
        C::decode(constants, in, v);
        for (int i = 0; i < C::kVectors; ++i) pairs[i][t] = _mm512_castsi512_ps(v[i]);
      }
      for (int i = 0; i < C::kVectors; ++i) {
        Simd::transpose(pairs[i]);
        for (int pair = 0; pair < kTileRows; ++pair, out += C::kLanes) {
          _mm512_storeu_ps(reinterpret_cast<float*>(out), pairs[i][pair]);
        }
      }
    }
  }
}

// R x T tiles of sums [T][R][16][16], the token tiles `sums_stride` apart, (+)= `steps` steps of R row tiles
// and T token tiles.
template <typename C, typename Tiles, int R, int T>
void multiply_tiles(const BFloat16* rows, std::int64_t row_stride, const BFloat16* x, std::int64_t x_stride,
                    std::int64_t steps, float* sums, std::int64_t sums_stride, bool first, Ahead& ahead) {
  if (first) {
    Tiles::template zero<0>();
    if constexpr (T > 1) Tiles::template zero<1>();
    if constexpr (R > 1) Tiles::template zero<2>();
    if constexpr (R > 1 && T > 1) Tiles::template zero<3>();
  } else {
    Tiles::template load<0>(sums, kTileRowBytes);
    if constexpr (T > 1) Tiles::template load<1>(sums + sums_stride, kTileRowBytes);
    if constexpr (R > 1) Tiles::template load<2>(sums + kTileSums, kTileRowBytes);
    if constexpr (R > 1 && T > 1) Tiles::template load<3>(sums + sums_stride + kTileSums, kTileRowBytes);
  }
  constexpr std::int64_t kRowStride = C::kStep * static_cast<std::int64_t>(sizeof(BFloat16));
  for (std::int64_t step = 0; step < steps; ++step) {
    for (int v = 0; v < C::kVectors; ++v) {
      Tiles::template load<4>(rows + v * C::kLanes, kRowStride);
      Tiles::template load<6>(x, kTileRowBytes);
      Tiles::template multiply<0, 4, 6>();
      if constexpr (T > 1) {
        Tiles::template load<7>(x + x_stride, kTileRowBytes);
        Tiles::template multiply<1, 4, 7>();
      }
      if constexpr (R > 1) {
        Tiles::template load<5>(rows + row_stride + v * C::kLanes, kRowStride);
        Tiles::template multiply<2, 5, 6>();
        if constexpr (T > 1) Tiles::template multiply<3, 5, 7>();
      }
      x += kTileRows * C::kLanes;
      ahead.advance();
    }
    rows += kTileRows * C::kStep;
  }
  Tiles::template store<0>(sums, kTileRowBytes);
  if constexpr (T > 1) Tiles::template store<1>(sums + sums_stride, kTileRowBytes);
  if constexpr (R > 1) Tiles::template store<2>(sums + kTileSums, kTileRowBytes);
  if constexpr (R > 1 && T > 1) Tiles::template store<3>(sums + sums_stride + kTileSums, kTileRowBytes);
}

// Sums of one token tile [row tile][16 rows][16 tokens] -> [16 tokens][row tiles * 16].
inline void transpose_sums(const float* sums, std::int64_t row_tiles, float* out) {
  for (std::int64_t tile = 0; tile < row_tiles; ++tile) {
    Simd::Vec v[kTileRows];
    for (int i = 0; i < kTileRows; ++i) v[i] = Simd::load(sums + tile * kTileSums + i * kTileRows);
    Simd::transpose(v);
    for (int i = 0; i < kTileRows; ++i) Simd::store(out + (i * row_tiles + tile) * kTileRows, v[i]);
  }
}

// A panel of weight rows times a block of tokens.
template <typename C, typename Rows, typename Tiles>
class TileBlock {
 public:
  // Rows [block.row_end, next_end) come next: the first of them are fetched ahead.
  TileBlock(const MatmulJob& job, const MatmulBlock& block, std::int64_t next_end)
      : job_(job),
        block_(block),
        next_end_(next_end),
        row_tiles_((block.row_end - block.row_begin + kTileRows - 1) / kTileRows),
        token_tiles_((block.token_end - block.token_begin + kTileRows - 1) / kTileRows),
        steps_(step_count<C>(job.k)),
        pairs_((row_tiles_ + 1) / 2),
        chunks_(pairs_ * ((steps_ + kPart - 1) / kPart)) {}

  void run() {
    panel_ = panel_scratch_.get_as<BFloat16>(static_cast<std::size_t>(kPairRows * kTileColumns));
    sums_ = sums_scratch_.get_as<float>(static_cast<std::size_t>(token_tiles_ * row_tiles_ * kTileSums));
    for (std::int64_t chunk = 0; chunk < chunks_; ++chunk) {
      const std::int64_t begin = chunk / pairs_ * kPart;
      multiply_rows(chunk % pairs_ * 2, begin, std::min(steps_, begin + kPart),
                    chunk_ahead(chunk + kChunksAhead));
    }
    store();
  }

 private:
  static constexpr std::int64_t kPart = kTileColumns / C::kStep;
  static constexpr std::int64_t kPairRows = 2 * kTileRows;
  static constexpr std::int64_t kChunksAhead = 2;  // about as long as memory takes, if there are few tokens

  // Two row tiles, or the last one, times all tokens. Steps [begin, end).
  void multiply_rows(std::int64_t row, std::int64_t begin, std::int64_t end, Ahead ahead) {
    const std::int64_t first = block_.row_begin + row * kTileRows;
    Ahead nothing({}, {}, 1);
    decode_panel<C, Rows, kTileRows>(job_, first, std::min(first + kPairRows, block_.row_end), begin, end,
                                     panel_, fetches_while_decoding() ? ahead : nothing);
    for (std::int64_t token = 0; token < token_tiles_; token += 2) {
      const bool one_token = token + 1 == token_tiles_;
      if (row + 1 == row_tiles_) {
        one_token ? multiply<1, 1>(row, token, begin, end, ahead)
                  : multiply<1, 2>(row, token, begin, end, ahead);
      } else {
        one_token ? multiply<2, 1>(row, token, begin, end, ahead)
                  : multiply<2, 2>(row, token, begin, end, ahead);
      }
    }
  }

  // What a later chunk decodes, of this block or the first ones of the next.
  Ahead chunk_ahead(std::int64_t chunk) const {
    const bool here = chunk < chunks_;
    if (!here) chunk -= chunks_;
    const std::int64_t row = (here ? block_.row_begin : block_.row_end) + chunk % pairs_ * kPairRows;
    const std::int64_t begin = std::min(steps_, chunk / pairs_ * kPart);
    const std::int64_t during =
        (token_tiles_ + 1) / 2 * C::kVectors + (fetches_while_decoding() ? kPairRows : 0);
    return panel_ahead<C>(job_, row, std::min(row + kPairRows, here ? block_.row_end : next_end_), begin,
                          std::min(steps_, begin + kPart), during * kPart);
  }

  // For rows that are read to their end: decoding 2:4 float8 with 16 tokens was a quarter faster so on one
  // core of an Intel Xeon. For parts of many rows, which lie far apart, it was a third slower.
  bool fetches_while_decoding() const { return pairs_ == 1; }

  template <int R, int T>
  void multiply(std::int64_t row, std::int64_t token, std::int64_t begin, std::int64_t end, Ahead& ahead) {
    const std::int64_t row_stride = (end - begin) * kTileRows * C::kStep;
    const std::int64_t x_stride = steps_ * kTileRows * C::kStep;
    const auto* x = static_cast<const BFloat16*>(job_.packed_x) +
                    (block_.token_begin / kTileRows + token) * x_stride + begin * kTileRows * C::kStep;
    multiply_tiles<C, Tiles, R, T>(panel_, row_stride, x, x_stride, end - begin,
                                   sums_ + (token * row_tiles_ + row) * kTileSums, row_tiles_ * kTileSums,
                                   begin == 0, ahead);
  }

  void store() {
    float* rows = rows_scratch_.get_as<float>(static_cast<std::size_t>(row_tiles_ * kTileSums));
    for (std::int64_t tile = 0; tile < token_tiles_; ++tile) {
      transpose_sums(sums_ + tile * row_tiles_ * kTileSums, row_tiles_, rows);
      const std::int64_t token = block_.token_begin + tile * kTileRows;
      store_block<C>(
          job_, rows, row_tiles_ * kTileRows,
          {block_.row_begin, block_.row_end, token, std::min(token + kTileRows, block_.token_end)});
    }
  }

  static inline thread_local Scratch panel_scratch_, sums_scratch_, rows_scratch_;
  const MatmulJob& job_;
  const MatmulBlock block_;
  const std::int64_t next_end_;
  const std::int64_t row_tiles_;
  const std::int64_t token_tiles_;
  const std::int64_t steps_;
  const std::int64_t pairs_;   // of row tiles
  const std::int64_t chunks_;  // pairs times parts of the columns, in the order of work
  BFloat16* panel_ = nullptr;
  float* sums_ = nullptr;
};

template <typename C, typename Rows, typename Tiles>
void run_tiles(const MatmulJob& job, const MatmulBlock& block) {
  const typename Tiles::Session session;
  for (std::int64_t row = block.row_begin; row < block.row_end; row += job.plan.panel_rows) {
    const std::int64_t row_end = std::min(row + job.plan.panel_rows, block.row_end);
    for (std::int64_t token = block.token_begin; token < block.token_end; token += kTileTokenBlock) {
      const std::int64_t token_end = std::min(token + kTileTokenBlock, block.token_end);
      const std::int64_t next_end =
          token_end < block.token_end ? row_end : std::min(row_end + job.plan.panel_rows, block.row_end);
      TileBlock<C, Rows, Tiles>(job, {row, row_end, token, token_end}, next_end).run();
    }
  }
}

template <typename C, typename Tiles>
void run_weight_tiles(const MatmulJob& job, const MatmulBlock& block) {
  using W = typename C::Weight;
  job.mask != nullptr ? run_tiles<C, StoredRows<C, W, true>, Tiles>(job, block)
                      : run_tiles<C, StoredRows<C, W, false>, Tiles>(job, block);
}

// Tiles where the plan asks for them, else AVX-512.
template <typename Tiles>
constexpr MatmulKernels tile_kernels() {
  return {[](const ConstMatrixView& x, ComputeClass compute) {
            if (!uses_tiles(compute)) return matmul_kernels_avx512().packed_bytes(x, compute);
            const std::int64_t rows = (x.rows + kTileRows - 1) / kTileRows * kTileRows;
            return rows * step_count<PairCompute>(x.cols) * PairCompute::kStep *
                   static_cast<std::int64_t>(sizeof(BFloat16));
          },
          [](const ConstMatrixView& x, const MatmulPlan& plan, std::int64_t begin, std::int64_t end,
             void* packed) {
            if (!uses_tiles(plan.compute))
              return matmul_kernels_avx512().pack_tokens(x, plan, begin, end, packed);
            auto* out = static_cast<BFloat16*>(packed);
            const bool float8 = x.dtype == DType::kFloat8E4M3;
            if (plan.compute == ComputeClass::kFloat8Tiles) {
              float8 ? pack_token_tiles<Float8PairCompute, Float8>(x, begin, end, out)
                     : pack_token_tiles<Float8PairCompute, BFloat16>(x, begin, end, out);
            } else {
              float8 ? pack_token_tiles<Float8TokensPairCompute, Float8>(x, begin, end, out)
                     : pack_token_tiles<PairCompute, BFloat16>(x, begin, end, out);
            }
          },
          [](const MatmulJob& job, const MatmulBlock& block) {
            if (!uses_tiles(job.plan.compute)) return matmul_kernels_avx512().run(job, block);
            job.plan.compute == ComputeClass::kFloat8Tiles
                ? run_weight_tiles<Float8PairCompute, Tiles>(job, block)
                : run_weight_tiles<PairCompute, Tiles>(job, block);
          }};
}

}  // namespace
}  // namespace grille::kernels
