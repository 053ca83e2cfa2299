#include "grille/kernels/cuda/matmul_24_large.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

#include "grille/base/error.h"
#include "grille/kernels/cuda/launch.h"
#include "grille/kernels/cuda/matmul_24_large_params.h"
#include "grille/kernels/cuda/stream_24_launch.h"
#include "grille/kernels/cuda/tensor_map.h"
#include "grille/kernels/matmul_24_large_plan.h"

namespace grille::kernels {
namespace {

constexpr const char* kOp = "matmul_24_sm90";

std::int64_t size_of(DType dtype) { return static_cast<std::int64_t>(dtype_size(dtype)); }

bool is_aligned_to_16(const ConstMatrixView& view) {
  return reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0 &&
         (view.rows <= 1 || view.row_stride * size_of(view.dtype) % 16 == 0);
}

std::span<const LargeKernel> kernels_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat8E4M3: return large_24_kernels_float8();
    case DType::kInt8: return large_24_kernels_int8();
    case DType::kBFloat16: return large_24_kernels_bfloat16();
    default: return large_24_kernels_float16();
  }
}

const LargeKernel& kernel_of(const Matmul24Sm90Plan& plan, DType dtype) {
  const bool promote = plan.promote && dtype == DType::kFloat8E4M3;
  for (const LargeKernel& kernel : kernels_of(dtype)) {
    if (kernel.row_tile == plan.row_tile && kernel.token_tile == plan.token_tile &&
        kernel.promote == promote && (kernel.splits || !plan.split)) {
      return kernel;
    }
  }
  fail(ErrorCode::kInvalidArgument, "{}: there is no kernel for the plan \"{}\" with {}", kOp,
       to_string(plan), dtype_name(dtype));
}

LargeOutput output_of(DType dtype) {
  if (dtype == DType::kFloat32) return LargeOutput::kFloat32;
  return dtype == DType::kBFloat16 ? LargeOutput::kBFloat16 : LargeOutput::kFloat16;
}

// x as the copy engine can read it: itself, or a copy in the workspace behind the sums that blocks hand over.
CUtensorMap x_map(const Matmul24Sm90Args& args, const Matmul24Sm90Plan& plan) {
  const ConstMatrixView& x = args.x;
  const std::int64_t used = x.cols * size_of(x.dtype);
  const std::int64_t stride = x.row_stride * size_of(x.dtype);
  const int box_rows = plan.token_tile / kLargeClusterRows;
  if (is_matmul_24_sm90_aligned(x))
    return make_row_map(x.data, x.rows, used, x.rows > 1 ? stride : (used + 15) / 16 * 16, box_rows);
  const std::int64_t row_bytes = aligned_x_row_bytes(x.cols, static_cast<int>(size_of(x.dtype)));
  std::byte* copy =
      static_cast<std::byte*>(args.workspace) + kMatmul24CounterBytes + large_24_partial_bytes(plan);
  check_cuda(
      copy_rows(x.data, stride, used, copy, row_bytes, x.rows, static_cast<cudaStream_t>(args.stream.handle)),
      kOp);
  return make_row_map(copy, x.rows, used, row_bytes, box_rows);
}

// Boxes of what a warpgroup stores at a time.
CUtensorMap y_map(const Matmul24Sm90Args& args) {
  const std::int64_t used = args.y.cols * size_of(args.y.dtype);
  const std::int64_t stride = args.y.rows > 1 ? args.y.row_stride * size_of(args.y.dtype) : used;
  return make_row_map(args.y.data, args.y.rows, used, stride, 64, args.swiglu ? 64 : 128);
}

int tiles(std::int64_t size, std::int64_t tile) { return static_cast<int>((size + tile - 1) / tile); }

// Token tiles in a band: about as many tokens as the clusters that run together have rows.
constexpr int kBandTokens = 2048;

LargeParams make_params(const Matmul24Sm90Args& args, const Matmul24Sm90Plan& plan,
                        const LargeKernel& kernel) {
  const formats::TwoFourSm90Layout layout = args.weight.layout();
  LargeParams p = {};
  p.x_map = x_map(args, plan);
  p.slabs = static_cast<const std::uint8_t*>(args.weight.slabs);
  p.x_scale = args.x_scale;
  p.weight_scale = args.weight_scale;
  p.bias = args.bias;
  p.residual = args.residual.data;
  p.residual_stride = args.residual.row_stride;
  p.residual_by_16 =
      args.residual.data != nullptr && is_aligned_to_16(args.residual) && args.weight.rows % 8 == 0;
  p.y = args.y.data;
  p.y_stride = args.y.row_stride;
  p.y_by_16 = is_aligned_to_16(args.y);
  // The copy engine writes whole 16 bytes, also past a row's last feature.
  p.y_by_map = p.y_by_16 && args.y.dtype != DType::kFloat32 && args.y.cols * size_of(args.y.dtype) % 16 == 0;
  if (p.y_by_map) p.y_map = y_map(args);
  p.m = static_cast<int>(args.x.rows);
  p.n = static_cast<int>(args.weight.rows);
  p.k_tiles = static_cast<int>(layout.k_tiles());
  p.row_blocks = static_cast<int>(layout.row_blocks());
  p.row_groups = tiles(args.weight.rows, std::int64_t{kernel.row_tile} * kLargeClusterRows);
  p.token_tiles = tiles(args.x.rows, kernel.token_tile);
  p.band = std::max(1, kBandTokens / kernel.token_tile);
  p.split_tiles = plan.split ? large_24_split_tiles(p.row_groups * p.token_tiles, plan.clusters) : 0;
  p.flags = static_cast<std::uint32_t*>(args.workspace);
  p.partials = static_cast<std::byte*>(args.workspace) + kMatmul24CounterBytes;
  p.output = output_of(args.y.dtype);
  p.swiglu = args.swiglu;
  return p;
}

// Once for every kernel and device.
void prepare(const LargeKernel& kernel, int device) {
  static std::mutex mutex;
  static std::set<std::pair<const void*, int>> prepared;
  const std::lock_guard lock(mutex);
  if (prepared.contains({kernel.function, device})) return;
  cudaFuncAttributes attributes = {};
  check_cuda(cudaFuncGetAttributes(&attributes, kernel.function), kOp);
  check(attributes.ptxVersion >= 90 && attributes.binaryVersion >= 90, ErrorCode::kUnsupported,
        "{}: this build has no code for compute capability 9.0; configure with "
        "-DCMAKE_CUDA_ARCHITECTURES=90a",
        kOp);
  check_cuda(
      cudaFuncSetAttribute(kernel.function, cudaFuncAttributeMaxDynamicSharedMemorySize, kernel.shared_bytes),
      kOp);
  prepared.insert({kernel.function, device});
}

}  // namespace

void matmul_24_large_cuda(const Matmul24Sm90Args& args, const Matmul24Sm90Plan& plan) {
  const CurrentDevice device(args.stream.device.index);
  const LargeKernel& kernel = kernel_of(plan, args.x.dtype);
  prepare(kernel, args.stream.device.index);
  LargeParams params = make_params(args, plan, kernel);
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {static_cast<unsigned>(plan.cluster), 1, 1};
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = {static_cast<unsigned>(plan.blocks()), 1, 1};
  config.blockDim = {kLargeThreads, 1, 1};
  config.dynamicSmemBytes = static_cast<std::size_t>(kernel.shared_bytes);
  config.stream = static_cast<cudaStream_t>(args.stream.handle);
  config.attrs = attributes;
  // What runs before a copy of x has finished when the copy has.
  config.numAttrs = args.overlap_previous || !is_matmul_24_sm90_aligned(args.x) ? 2 : 1;
  void* arguments[] = {&params};
  check_cuda(cudaLaunchKernelExC(&config, kernel.function, arguments), kOp);
}

}  // namespace grille::kernels
