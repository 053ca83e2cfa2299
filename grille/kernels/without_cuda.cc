// What CUDA launchers do in a build without CUDA.
#ifndef GRILLE_HAS_CUDA

#include <string_view>

#include "grille/base/error.h"
#include "grille/kernels/cuda/matmul_24_large.h"
#include "grille/kernels/cuda/matmul_24_sm90.h"
#include "grille/kernels/cuda/pack_24.h"
#include "grille/kernels/cuda/pack_24_sm90.h"
#include "grille/kernels/cuda/rows.h"
#include "grille/kernels/cuda/select_24.h"
#include "grille/kernels/cuda/unpack_24.h"
#include "grille/kernels/cuda_devices.h"

namespace grille::kernels {
namespace {

[[noreturn]] void fail_without_cuda(std::string_view op) {
  fail(ErrorCode::kUnsupported, "{}: this build has no CUDA kernels; configure with GRILLE_CUDA=ON", op);
}

}  // namespace

int cuda_device_count() { return 0; }
DeviceCaps cuda_device_caps(int) { fail_without_cuda("cuda_device_caps"); }
void stream_24_sm90_cuda(const Matmul24Sm90Args&, const Matmul24Sm90Plan&) {
  fail_without_cuda("matmul_24_sm90");
}
void matmul_24_large_cuda(const Matmul24Sm90Args&, const Matmul24Sm90Plan&) {
  fail_without_cuda("matmul_24_sm90");
}
Sm90Caps sm90_caps_cuda(const Stream&) { fail_without_cuda("matmul_24_sm90"); }
void pack_24_cuda(const Pack24Args&) { fail_without_cuda("pack_24"); }
void pack_24_sm90_cuda(const Pack24Sm90Args&) { fail_without_cuda("pack_24_sm90"); }
void unpack_24_cuda(const Unpack24Args&) { fail_without_cuda("unpack_24"); }
void select_24_cuda(const Select24Args&) { fail_without_cuda("select_24"); }
void rms_norm_cuda(const ConstMatrixView&, const float*, float, const MatrixView&, const Stream&) {
  fail_without_cuda("rms_norm");
}
void silu_mul_cuda(const ConstMatrixView&, const ConstMatrixView&, const MatrixView&, const Stream&) {
  fail_without_cuda("silu_mul");
}
void silu_mul_pairs_cuda(const ConstMatrixView&, const MatrixView&, const Stream&) {
  fail_without_cuda("silu_mul_pairs");
}
void rope_cuda(const MatrixView&, std::int64_t, const float*, const float*, const Stream&) {
  fail_without_cuda("rope");
}
void quantize_fp8_rows_cuda(const ConstMatrixView&, const MatrixView&, float*, const Stream&) {
  fail_without_cuda("quantize_fp8_rows");
}

}  // namespace grille::kernels

#endif
