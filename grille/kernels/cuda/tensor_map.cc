#include "grille/kernels/cuda/tensor_map.h"

#include "grille/base/error.h"
#include "grille/kernels/cuda/launch.h"

namespace grille::kernels {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

// From the driver, through the runtime: nothing of ours links libcuda.
Encode encode_function() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  check_cuda(
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found),
      "cuTensorMapEncodeTiled");
  check(found == cudaDriverEntryPointSuccess && function != nullptr, ErrorCode::kDevice,
        "this driver has no cuTensorMapEncodeTiled; a driver for CUDA 12 or later is needed");
  return reinterpret_cast<Encode>(function);
}

}  // namespace

CUtensorMap make_row_map(const void* data, std::int64_t rows, std::int64_t row_bytes,
                         std::int64_t stride_bytes, int box_rows, int box_bytes) {
  static const Encode encode = encode_function();
  CUtensorMap map;
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(row_bytes), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(stride_bytes)};
  const cuuint32_t box[2] = {static_cast<cuuint32_t>(box_bytes), static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t steps[2] = {1, 1};
  const CUresult status = encode(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, const_cast<void*>(data), sizes,
                                 strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                 box_bytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  check(status == CUDA_SUCCESS, ErrorCode::kDevice,
        "cuTensorMapEncodeTiled: error {} for [{}, {}] bytes, {} from row to row, boxes of {} rows",
        static_cast<int>(status), rows, row_bytes, stride_bytes, box_rows);
  return map;
}

}  // namespace grille::kernels
