#include "grille/tensors/weight_memory.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include <sys/mman.h>

#include <ATen/ops/from_blob.h>

#include "grille/base/error.h"
#include "grille/base/parallel.h"

namespace grille::tensors {
namespace {

constexpr std::int64_t kHugePage = 2 << 20;
constexpr std::int64_t kCacheLine = 64;

std::int64_t round_up(std::int64_t bytes, std::int64_t unit) { return (bytes + unit - 1) / unit * unit; }

std::shared_ptr<std::byte> allocate(std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(round_up(bytes, kHugePage));
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kHugePage, size));
  if (memory == nullptr) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
  ::madvise(memory, size, MADV_HUGEPAGE);  // small pages do as well, only slower
#endif
  return {memory, [](std::byte* p) { std::free(p); }};
}

}  // namespace

at::Tensor WeightMemory::place(const at::Tensor& tensor) {
  check(tensor.is_contiguous() && tensor.device().is_cpu(), ErrorCode::kInvalidArgument,
        "weight memory: expected a contiguous CPU tensor");
  const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
  std::shared_ptr<std::byte> region;
  std::byte* data = nullptr;
  if (bytes > kRegionBytes / 2) {
    region = allocate(bytes);
    data = region.get();
  } else {
    if (used_ + bytes > kRegionBytes) {
      region_ = allocate(kRegionBytes);
      used_ = 0;
    }
    region = region_;
    data = region_.get() + used_;
    used_ += round_up(bytes, kCacheLine);
  }
  const auto* from = static_cast<const std::byte*>(tensor.const_data_ptr());
  parallel_for(bytes, kHugePage, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(data + begin, from + begin, static_cast<std::size_t>(end - begin));
  });
  return at::from_blob(
      data, tensor.sizes(), [region](void*) {}, tensor.options());
}

Weight WeightMemory::place(Weight weight) {
  weight.values = place(weight.values);
  if (weight.mask.defined()) weight.mask = place(weight.mask);
  return weight;
}

}  // namespace grille::tensors
