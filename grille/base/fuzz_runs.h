// How many random inputs a Fuzz* test tries.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace grille {

// GRILLE_FUZZ_RUNS (`make fuzz` sets it), else 2000: enough to keep the test itself alive.
inline std::int64_t fuzz_runs() {
  const char* text = std::getenv("GRILLE_FUZZ_RUNS");
  const std::int64_t runs = text == nullptr ? 0 : std::strtoll(text, nullptr, 10);
  return runs > 0 ? runs : 2000;
}

}  // namespace grille
