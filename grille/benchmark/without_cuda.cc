#ifndef GRILLE_HAS_CUDA

#include "grille/base/error.h"
#include "grille/benchmark/tune.h"

namespace grille::benchmark {

namespace {

[[noreturn]] void fail_without_cuda() {
  fail(ErrorCode::kUnsupported,
       "bench linear: this build has no CUDA kernels; configure with GRILLE_CUDA=ON, or measure the CPU with "
       "build/bin/bench_linear");
}

}  // namespace

LinearResults run_linear(const LinearOptions&, Progress&) { fail_without_cuda(); }

TuneResults run_tune(const LinearOptions&, GrowingPlanFile&, Progress&) { fail_without_cuda(); }

}  // namespace grille::benchmark

#endif
