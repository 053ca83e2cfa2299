#include "grille/checkpoint/module_targets.h"

#include <algorithm>
#include <utility>

#include "grille/base/error.h"

namespace grille::checkpoint {
namespace {
constexpr std::string_view kPatternPrefix = "re:";
constexpr std::size_t kMostTargets = 100'000;
constexpr std::size_t kMostPatterns = 1000;
}  // namespace

ModuleTargets::ModuleTargets(std::vector<std::string> targets) : list_(std::move(targets)) {
  check(list_.size() <= kMostTargets, ErrorCode::kInvalidArgument, "{} targets, at most {} are possible",
        list_.size(), kMostTargets);
  for (const std::string& target : list_) {
    if (!target.starts_with(kPatternPrefix)) {
      names_.insert(target);
      continue;
    }
    check(patterns_.size() < kMostPatterns, ErrorCode::kInvalidArgument, "more than {} patterns in one list",
          kMostPatterns);
    patterns_.emplace_back(std::string_view(target).substr(kPatternPrefix.size()));
  }
}

ModuleTargets::Match ModuleTargets::match(const std::string& module, const std::string& class_name) const {
  if (names_.contains(module)) return Match::kName;
  const bool by_pattern = std::any_of(patterns_.begin(), patterns_.end(),
                                      [&](const NamePattern& p) { return p.matches(module); });
  if (by_pattern) return Match::kPattern;
  return names_.contains(class_name) ? Match::kClass : Match::kNone;
}

}  // namespace grille::checkpoint
