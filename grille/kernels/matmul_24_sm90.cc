#include "grille/kernels/matmul_24_sm90.h"

#include "grille/base/error.h"
#include "grille/kernels/cuda/matmul_24_large.h"
#include "grille/kernels/cuda/matmul_24_sm90.h"
#include "grille/kernels/cuda/stream_24_layout.h"
#include "grille/kernels/matmul_24_large_plan.h"

namespace grille::kernels {
namespace {

constexpr std::size_t kWorkspaceAlignment = 256;

bool is_aligned(const void* data, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(data) % alignment == 0;
}

// The bytes from the first element of a view to its last.
struct ByteRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool overlaps(const ByteRange& other) const { return begin < other.end && other.begin < end; }
};

ByteRange range_of(const void* data, std::int64_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  return {begin, begin + static_cast<std::uintptr_t>(bytes)};
}

ByteRange range_of(const ConstMatrixView& view) {
  if (view.data == nullptr || view.rows == 0) return {};
  const auto size = static_cast<std::int64_t>(dtype_size(view.dtype));
  return range_of(view.data, ((view.rows - 1) * view.row_stride + view.cols) * size);
}

void check_matrix(const char* name, const ConstMatrixView& view, std::int64_t rows, std::int64_t cols) {
  check(view.rows == rows && view.cols == cols && (rows <= 1 || view.row_stride >= cols),
        ErrorCode::kInvalidArgument,
        "matmul_24_sm90: expected {} of [{}, {}], got [{}, {}] with row stride {}", name, rows, cols,
        view.rows, view.cols, view.row_stride);
  check(view.data != nullptr && is_aligned(view.data, dtype_size(view.dtype)), ErrorCode::kInvalidArgument,
        "matmul_24_sm90: {} is null or not aligned to its {} elements", name, dtype_name(view.dtype));
}

void check_dtypes(const Matmul24Sm90Args& args) {
  const DType dtype = args.x.dtype;
  check(formats::is_sm90_dtype(dtype) && args.weight.dtype == dtype, ErrorCode::kInvalidArgument,
        "matmul_24_sm90: x is {} and the weight {}; expected both bfloat16, float16, float8_e4m3fn or int8",
        dtype_name(dtype), dtype_name(args.weight.dtype));
  const DType out = args.y.dtype;
  check(out == DType::kBFloat16 || out == DType::kFloat16 || out == DType::kFloat32,
        ErrorCode::kInvalidArgument, "matmul_24_sm90: y is {}, expected bfloat16, float16 or float32",
        dtype_name(out));
  check(args.residual.data == nullptr || args.residual.dtype == out, ErrorCode::kInvalidArgument,
        "matmul_24_sm90: the residual is {}, y {}", dtype_name(args.residual.dtype), dtype_name(out));
  const bool scaled = dtype_size(dtype) == 1;
  check((args.x_scale != nullptr) == scaled && (args.weight_scale != nullptr) == scaled,
        ErrorCode::kInvalidArgument, "matmul_24_sm90: {} {} scales of x and of the weight", dtype_name(dtype),
        scaled ? "needs" : "takes no");
}

void check_aliases(const Matmul24Sm90Args& args) {
  const ByteRange y = range_of(args.y);
  const ByteRange workspace = range_of(args.workspace, static_cast<std::int64_t>(args.workspace_bytes));
  const ByteRange weight = range_of(args.weight.slabs, args.weight.layout().bytes());
  const ByteRange residual = range_of(args.residual);
  const bool in_place = args.residual.data == args.y.data && args.residual.row_stride == args.y.row_stride;
  check(!y.overlaps(range_of(args.x)) && !y.overlaps(weight) && !y.overlaps(workspace) &&
            (in_place || !y.overlaps(residual)),
        ErrorCode::kInvalidArgument,
        "matmul_24_sm90: y overlaps x, the weight, the workspace or a residual that is "
        "not y itself");
}

Matmul24Sm90Problem problem_of(const Matmul24Sm90Args& args) {
  return {.m = args.x.rows,
          .n = args.weight.rows,
          .k = args.weight.cols,
          .dtype = args.x.dtype,
          .x_aligned = is_matmul_24_sm90_aligned(args.x),
          .swiglu = args.swiglu,
          .fast_accumulation = args.fast_accumulation};
}

void check_args(const Matmul24Sm90Args& args) {
  check(args.stream.on_cuda(), ErrorCode::kUnsupported,
        "matmul_24_sm90: expected a CUDA stream; on a CPU use matmul_24");
  check_dtypes(args);
  const std::int64_t n = args.weight.rows;
  const std::int64_t k = args.weight.cols;
  check(args.x.rows >= 1 && n >= 1 && k >= 4 && k % 4 == 0, ErrorCode::kInvalidArgument,
        "matmul_24_sm90: expected at least 1 token, 1 row and columns in groups of 4, got m {}, n {}, k {}",
        args.x.rows, n, k);
  check_matrix("x", args.x, args.x.rows, k);
  check(
      !args.swiglu || (n % 2 == 0 && args.residual.data == nullptr && args.y.dtype != DType::kFloat32),
      ErrorCode::kInvalidArgument,
      "matmul_24_sm90: SwiGLU wants an even number of rows, no residual and y of bfloat16 or float16; got {} "
      "rows, {} residual and y of {}",
      n, args.residual.data == nullptr ? "no" : "a", dtype_name(args.y.dtype));
  check_matrix("y", args.y, args.x.rows, args.swiglu ? n / 2 : n);
  if (args.residual.data != nullptr) check_matrix("residual", args.residual, args.x.rows, n);
  check(args.weight.slabs != nullptr && is_aligned(args.weight.slabs, formats::kSm90Alignment),
        ErrorCode::kInvalidArgument, "matmul_24_sm90: the weight is null or not aligned to {} bytes",
        formats::kSm90Alignment);
  check_aliases(args);
}

void check_workspace(const Matmul24Sm90Args& args, const Matmul24Sm90Plan& plan) {
  const std::size_t needed = matmul_24_sm90_workspace(problem_of(args), plan);
  check(args.workspace != nullptr && args.workspace_bytes >= needed &&
            is_aligned(args.workspace, kWorkspaceAlignment),
        ErrorCode::kInvalidArgument,
        "matmul_24_sm90: expected a workspace of {} bytes, aligned to {}, got {} bytes at {}", needed,
        kWorkspaceAlignment, args.workspace_bytes, args.workspace);
}

void check_plan(const Matmul24Sm90Args& args, const Matmul24Sm90Plan& plan) {
  const std::string refusal = refusal_of_plan_24_sm90(problem_of(args), sm90_caps(args.stream), plan);
  check(refusal.empty(), ErrorCode::kInvalidArgument, "matmul_24_sm90: {}", refusal);
}

void launch(const Matmul24Sm90Args& args, const Matmul24Sm90Plan& plan) {
  check_workspace(args, plan);
  if (plan.kernel == Matmul24Kernel::kLarge) return matmul_24_large_cuda(args, plan);
  stream_24_sm90_cuda(args, plan);
}

}  // namespace

bool is_matmul_24_sm90_aligned(const ConstMatrixView& x) {
  const auto size = static_cast<std::int64_t>(dtype_size(x.dtype));
  return is_aligned(x.data, 16) && (x.rows <= 1 || x.row_stride * size % 16 == 0);
}

Sm90Caps sm90_caps(const Stream& stream) {
  check(stream.on_cuda(), ErrorCode::kUnsupported, "sm90_caps: expected a CUDA stream");
  return sm90_caps_cuda(stream);
}

std::size_t matmul_24_sm90_workspace(const Matmul24Sm90Problem& problem, const Matmul24Sm90Plan& plan) {
  auto bytes = static_cast<std::int64_t>(kMatmul24CounterBytes);
  bytes += plan.kernel == Matmul24Kernel::kStream
               ? stream_24_partial_bytes(plan.token_tile, plan.clusters, plan.group_rows)
               : large_24_partial_bytes(plan);
  if (!problem.x_aligned)
    bytes += problem.m * aligned_x_row_bytes(problem.k, static_cast<int>(dtype_size(problem.dtype)));
  return static_cast<std::size_t>(bytes);
}

void matmul_24_sm90(const Matmul24Sm90Args& args) {
  check_args(args);
  const Matmul24Sm90Plan plan = plan_matmul_24_sm90(problem_of(args), sm90_caps(args.stream), args.plans);
  launch(args, plan);
}

void matmul_24_sm90(const Matmul24Sm90Args& args, const Matmul24Sm90Plan& plan) {
  check_args(args);
  check_plan(args, plan);
  launch(args, plan);
}

}  // namespace grille::kernels
