// Plans of the Hopper 2:4 kernels that were found by measuring, and the problems that they hold for.
#pragma once

#include <vector>

#include "grille/kernels/matmul_24_sm90_plan.h"

namespace grille::kernels {

// The fastest plan that was found for one problem.
struct Matmul24PlanEntry {
  int multiprocessors = 0;  // of the device: which one of compute capability 9.0
  DType dtype = DType::kBFloat16;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t m = 0;
  Matmul24Sm90Plan plan;

  bool operator==(const Matmul24PlanEntry&) const = default;
};

// Whether both are of one problem.
bool is_same_problem(const Matmul24PlanEntry& a, const Matmul24PlanEntry& b);

// Immutable, so that any number of threads may look things up.
class Matmul24PlanTable {
 public:
  Matmul24PlanTable() = default;  // holds nothing: the rule alone
  // In any order. Throws Error{kInvalidArgument} where two are of one problem.
  explicit Matmul24PlanTable(std::vector<Matmul24PlanEntry> entries);

  // The plan for a problem, or null. An entry holds for its own multiprocessors, dtype, n and k, and for the
  // tokens down to the entry of the next smaller m, but for more than half of its own: a tile that fits m
  // fits no fewer. A plan that may not replace the rule's (may_replace_rule_24_sm90) is passed over.
  const Matmul24Sm90Plan* find(const Matmul24Sm90Problem& problem, const Sm90Caps& caps) const;

  const std::vector<Matmul24PlanEntry>& entries() const { return entries_; }  // sorted

 private:
  std::vector<Matmul24PlanEntry> entries_;
};

// What `grille bench linear --tune` measured on the devices that this build knows; docs/benchmarks.md says
// how it is made.
const Matmul24PlanTable& built_in_24_plans();

}  // namespace grille::kernels
