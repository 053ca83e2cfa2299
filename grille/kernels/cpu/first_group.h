// The first of the groups that threads find, without an order among the threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

namespace grille::kernels {

class FirstGroup {
 public:
  // `index` is row * groups per row + group.
  void add(std::int64_t index) {
    std::int64_t seen = first_.load(std::memory_order_relaxed);
    while (index < seen && !first_.compare_exchange_weak(seen, index, std::memory_order_relaxed)) {
    }
  }
  bool found() const { return index() != kNone; }
  std::int64_t index() const { return first_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  std::atomic<std::int64_t> first_{kNone};
};

}  // namespace grille::kernels
