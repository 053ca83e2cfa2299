// Data-parallel loops on the process's OpenMP pool (the same one that torch uses).
#pragma once

#include <cstdint>
#include <type_traits>

namespace grille {

// Threads that a parallel loop uses now.
int num_threads();

// Throws Error{kInvalidArgument} unless count >= 1.
void set_num_threads(int count);

namespace detail {
using RangeFunction = void (*)(void* context, std::int64_t begin, std::int64_t end);
void parallel_ranges(std::int64_t count, std::int64_t grain, RangeFunction function, void* context);
}  // namespace detail

// Calls body(begin, end) on contiguous, disjoint parts of [0, count), at most one a thread, each of at
// least `grain` items. The split depends on count, grain and num_threads() alone, so results are
// repeatable. Inside a parallel region it runs serially. The first exception is rethrown after the loop.
template <typename Body>
void parallel_for(std::int64_t count, std::int64_t grain, Body&& body) {
  auto call = [](void* context, std::int64_t begin, std::int64_t end) {
    (*static_cast<std::remove_reference_t<Body>*>(context))(begin, end);
  };
  detail::parallel_ranges(count, grain, call, const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace grille
