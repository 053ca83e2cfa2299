// Regular expressions for module names.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace grille::checkpoint {

// The part of Python's `re` that selects modules in practice: literals, '.', classes, \d \w \s and their
// complements, groups, |, * + ? {m,n}, ^ and $. As re.match: anchored at the start, free at the end.
// A set of automaton states is followed through the name, so that no pattern takes longer than
// states * length steps: configurations come from strangers, and backtracking matchers can be made to hang.
class NamePattern {
 public:
  // Throws Error{kUnsupported} for look-around, back-references and the rest of the language, and
  // Error{kInvalidArgument} for bad syntax and for patterns of more than 4096 states.
  explicit NamePattern(std::string_view pattern);

  bool matches(std::string_view name) const;

 private:
  friend class NamePatternCompiler;
  using Bytes = std::bitset<256>;
  struct State {
    enum class Kind : std::uint8_t { kBytes, kFork, kBegin, kEnd, kMatch } kind;
    std::int32_t next = -1;   // also the first branch of a fork
    std::int32_t other = -1;  // the second one
    std::int32_t bytes = -1;  // index in sets_
  };
  std::vector<State> states_;
  std::vector<Bytes> sets_;
  std::int32_t start_ = -1;
};

}  // namespace grille::checkpoint
