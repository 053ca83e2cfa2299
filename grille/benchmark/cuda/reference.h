// Whether a product on the device is right.
#pragma once

#include <vector>

#include "grille/benchmark/cuda/contender.h"
#include "grille/benchmark/cuda/device_memory.h"

namespace grille::benchmark {

// Up to 16 rows of a product in fp64, computed on the device by the definition: every column of the first and
// the last token and of random ones between.
class Reference {
 public:
  Reference(const Product& product, std::uint64_t seed, cudaStream_t stream);

  // The largest |y - reference| / tolerance over those rows: above 1 y is wrong, and a NaN gives infinity.
  // Waits for the stream.
  //
  // Tolerance, with s = sqrt(sum x^2 w^2), the size of the partial sums of data of random sign:
  //   2^-8 (|y| + s)         storing y, or the parts of a split sum, in bfloat16 or float16 (half an ulp is
  //   2^-9) (k / 32) 2^-13 s       fp8 only: tensor cores cut each step's sum to 13 bits below its largest
  //   term k 2^-22 s              other floats: fp32 sums, cut instead of rounded
  // Integer sums are exact. A wrong or missing term of the sum is an error of the size of s / sqrt(k) or
  // more, a wrong tile one of the size of s.
  double error() const;

 private:
  Product product_;
  cudaStream_t stream_;
  int rows_;
  DeviceMemory row_numbers_, values_, spreads_, worst_;
};

}  // namespace grille::benchmark
