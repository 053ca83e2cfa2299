#include "grille/kernels/matmul_24_plan_table.h"

#include <algorithm>
#include <tuple>

#include "grille/base/error.h"

namespace grille::kernels {
namespace {

auto key_of(const Matmul24PlanEntry& e) { return std::tuple(e.multiprocessors, e.dtype, e.n, e.k, e.m); }

}  // namespace

bool is_same_problem(const Matmul24PlanEntry& a, const Matmul24PlanEntry& b) {
  return key_of(a) == key_of(b);
}

Matmul24PlanTable::Matmul24PlanTable(std::vector<Matmul24PlanEntry> entries) : entries_(std::move(entries)) {
  std::sort(entries_.begin(), entries_.end(),
            [](const auto& a, const auto& b) { return key_of(a) < key_of(b); });
  const auto twice = std::adjacent_find(entries_.begin(), entries_.end(), is_same_problem);
  if (twice == entries_.end()) return;
  fail(ErrorCode::kInvalidArgument, "two plans for [{}, {}] x {} tokens of {} on {} multiprocessors",
       twice->n, twice->k, twice->m, dtype_name(twice->dtype), twice->multiprocessors);
}

const Matmul24Sm90Plan* Matmul24PlanTable::find(const Matmul24Sm90Problem& problem,
                                                const Sm90Caps& caps) const {
  const std::tuple wanted(caps.multiprocessors, problem.dtype, problem.n, problem.k, problem.m);
  const auto entry = std::lower_bound(entries_.begin(), entries_.end(), wanted,
                                      [](const auto& e, const auto& key) { return key_of(e) < key; });
  const bool holds = entry != entries_.end() && entry->multiprocessors == caps.multiprocessors &&
                     entry->dtype == problem.dtype && entry->n == problem.n && entry->k == problem.k &&
                     problem.m > entry->m / 2;
  return holds && may_replace_rule_24_sm90(problem, caps, entry->plan) ? &entry->plan : nullptr;
}

}  // namespace grille::kernels
