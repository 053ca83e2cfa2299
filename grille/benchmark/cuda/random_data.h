// Data for benchmarks, made on the device.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "grille/base/dtype.h"

namespace grille::benchmark {

// `count` (a multiple of 4) normal numbers of mean 0 and standard deviation `deviation`, rounded to `dtype`
// (bfloat16, float16, float8_e4m3fn saturated, int8 saturated). With `two_four`, of every 4 consecutive ones
// the two of smaller magnitude are 0, as after pruning: all six patterns are equally frequent. The same seed
// gives the same data. Enqueues on `stream`; throws Error{kDevice}.
void fill_normal(void* data, DType dtype, std::int64_t count, float deviation, bool two_four,
                 std::uint64_t seed, cudaStream_t stream);

// Uniform in [low, high).
void fill_uniform(float* data, std::int64_t count, float low, float high, std::uint64_t seed,
                  cudaStream_t stream);

}  // namespace grille::benchmark
