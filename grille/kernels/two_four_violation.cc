#include "grille/kernels/two_four_violation.h"

#include <cmath>

#include "grille/base/error.h"

namespace grille::kernels {

void check_packed(const TwoFourViolation& violation, std::string_view name) {
  if (!violation.found()) return;
  const float* v = violation.values;
  bool finite = true;
  for (int j = 0; j < 4; ++j) finite = finite && std::isfinite(v[j]);
  fail(ErrorCode::kCorruptData, "{}: row {}, group {} (columns {} to {}): weights {}, {}, {}, {}: {}", name,
       violation.row, violation.group, 4 * violation.group, 4 * violation.group + 3, v[0], v[1], v[2], v[3],
       finite ? "2:4 allows two that are not zero" : "every weight must be finite");
}

void check_unpacked(const TwoFourViolation& violation, std::string_view name) {
  if (!violation.found()) return;
  fail(ErrorCode::kCorruptData, "{}: row {}, group {}: position bits {:#06b} do not name two columns", name,
       violation.row, violation.group, violation.nibble);
}

void check_selected(const TwoFourViolation& violation, std::string_view name) {
  if (!violation.found()) return;
  const float* v = violation.values;
  fail(ErrorCode::kCorruptData, "{}: row {}, group {}: a score is not a number (the first: {}, {}, {}, {})",
       name, violation.row, violation.group, v[0], v[1], v[2], v[3]);
}

}  // namespace grille::kernels
