#include "grille/base/interrupt.h"

#include <atomic>

#include "grille/base/error.h"

namespace grille {
namespace {
std::atomic<bool> interrupt_flag{false};
static_assert(std::atomic<bool>::is_always_lock_free, "the flag is set inside a signal handler");
}  // namespace

void request_interrupt() noexcept { interrupt_flag.store(true, std::memory_order_relaxed); }
void clear_interrupt() noexcept { interrupt_flag.store(false, std::memory_order_relaxed); }
bool interrupt_requested() noexcept { return interrupt_flag.load(std::memory_order_relaxed); }

void throw_if_interrupted() {
  if (interrupt_requested()) fail(ErrorCode::kCancelled, "interrupted");
}

}  // namespace grille
