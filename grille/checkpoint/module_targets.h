// Which modules a rule is about, in compressed-tensors' syntax.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "grille/checkpoint/name_pattern.h"

namespace grille::checkpoint {

// A list of class names ("Linear"), full module names ("model.layers.0.mlp.up_proj") and "re:" followed by a
// regular expression (see NamePattern).
class ModuleTargets {
 public:
  // How a list claims a module, least specific first.
  enum class Match { kNone, kClass, kPattern, kName };

  ModuleTargets() = default;
  // Throws what NamePattern throws, and Error{kInvalidArgument} for a list that is out of all proportion.
  explicit ModuleTargets(std::vector<std::string> targets);

  const std::vector<std::string>& list() const { return list_; }
  Match match(const std::string& module, const std::string& class_name) const;
  bool matches(const std::string& module, const std::string& class_name) const {
    return match(module, class_name) != Match::kNone;
  }

 private:
  std::vector<std::string> list_;
  std::set<std::string> names_;
  std::vector<NamePattern> patterns_;
};

}  // namespace grille::checkpoint
