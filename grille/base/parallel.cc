#include "grille/base/parallel.h"

#include <algorithm>
#include <exception>

#include <omp.h>

#include "grille/base/error.h"

namespace grille {

int num_threads() { return omp_get_max_threads(); }

void set_num_threads(int count) {
  check(count >= 1, ErrorCode::kInvalidArgument, "threads: expected at least 1, got {}", count);
  omp_set_num_threads(count);
}

namespace detail {

void parallel_ranges(std::int64_t count, std::int64_t grain, RangeFunction function, void* context) {
  if (count <= 0) return;
  const std::int64_t parts =
      std::clamp<std::int64_t>(count / std::max<std::int64_t>(grain, 1), 1, omp_get_max_threads());
  if (parts == 1 || omp_in_parallel()) {
    function(context, 0, count);
    return;
  }
  std::exception_ptr error;
#pragma omp parallel num_threads(static_cast <int>(parts))
  {
    // The runtime may give fewer threads than asked for, so each one loops over parts.
    for (std::int64_t part = omp_get_thread_num(); part < parts; part += omp_get_num_threads()) {
      try {
        function(context, count * part / parts, count * (part + 1) / parts);
      } catch (...) {
#pragma omp critical(grille_parallel_error)
        if (!error) error = std::current_exception();
      }
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace detail
}  // namespace grille
