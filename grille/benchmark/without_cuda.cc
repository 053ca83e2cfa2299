#ifndef GRILLE_HAS_CUDA

#include "grille/base/error.h"
#include "grille/benchmark/linear.h"

namespace grille::benchmark {

LinearResults run_linear(const LinearOptions&, Progress&) {
  fail(ErrorCode::kUnsupported,
       "bench linear: this build has no CUDA kernels; configure with GRILLE_CUDA=ON, or measure the CPU with "
       "build/bin/bench_linear");
}

}  // namespace grille::benchmark

#endif
