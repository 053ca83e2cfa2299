// The matmul algorithm, once for all instruction sets. After a simd_*-inl.h and partial-inl.h, inside their
// region.
//
// The inner loops multiply 4 weight rows with T tokens, vector lanes along k, so that both sides are read as
// they lie in memory and a sum has the same order for every T. Sums run over blocks of kBlockColumns columns,
// which are then added up.
#pragma once

#include "grille/kernels/cpu/matmul_rows-inl.h"
#include "grille/kernels/cpu/matmul_sums-inl.h"
#include "grille/kernels/cpu/matmul_tokens-inl.h"
// After them:
#include "grille/kernels/cpu/matmul_panel-inl.h"
#include "grille/kernels/cpu/matmul_stream-inl.h"

namespace grille::kernels {
namespace {

template <typename C, typename Rows>
void run_block(const MatmulJob& job, const MatmulBlock& block) {
  job.plan.expand_panel ? run_panels<C, Rows>(job, block) : run_streamed<C, Rows>(job, block);
}

template <typename C>
void run_weight(const MatmulJob& job, const MatmulBlock& block) {
  auto run = [&](auto type) {
    using W = decltype(type);
    if (job.mask != nullptr) return run_block<C, StoredRows<C, W, true>>(job, block);
    run_block<C, StoredRows<C, W, false>>(job, block);
  };
  if constexpr (requires { typename C::Weight; }) {
    run(typename C::Weight{});
  } else {
    with_element_type(job.weight_dtype, run);
  }
}

}  // namespace
}  // namespace grille::kernels
