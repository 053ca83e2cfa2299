// What CUDA launchers do in a build without CUDA.
#ifndef GRILLE_HAS_CUDA

#include <string_view>

#include "grille/base/error.h"
#include "grille/kernels/cuda/matmul_24_large.h"
#include "grille/kernels/cuda/matmul_24_sm90.h"
#include "grille/kernels/cuda/pack_24.h"
#include "grille/kernels/cuda/pack_24_sm90.h"
#include "grille/kernels/cuda/select_24.h"
#include "grille/kernels/cuda/unpack_24.h"

namespace grille::kernels {
namespace {

[[noreturn]] void fail_without_cuda(std::string_view op) {
  fail(ErrorCode::kUnsupported, "{}: this build has no CUDA kernels; configure with GRILLE_CUDA=ON", op);
}

}  // namespace

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

}  // namespace grille::kernels

#endif
