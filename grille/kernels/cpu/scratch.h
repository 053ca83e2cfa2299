// Memory that a thread keeps from call to call, so that the steady state allocates nothing.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace grille::kernels {

// Grows, never shrinks; contents do not survive growing. 64-byte aligned.
class Scratch {
 public:
  // At least `bytes` bytes. Throws std::bad_alloc.
  void* get(std::size_t bytes) {
    if (bytes > capacity_) {
      const std::size_t rounded = (bytes + bytes / 8 + 4095) / 4096 * 4096;
      memory_.reset();
      capacity_ = 0;
      memory_.reset(std::aligned_alloc(64, rounded));
      if (!memory_) throw std::bad_alloc();
      capacity_ = rounded;
    }
    return memory_.get();
  }
  template <typename T>
  T* get_as(std::size_t count) {
    return static_cast<T*>(get(count * sizeof(T)));
  }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
  std::size_t capacity_ = 0;
};

}  // namespace grille::kernels
