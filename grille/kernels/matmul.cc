#include "grille/kernels/matmul.h"

#include <algorithm>
#include <array>
#include <vector>

#include "grille/base/cpu_features.h"
#include "grille/base/error.h"
#include "grille/base/parallel.h"
#include "grille/base/shared_range.h"
#include "grille/kernels/cpu/matmul_kernels.h"
#include "grille/kernels/cpu/scratch.h"
#include "grille/kernels/matmul_plan.h"

namespace grille::kernels {
namespace {

// A thread is worth waking for this many bytes of weight (or as much arithmetic): about 2 us of work.
constexpr std::int64_t kBytesPerThread = 24 * 1024;
constexpr std::int64_t kTokensPerByte = 4;  // from here on arithmetic outweighs reading
// Streams of weights are taken in pieces, so that threads end together: of so many bytes.
constexpr std::int64_t kPieceUnit = 64;
constexpr std::int64_t kPiecesPerThread = 8;
constexpr std::int64_t kSmallestPiece = 8 * 1024;
constexpr std::int64_t kLargestPiece = 64 * 1024;
constexpr std::int64_t kPackedElementsPerThread = 64 * 1024;

const MatmulKernels& kernels_for(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAmx) return matmul_kernels_amx();
  if (isa == Isa::kAvx512) return matmul_kernels_avx512();
  if (isa == Isa::kAvx2) return matmul_kernels_avx2();
#endif
  return matmul_kernels_scalar();
}

bool is_element(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16 ||
         dtype == DType::kFloat8E4M3;
}

// `name` is x or weight: an element type; FP8 has a scale, the others may.
void check_operand(const char* name, DType dtype, bool empty, bool scaled) {
  check(is_element(dtype), ErrorCode::kInvalidArgument,
        "matmul: {} is {}, expected float32, bfloat16, float16 or float8_e4m3fn", name, dtype_name(dtype));
  check(empty || scaled || dtype != DType::kFloat8E4M3, ErrorCode::kInvalidArgument,
        "matmul: {} of {} needs a scale", name, dtype_name(dtype));
}

bool has_rows(const ConstMatrixView& view) { return view.rows <= 1 || view.row_stride >= view.cols; }

void check_tokens(const MatmulTokens& tokens) {
  const ConstMatrixView& x = tokens.x;
  check_operand("x", x.dtype, x.rows == 0, tokens.x_scale != nullptr);
  check(x.rows >= 0 && x.cols >= 1 && has_rows(x), ErrorCode::kInvalidArgument,
        "matmul: x is [{}, {}] with row stride {}", x.rows, x.cols, x.row_stride);
}

// The weight's part of a job, checked.
MatmulJob weight_job(const DenseWeight& dense) {
  const ConstMatrixView& w = dense.weight;
  check(has_rows(w), ErrorCode::kInvalidArgument, "matmul_dense: weight is [{}, {}] with row stride {}",
        w.rows, w.cols, w.row_stride);
  MatmulJob job;
  job.n = w.rows;
  job.k = w.cols;
  job.values = static_cast<const std::byte*>(w.data);
  job.value_row_bytes = w.row_stride * static_cast<std::int64_t>(dtype_size(w.dtype));
  job.weight_dtype = w.dtype;
  job.scale = dense.scale;
  job.bias = dense.bias;
  return job;
}

MatmulJob weight_job(const TwoFourWeight& sparse) {
  const formats::TwoFourBitmaskView& w = sparse.weight;
  check(w.cols % 4 == 0, ErrorCode::kInvalidArgument, "matmul_24: expected columns in groups of 4, got {}",
        w.cols);
  check(w.rows <= 1 || (w.value_stride >= w.cols / 2 && w.mask_stride >= (w.cols + 7) / 8),
        ErrorCode::kInvalidArgument, "matmul_24: weight is [{}, {}] with value stride {} and mask stride {}",
        w.rows, w.cols, w.value_stride, w.mask_stride);
  check(w.mask != nullptr || w.rows == 0, ErrorCode::kInvalidArgument, "matmul_24: the weight has no mask");
  MatmulJob job;
  job.n = w.rows;
  job.k = w.cols;
  job.values = static_cast<const std::byte*>(w.values);
  job.value_row_bytes = w.value_stride * static_cast<std::int64_t>(dtype_size(w.dtype));
  job.mask = w.mask;
  job.mask_row_bytes = w.mask_stride;
  job.weight_dtype = w.dtype;
  job.scale = sparse.scale;
  job.bias = sparse.bias;
  return job;
}

MatmulJob make_job(const MatmulTokens& tokens, const AnyWeight& weight, const MatmulOutput& output, Isa isa) {
  MatmulJob job = std::visit([](const auto& w) { return weight_job(w); }, weight);
  const MatrixView& y = output.y;
  check_operand("weight", job.weight_dtype, job.n == 0, job.scale != nullptr);
  check(job.k == tokens.x.cols, ErrorCode::kInvalidArgument, "matmul: x has {} columns, the weight {}",
        tokens.x.cols, job.k);
  check(y.rows == tokens.x.rows && y.cols == job.n && has_rows(y), ErrorCode::kInvalidArgument,
        "matmul: expected y of [{}, {}], got [{}, {}] with row stride {}", tokens.x.rows, job.n, y.rows,
        y.cols, y.row_stride);
  check(is_element(y.dtype) && y.dtype != DType::kFloat8E4M3, ErrorCode::kInvalidArgument,
        "matmul: y is {}, expected float32, bfloat16 or float16", dtype_name(y.dtype));
  job.m = tokens.x.rows;
  job.x_dtype = tokens.x.dtype;
  job.x_scale = tokens.x_scale;
  job.y = y;
  job.accumulate = output.accumulate;
  job.plan = plan_matmul({job.m, job.n, job.k, job.x_dtype, job.weight_dtype, job.mask != nullptr}, isa,
                         slow_bfloat16_pairs());
  return job;
}

// Prepares x once for each compute class that the jobs use, in memory that the thread keeps.
void pack_tokens(const ConstMatrixView& x, std::span<MatmulJob> jobs, const MatmulKernels& kernels) {
  thread_local std::array<Scratch, kComputeClasses> scratch;
  std::array<const void*, kComputeClasses> packed = {};
  for (MatmulJob& job : jobs) {
    const auto index = static_cast<std::size_t>(job.plan.compute);
    if (packed[index] == nullptr) {
      void* memory = scratch[index].get(static_cast<std::size_t>(kernels.packed_bytes(x, job.plan.compute)));
      const std::int64_t tiles = (job.m + job.plan.token_tile - 1) / job.plan.token_tile;
      const std::int64_t grain = kPackedElementsPerThread / (x.cols * job.plan.token_tile) + 1;
      parallel_for(tiles, grain, [&](std::int64_t begin, std::int64_t end) {
        kernels.pack_tokens(x, job.plan, begin, end, memory);
      });
      packed[index] = memory;
    }
    job.packed_x = packed[index];
  }
}

// The work of all jobs as a grid of blocks: rows of all jobs behind each other, cut evenly (where weights
// stream by, their bytes), times token tiles.
class WorkSplit {
 public:
  WorkSplit(std::span<const MatmulJob> jobs, std::int64_t threads) : jobs_(jobs), plan_(jobs.front().plan) {
    std::int64_t bytes = 0;
    std::int64_t rows = 0;
    for (const MatmulJob& job : jobs) {
      total_ += job.n * row_cost(job);
      bytes += job.n * row_bytes(job);
      rows += job.n;
    }
    const std::int64_t m = jobs.front().m;
    const std::int64_t work = bytes * ((m + kTokensPerByte - 1) / kTokensPerByte);
    grid_ = plan_grid(plan_, m, rows, std::clamp<std::int64_t>(work / kBytesPerThread, 1, threads));
    tiles_ = (m + plan_.token_tile - 1) / plan_.token_tile;
  }

  void run(const MatmulKernels& kernels) const {
    if (plan_.expand_panel) {
      run_blocks(kernels);
    } else {
      run_streams(kernels);
    }
  }

 private:
  void run_blocks(const MatmulKernels& kernels) const {
    const auto token_at = [&](std::int64_t i) { return tiles_ * i / grid_.token_parts * plan_.token_tile; };
    parallel_for(grid_.parts(), 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t part = first; part < last; ++part) {
        const std::int64_t row_part = part / grid_.token_parts;
        const std::int64_t token_part = part % grid_.token_parts;
        run_rows(kernels, total_ * row_part / grid_.row_parts, total_ * (row_part + 1) / grid_.row_parts,
                 {0, 0, token_at(token_part), token_at(token_part + 1), 0, false});
      }
    });
  }

  // All tokens at once. Memory serves threads by turns and the caller starts first, so that equal parts would
  // end at different times: threads take pieces.
  void run_streams(const MatmulKernels& kernels) const {
    thread_local SharedRange own_range;
    SharedRange& range = own_range;  // the caller's, also inside the parallel loop
    range.reset((total_ + kPieceUnit - 1) / kPieceUnit, grid_.row_parts);
    const std::int64_t piece =
        std::clamp(total_ / grid_.row_parts / kPiecesPerThread, kSmallestPiece, kLargestPiece) / kPieceUnit;
    parallel_for(grid_.row_parts, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t part = first; part < last; ++part) {
        while (const auto taken = range.take(part, piece)) {
          run_rows(kernels, taken->begin * kPieceUnit, taken->end * kPieceUnit,
                   {0, 0, 0, plan_.token_tile, taken->part_end * kPieceUnit, taken->follows});
        }
      }
    });
  }

  // The rows of [begin, end) in units of cost; `tokens` has the rest of the block, its rows_ahead_end in
  // cost.
  void run_rows(const MatmulKernels& kernels, std::int64_t begin, std::int64_t end,
                const MatmulBlock& tokens) const {
    std::int64_t offset = 0;
    for (const MatmulJob& job : jobs_) {
      MatmulBlock block = tokens;
      block.row_begin = row_at(job, begin - offset);
      block.row_end = row_at(job, end - offset);
      block.token_end = std::min(job.m, tokens.token_end);
      block.rows_ahead_end = row_at(job, tokens.rows_ahead_end - offset);
      block.follows = tokens.follows && block.row_begin > 0;
      if (block.row_begin < block.row_end) kernels.run(job, block);
      offset += job.n * row_cost(job);
    }
  }

  static std::int64_t row_bytes(const MatmulJob& job) { return job.value_row_bytes + job.mask_row_bytes + 1; }
  static std::int64_t row_cost(const MatmulJob& job) { return job.plan.expand_panel ? 1 : row_bytes(job); }

  // The row group that starts at or after `cost` of the job, as a row.
  static std::int64_t row_at(const MatmulJob& job, std::int64_t cost) {
    if (cost <= 0) return 0;
    const std::int64_t group_cost = job.plan.row_group * row_cost(job);
    return std::min(job.n, (cost + group_cost - 1) / group_cost * job.plan.row_group);
  }

  std::span<const MatmulJob> jobs_;
  const MatmulPlan& plan_;  // tokens and tiles are the same in all jobs
  MatmulGrid grid_;
  std::int64_t total_ = 0;
  std::int64_t tiles_ = 0;
};

void run_jobs(const ConstMatrixView& x, std::span<MatmulJob> jobs, Isa isa) {
  if (x.rows == 0 || jobs.empty()) return;
  const MatmulKernels& kernels = kernels_for(isa);
  pack_tokens(x, jobs, kernels);
  const auto threads = std::min<std::int64_t>(num_threads(), SharedRange::kMaxParts);
  WorkSplit(jobs, threads).run(kernels);
}

}  // namespace

void matmul_dense(const MatmulTokens& tokens, const DenseWeight& weight, const MatmulOutput& output) {
  const AnyWeight any = weight;
  matmul_grouped(tokens, {&any, 1}, {&output, 1});
}

void matmul_24(const MatmulTokens& tokens, const TwoFourWeight& weight, const MatmulOutput& output) {
  const AnyWeight any = weight;
  matmul_grouped(tokens, {&any, 1}, {&output, 1});
}

void matmul_grouped(const MatmulTokens& tokens, std::span<const AnyWeight> weights,
                    std::span<const MatmulOutput> outputs) {
  check(weights.size() == outputs.size(), ErrorCode::kInvalidArgument,
        "matmul_grouped: {} weights, {} outputs", weights.size(), outputs.size());
  check_tokens(tokens);
  thread_local std::vector<MatmulJob> jobs;
  jobs.clear();
  const Isa isa = active_isa();
  for (std::size_t i = 0; i < weights.size(); ++i)
    jobs.push_back(make_job(tokens, weights[i], outputs[i], isa));
  // Jobs that share the work are cut alike.
  const auto rest = std::partition(jobs.begin(), jobs.end(),
                                   [](const MatmulJob& job) { return uses_tiles(job.plan.compute); });
  run_jobs(tokens.x, {jobs.begin(), rest}, isa);
  run_jobs(tokens.x, {rest, jobs.end()}, isa);
}

}  // namespace grille::kernels
