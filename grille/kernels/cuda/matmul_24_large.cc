#include "grille/kernels/cuda/matmul_24_large.h"

#include <cuda.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

#include "grille/base/error.h"
#include "grille/kernels/cuda/launch.h"
#include "grille/kernels/cuda/matmul_24_large_params.h"
#include "grille/kernels/matmul_24_large_plan.h"

namespace grille::kernels {
namespace {

constexpr const char* kOp = "matmul_24_sm90";
constexpr std::int64_t kMapAlignment = 16;  // bytes: of addresses and row strides that the copy engine takes

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

// Through the runtime, so that nothing links to the driver.
EncodeTiled encode_tiled() {
  static const EncodeTiled encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    check_cuda(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                cudaEnableDefault, &found),
               kOp);
    check(found == cudaDriverEntryPointSuccess, ErrorCode::kUnsupported,
          "{}: the driver has no cuTensorMapEncodeTiled; CUDA 12.0 or newer is needed", kOp);
    return reinterpret_cast<EncodeTiled>(function);
  }();
  return encode;
}

// A row-major matrix, read or written in boxes of [box_rows, box_cols].
struct MapShape {
  CUtensorMapDataType type;
  int element_bytes;
  const void* data;
  std::int64_t rows, cols, row_bytes;
  int box_rows, box_cols;
};

CUtensorMap tensor_map(const MapShape& shape) {
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(shape.cols), static_cast<cuuint64_t>(shape.rows)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(shape.row_bytes)};
  const cuuint32_t box[2] = {static_cast<cuuint32_t>(shape.box_cols),
                             static_cast<cuuint32_t>(shape.box_rows)};
  const cuuint32_t steps[2] = {1, 1};
  const auto swizzle = shape.box_cols * shape.element_bytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B
                                                                   : CU_TENSOR_MAP_SWIZZLE_64B;
  CUtensorMap map;
  const CUresult status = encode_tiled()(
      &map, shape.type, 2, const_cast<void*>(shape.data), sizes, strides, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  check(status == CUDA_SUCCESS, ErrorCode::kInvalidArgument,
        "{}: no tensor map for [{}, {}] with rows of {} bytes (CUDA driver error {})", kOp, shape.rows,
        shape.cols, shape.row_bytes, static_cast<int>(status));
  return map;
}

std::int64_t size_of(DType dtype) { return static_cast<std::int64_t>(dtype_size(dtype)); }

// Of the row stride; a single row may have any, and gets one that the copy engine takes.
std::int64_t row_bytes(const ConstMatrixView& view) {
  const std::int64_t stride = view.rows > 1 ? view.row_stride : view.cols;
  const std::int64_t bytes = stride * size_of(view.dtype);
  return view.rows > 1 ? bytes : (bytes + kMapAlignment - 1) / kMapAlignment * kMapAlignment;
}

bool is_map_aligned(const ConstMatrixView& view) {
  return reinterpret_cast<std::uintptr_t>(view.data) % kMapAlignment == 0 &&
         row_bytes(view) % kMapAlignment == 0;
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
        kernel.promote == promote) {
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

CUtensorMap y_map(const Matmul24Sm90Args& args) {
  const bool words = args.y.dtype == DType::kFloat32;
  return tensor_map({.type = words ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                     .element_bytes = words ? 4 : 2,
                     .data = args.y.data,
                     .rows = args.y.rows,
                     .cols = args.y.cols,
                     .row_bytes = row_bytes(args.y),
                     .box_rows = words ? 32 : 64,
                     .box_cols = words || args.swiglu ? 32 : 64});
}

CUtensorMap x_map(const Matmul24Sm90Args& args, const LargeKernel& kernel) {
  return tensor_map({.type = CU_TENSOR_MAP_DATA_TYPE_UINT8,
                     .element_bytes = 1,
                     .data = args.x.data,
                     .rows = args.x.rows,
                     .cols = args.x.cols * size_of(args.x.dtype),
                     .row_bytes = row_bytes(args.x),
                     .box_rows = kernel.token_tile / kLargeClusterRows,
                     .box_cols = 128});
}

int tiles(std::int64_t size, std::int64_t tile) { return static_cast<int>((size + tile - 1) / tile); }

// Token tiles in a band: about as many tokens as the clusters that run together have rows.
constexpr int kBandTokens = 2048;

LargeParams make_params(const Matmul24Sm90Args& args, const Matmul24Sm90Plan& plan,
                        const LargeKernel& kernel) {
  const formats::TwoFourSm90Layout layout = args.weight.layout();
  LargeParams p = {};
  p.x_map = x_map(args, kernel);
  p.y_by_map = is_map_aligned(args.y);
  if (p.y_by_map) p.y_map = y_map(args);
  p.slabs = static_cast<const std::uint8_t*>(args.weight.slabs);
  p.x_scale = args.x_scale;
  p.weight_scale = args.weight_scale;
  p.bias = args.bias;
  p.residual = args.residual.data;
  p.residual_stride = args.residual.row_stride;
  p.residual_by_16 = args.residual.data != nullptr && is_map_aligned(args.residual) &&
                     args.weight.rows % (kMapAlignment / size_of(args.y.dtype)) == 0;
  p.y = args.y.data;
  p.y_stride = args.y.row_stride;
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
  check_cuda(cudaFuncSetAttribute(kernel.function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  kernel.shared_bytes),
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
  config.numAttrs = args.overlap_previous ? 2 : 1;
  void* arguments[] = {&params};
  check_cuda(cudaLaunchKernelExC(&config, kernel.function, arguments), kOp);
}

}  // namespace grille::kernels
