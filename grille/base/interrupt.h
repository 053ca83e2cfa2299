// Cooperative interruption: a signal handler raises the flag, long loops look at it.
#pragma once

namespace grille {

// Async-signal-safe.
void request_interrupt() noexcept;
void clear_interrupt() noexcept;
bool interrupt_requested() noexcept;

// Throws Error{kCancelled} when the flag is up. Call it between units of work that can be lost.
void throw_if_interrupted();

}  // namespace grille
