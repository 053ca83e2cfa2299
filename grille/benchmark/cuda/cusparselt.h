// 2:4 linear layers by cuSPARSELt, called directly.
#pragma once

#include <memory>

#include "grille/benchmark/cuda/layer_data.h"

namespace grille::benchmark {

// The loaded library, a handle and a workspace, shared by all its contenders.
class CusparseLt;

// Throws Error{kNotFound} if the library is not there, Error{kUnsupported} if this build has no cusparseLt.h
// or the device is not one of the library's.
std::shared_ptr<CusparseLt> load_cusparselt();
std::string version_of(const CusparseLt& library);

// The contender's candidates are every algorithm id with every way of splitting k that the library accepts;
// plans are kept. m is padded to what the library takes (a multiple of 16 for 8-bit types, of 8 for 16-bit
// ones). 8-bit products have one scale (it has none per token) and give bfloat16. `data` must outlive it.
std::unique_ptr<Contender> make_cusparselt(const std::shared_ptr<CusparseLt>& library,
                                           const ContenderInfo& info, LayerData& data);

}  // namespace grille::benchmark
