// Dense linear layers by cuBLASLt.
#pragma once

#include <memory>

#include "grille/benchmark/cuda/layer_data.h"

namespace grille::benchmark {

// The loaded library, a handle and a workspace, shared by all its contenders.
class CublasLt;

// Throws Error{kNotFound} if the library is not there, Error{kUnsupported} if this build has no cublasLt.h.
std::shared_ptr<CublasLt> load_cublaslt();
std::string version_of(const CublasLt& library);

// The contender's candidates are all algorithms that cuBLASLt's heuristics propose for the problem, up to
// 128. FP8 runs with fast accumulation. Types of y: bfloat16, float16 for float16, int32 for int8 (cuBLASLt
// can neither scale nor store an int8 product as 16-bit floats). `data` must outlive the contender.
std::unique_ptr<Contender> make_cublaslt(const std::shared_ptr<CublasLt>& library, const ContenderInfo& info,
                                         LayerData& data);

}  // namespace grille::benchmark
