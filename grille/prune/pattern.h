// Which weights may be zeroed together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace grille::prune {

struct Pattern {
  enum class Kind {
    kGroups,        // keep `keep` of every `group` consecutive columns ("2:4")
    kUnstructured,  // any weights, `sparsity` of them zero
  };
  Kind kind = Kind::kGroups;
  std::int64_t keep = 2;
  std::int64_t group = 4;
  double sparsity = 0.5;  // share of zeros; 1 - keep / group for kGroups

  bool is_two_four() const { return kind == Kind::kGroups && keep == 2 && group == 4; }
  std::string name() const;  // "2:4", "unstructured"
};

// "N:M" (keep N of M, 1 <= N < M <= 32) or "unstructured". `sparsity` must lie in (0, 1) and agree with N:M;
// without it: 1 - N/M, or 0.5. Throws Error{kInvalidArgument} that says what is accepted.
Pattern parse_pattern(const std::string& text, std::optional<double> sparsity);

}  // namespace grille::prune
