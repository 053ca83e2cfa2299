#include "grille/kernels/cuda/matmul_24_sm90.h"

#include <algorithm>
#include <limits>

#include "grille/base/error.h"
#include "grille/kernels/cuda/launch.h"
#include "grille/kernels/cuda/stream_24_launch.h"
#include "grille/kernels/cuda/tensor_map.h"

namespace grille::kernels {
namespace {

StreamOutput output_of(DType dtype) {
  if (dtype == DType::kFloat32) return StreamOutput::kFloat32;
  return dtype == DType::kBFloat16 ? StreamOutput::kBFloat16 : StreamOutput::kFloat16;
}

cudaError_t launch_for(DType dtype, const Stream24Launch& launch) {
  switch (dtype) {
    case DType::kBFloat16: return launch_stream_24<Sm90Type::kBFloat16>(launch);
    case DType::kFloat16: return launch_stream_24<Sm90Type::kFloat16>(launch);
    case DType::kFloat8E4M3: return launch_stream_24<Sm90Type::kFloat8E4M3>(launch);
    default: return launch_stream_24<Sm90Type::kInt8>(launch);
  }
}

// Whether four neighbouring elements from every fourth column on can be moved at once.
bool is_quad_aligned(const ConstMatrixView& view) {
  const std::size_t bytes = 4 * dtype_size(view.dtype);
  return reinterpret_cast<std::uintptr_t>(view.data) % bytes == 0 &&
         (view.rows <= 1 || view.row_stride % 4 == 0);
}

Stream24Params make_params(const Matmul24Sm90Args& args, const Matmul24Sm90Plan& plan) {
  const formats::TwoFourSm90Layout layout = args.weight.layout();
  const std::int64_t slabs = stream_row_groups(plan, layout.row_blocks()) * layout.k_tiles();
  check(slabs < std::numeric_limits<int>::max() && args.x.rows < std::numeric_limits<int>::max() - 128,
        ErrorCode::kInvalidArgument, "matmul_24_sm90: {} slabs and {} tokens are too many", slabs,
        args.x.rows);
  Stream24Params p = {};
  p.slabs = static_cast<const std::uint8_t*>(args.weight.slabs);
  p.x_scale = args.x_scale;
  p.weight_scale = args.weight_scale;
  p.bias = args.bias;
  p.residual = args.residual.data;
  p.y = args.y.data;
  p.residual_stride = args.residual.row_stride;
  p.y_stride = args.y.row_stride;
  p.counters = static_cast<std::uint32_t*>(args.workspace);
  p.partials = static_cast<std::byte*>(args.workspace) + kMatmul24CounterBytes;
  p.rows = static_cast<int>(args.weight.rows);
  p.row_blocks = static_cast<int>(layout.row_blocks());
  p.k_tiles = static_cast<int>(layout.k_tiles());
  p.group_rows = plan.group_rows;
  p.splits = stream_splits(plan);
  p.clusters = plan.clusters;
  p.stages = plan.stages;
  p.x_slots = stream_x_slots(plan, p.k_tiles);
  p.resident_x = plan.resident_x;
  p.slabs_per_cluster = static_cast<int>(slabs / plan.clusters);
  p.slabs_left = static_cast<int>(slabs % plan.clusters);
  const Stream24Memory memory = stream_memory(plan, p.k_tiles, layout.element_bytes);
  p.exchange_at = memory.exchange;
  p.token_scales_at = memory.token_scales;
  p.output = output_of(args.y.dtype);
  p.vector_output = is_quad_aligned(args.y) && (p.residual == nullptr || is_quad_aligned(args.residual));
  return p;
}

// x as the copy engine can read it: itself, or a copy in the workspace.
CUtensorMap map_tokens(const Matmul24Sm90Args& args, const Matmul24Sm90Plan& plan, cudaStream_t stream) {
  const ConstMatrixView& x = args.x;
  const auto size = static_cast<std::int64_t>(dtype_size(x.dtype));
  const int box_tokens = plan.token_tile / plan.group_rows;
  const std::int64_t used = x.cols * size;
  const std::int64_t stride = x.row_stride * size;
  if (is_matmul_24_sm90_aligned(x))
    return make_row_map(x.data, x.rows, used, x.rows > 1 ? stride : (used + 15) / 16 * 16, box_tokens);
  const std::int64_t row_bytes = aligned_x_row_bytes(x.cols, static_cast<int>(size));
  std::byte* copy = static_cast<std::byte*>(args.workspace) + kMatmul24CounterBytes +
                    stream_24_partial_bytes(plan.token_tile, plan.clusters, plan.group_rows);
  check_cuda(copy_rows(x.data, stride, used, copy, row_bytes, x.rows, stream), "matmul_24_sm90");
  return make_row_map(copy, x.rows, used, row_bytes, box_tokens);
}

}  // namespace

void stream_24_sm90_cuda(const Matmul24Sm90Args& args, const Matmul24Sm90Plan& plan) {
  const CurrentDevice device(args.stream.device.index);
  Stream24Launch launch;
  launch.stream = static_cast<cudaStream_t>(args.stream.handle);
  launch.params = make_params(args, plan);
  launch.x_map = map_tokens(args, plan, launch.stream);
  launch.token_tile = plan.token_tile;
  launch.cluster = plan.cluster;
  launch.shared_bytes =
      stream_shared_bytes(plan, launch.params.k_tiles, static_cast<int>(dtype_size(args.x.dtype)));
  // What runs before a copy of x has finished when the copy has, and the next pass comes after our own
  // kernel.
  launch.overlap_previous = args.overlap_previous || !is_matmul_24_sm90_aligned(args.x);
  for (std::int64_t begin = 0; begin < args.x.rows; begin += plan.token_tile) {
    launch.params.token_begin = static_cast<int>(begin);
    launch.params.tokens = static_cast<int>(std::min<std::int64_t>(plan.token_tile, args.x.rows - begin));
    const cudaError_t status = launch_for(args.x.dtype, launch);
    check(status != cudaErrorNoKernelImageForDevice, ErrorCode::kUnsupported,
          "matmul_24_sm90: this build has no code for sm_90a; add 90a to CMAKE_CUDA_ARCHITECTURES");
    check_cuda(status, "matmul_24_sm90");
    launch.overlap_previous = true;
  }
}

Sm90Caps sm90_caps_cuda(const Stream& stream) {
  const auto attribute = [&](cudaDeviceAttr name) {
    int value = 0;
    check_cuda(cudaDeviceGetAttribute(&value, name, stream.device.index), "cudaDeviceGetAttribute");
    return value;
  };
  const int major = attribute(cudaDevAttrComputeCapabilityMajor);
  const int minor = attribute(cudaDevAttrComputeCapabilityMinor);
  check(major == 9 && minor == 0, ErrorCode::kUnsupported,
        "matmul_24_sm90: needs a device of compute capability 9.0 (H100, H200), cuda:{} has {}.{}",
        stream.device.index, major, minor);
  Sm90Caps caps;
  caps.multiprocessors = attribute(cudaDevAttrMultiProcessorCount);
  caps.shared_memory_per_block = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  caps.shared_memory_per_multiprocessor = attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  return caps;
}

}  // namespace grille::kernels
