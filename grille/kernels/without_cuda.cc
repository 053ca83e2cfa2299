// What CUDA launchers do in a build without CUDA.
#ifndef GRILLE_HAS_CUDA

#include <string_view>

#include "grille/base/error.h"
#include "grille/kernels/cuda/pack_24.h"
#include "grille/kernels/cuda/select_24.h"
#include "grille/kernels/cuda/unpack_24.h"

namespace grille::kernels {
namespace {

[[noreturn]] void fail_without_cuda(std::string_view op) {
  fail(ErrorCode::kUnsupported, "{}: this build has no CUDA kernels; configure with GRILLE_CUDA=ON", op);
}

}  // namespace

void pack_24_cuda(const Pack24Args&) { fail_without_cuda("pack_24"); }
void unpack_24_cuda(const Unpack24Args&) { fail_without_cuda("unpack_24"); }
void select_24_cuda(const Select24Args&) { fail_without_cuda("select_24"); }

}  // namespace grille::kernels

#endif
