#include "grille/base/parallel.h"

#include <algorithm>
#include <exception>
#include <mutex>

#include <omp.h>
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

#include "grille/base/error.h"

namespace grille {
namespace {

// A region's threads see what came before it, and their work is seen after it. The thread sanitizer must be
// told: it does not know libgomp's barriers.
char region_begins;
char region_ends;

void release([[maybe_unused]] char& event) {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(&event);
#endif
}

void acquire([[maybe_unused]] char& event) {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(&event);
#endif
}

}  // namespace

int num_threads() { return omp_get_max_threads(); }

void set_num_threads(int count) {
  check(count >= 1, ErrorCode::kInvalidArgument, "threads: expected at least 1, got {}", count);
  omp_set_num_threads(count);
}

namespace detail {

// Not looked at by the thread sanitizer itself: what a region's threads are handed is written after the last
// point where it could be told of. What they call is looked at.
[[gnu::no_sanitize("thread")]] void parallel_ranges(std::int64_t count, std::int64_t grain,
                                                    RangeFunction function, void* context) {
  if (count <= 0) return;
  const std::int64_t parts =
      std::clamp<std::int64_t>(count / std::max<std::int64_t>(grain, 1), 1, omp_get_max_threads());
  if (parts == 1 || omp_in_parallel()) {
    function(context, 0, count);
    return;
  }
  std::exception_ptr error;
  std::mutex error_mutex;
  release(region_begins);
#pragma omp parallel num_threads(static_cast <int>(parts))
  {
    acquire(region_begins);
    // The runtime may give fewer threads than asked for, so each one loops over parts.
    for (std::int64_t part = omp_get_thread_num(); part < parts; part += omp_get_num_threads()) {
      try {
        function(context, count * part / parts, count * (part + 1) / parts);
      } catch (...) {
        const std::lock_guard lock(error_mutex);
        if (!error) error = std::current_exception();
      }
    }
    release(region_ends);
  }
  acquire(region_ends);
  if (error) std::rethrow_exception(error);
}

}  // namespace detail
}  // namespace grille
