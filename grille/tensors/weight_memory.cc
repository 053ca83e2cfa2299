#include "grille/tensors/weight_memory.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include <sys/mman.h>

#include <ATen/ops/from_blob.h>

#include "grille/base/error.h"

namespace grille::tensors {
namespace {

constexpr std::size_t kHugePage = 2 << 20;
constexpr std::int64_t kCacheLine = 64;

std::shared_ptr<std::byte> allocate_region() {
  constexpr std::size_t kSize = WeightMemory::kRegionBytes;
  static_assert(kSize % kHugePage == 0);
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kHugePage, kSize));
  if (memory == nullptr) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
  ::madvise(memory, kSize, MADV_HUGEPAGE);  // small pages do as well, only slower
#endif
  return {memory, [](std::byte* p) { std::free(p); }};
}

}  // namespace

at::Tensor WeightMemory::place(const at::Tensor& tensor) {
  check(tensor.is_contiguous() && tensor.device().is_cpu(), ErrorCode::kInvalidArgument,
        "weight memory: expected a contiguous CPU tensor");
  const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
  if (bytes > kLongestBytes) return tensor;
  if (region_ == nullptr || used_ + bytes > kRegionBytes) {
    region_ = allocate_region();
    used_ = 0;
  }
  std::byte* data = region_.get() + used_;
  used_ += (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
  std::memcpy(data, tensor.const_data_ptr(), static_cast<std::size_t>(bytes));
  return at::from_blob(
      data, tensor.sizes(), [region = region_](void*) {}, tensor.options());
}

Weight WeightMemory::place(Weight weight) {
  weight.values = place(weight.values);
  if (weight.mask.defined()) weight.mask = place(weight.mask);
  return weight;
}

}  // namespace grille::tensors
