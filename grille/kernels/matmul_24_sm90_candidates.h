// The plans among which measuring finds the best one for a 2:4 matmul on a Hopper GPU.
#pragma once

#include <vector>

#include "grille/kernels/matmul_24_sm90_plan.h"

namespace grille::kernels {

// The rule's plan (rule_plan_24_sm90) first, then the others that are worth a try, each once, at most
// kMost24Candidates, always in the same order: streaming up to 128 tokens, the large kernel from 17 tokens
// on, so that the two compete where they meet. All may replace the rule's (may_replace_rule_24_sm90). Pure.
std::vector<Matmul24Sm90Plan> candidate_plans_24_sm90(const Matmul24Sm90Problem& problem,
                                                      const Sm90Caps& caps);

constexpr std::size_t kMost24Candidates = 60;

}  // namespace grille::kernels
