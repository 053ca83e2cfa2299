// Where the weights of a model that runs lie.
#pragma once

#include <cstdint>
#include <memory>

#include "grille/tensors/weight.h"

namespace grille::tensors {

// Memory in huge pages, where the system has them, for small weights: every step of decoding reads all
// weights, and a processor that looks up fewer pages reads faster. They share regions; a region is given back
// when the last of its weights is gone.
class WeightMemory {
 public:
  static constexpr std::int64_t kRegionBytes = 32 << 20;
  // Longer tensors stay where they are, in pages of any size: while one is copied, it is held twice.
  static constexpr std::int64_t kLongestBytes = 4 << 20;

  // The same weight, its values and mask in this memory if they are no longer than that, each aligned to a
  // cache line; the scale stays.
  Weight place(Weight weight);

 private:
  at::Tensor place(const at::Tensor& tensor);

  std::shared_ptr<std::byte> region_;
  std::int64_t used_ = 0;
};

}  // namespace grille::tensors
