#include "grille/checkpoint/name_pattern.h"

#include <memory>
#include <utility>

#include "grille/base/error.h"
#include "grille/checkpoint/quote_name.h"

namespace grille::checkpoint {

// Parses a pattern to a tree, then builds the automaton from its end to its start: each node is compiled with
// the state that follows it.
class NamePatternCompiler {
 public:
  NamePatternCompiler(std::string_view pattern, NamePattern& automaton)
      : text_(pattern), automaton_(automaton) {}

  void compile() {
    if (text_.size() > kLongest) fail_at("too long an expression");
    const Node tree = parse_alternatives(0);
    if (!at_end()) fail_at("an unmatched ')'");
    automaton_.start_ = emit(tree, add_state({Kind::kMatch}));
  }

 private:
  using Bytes = NamePattern::Bytes;
  using Kind = NamePattern::State::Kind;
  static constexpr int kDeepest = 50;
  static constexpr int kMostRepeats = 1000;
  static constexpr std::size_t kLongest = 4096;
  static constexpr std::size_t kMostStates = 4096;
  static constexpr int kMostSteps = 20'000;  // repeats of nothing make no states

  struct Node {
    enum class Type { kSequence, kAlternatives, kRepeat, kBytes, kBegin, kEnd } type;
    std::vector<Node> children;
    Bytes bytes;
    int least = 0;
    int most = 0;  // -1: no limit
  };

  [[noreturn]] void fail_at(std::string_view what, ErrorCode code = ErrorCode::kInvalidArgument) const {
    fail(code, "pattern {}: {} at character {}", quote_name(text_), what, position_);
  }

  bool at_end() const { return position_ == text_.size(); }
  char peek() const { return text_[position_]; }
  bool take(char c) {
    if (at_end() || peek() != c) return false;
    ++position_;
    return true;
  }
  unsigned char take_any() {
    if (at_end()) fail_at("an unfinished expression");
    return static_cast<unsigned char>(text_[position_++]);
  }

  Node parse_alternatives(int depth) {
    if (depth > kDeepest) fail_at("too many nested groups");
    Node node{Node::Type::kAlternatives, {}, {}};
    do {
      node.children.push_back(parse_sequence(depth));
    } while (take('|'));
    return node;
  }

  Node parse_sequence(int depth) {
    Node node{Node::Type::kSequence, {}, {}};
    while (!at_end() && peek() != '|' && peek() != ')') node.children.push_back(parse_repeat(depth));
    return node;
  }

  Node parse_repeat(int depth) {
    Node atom = parse_atom(depth);
    int least = 0;
    int most = -1;
    if (take('*')) {
    } else if (take('+')) {
      least = 1;
    } else if (take('?')) {
      most = 1;
    } else if (!take_counts(least, most)) {
      return atom;
    }
    take('?');  // a lazy repeat matches the same names
    if (!at_end() && (peek() == '*' || peek() == '+' || peek() == '?')) fail_at("a repeat of a repeat");
    Node node{Node::Type::kRepeat, {}, {}, least, most};
    node.children.push_back(std::move(atom));
    return node;
  }

  // {m}, {m,}, {,n} or {m,n}; anything else in braces is literal, as in Python.
  bool take_counts(int& least, int& most) {
    const std::size_t begin = position_;
    if (!take('{')) return false;
    const int first = take_number();
    const bool comma = take(',');
    const int second = comma ? take_number() : first;
    if (!take('}') || (first < 0 && second < 0)) {
      position_ = begin;
      return false;
    }
    least = first < 0 ? 0 : first;
    most = second;
    if (most >= 0 && most < least) fail_at("a repeat whose limits are swapped");
    return true;
  }

  int take_number() {
    int value = -1;
    while (!at_end() && peek() >= '0' && peek() <= '9') {
      value = (value < 0 ? 0 : value) * 10 + (take_any() - '0');
      if (value > kMostRepeats) fail_at("a repeat of more than 1000");
    }
    return value;
  }

  Node parse_atom(int depth) {
    const unsigned char c = take_any();
    Bytes bytes;
    switch (c) {
      case '(': {
        if (take('?') && !take(':'))
          fail_at("a group of a kind that is not supported", ErrorCode::kUnsupported);
        Node group = parse_alternatives(depth + 1);
        if (!take(')')) fail_at("a missing ')'");
        return group;
      }
      case '^': return {Node::Type::kBegin, {}, {}};
      case '$': return {Node::Type::kEnd, {}, {}};
      case '*':
      case '+':
      case '?': fail_at("nothing to repeat");
      case '.': bytes.set().reset('\n'); break;
      case '[': bytes = parse_class(); break;
      case '\\': bytes = parse_escape(); break;
      default: bytes.set(c);
    }
    return {Node::Type::kBytes, {}, bytes};
  }

  static Bytes range(unsigned char from, unsigned char to) {
    Bytes bytes;
    for (unsigned c = from; c <= to; ++c) bytes.set(c);
    return bytes;
  }

  Bytes parse_escape() {
    const unsigned char c = take_any();
    const Bytes digit = range('0', '9');
    const Bytes word = digit | range('a', 'z') | range('A', 'Z') | range('_', '_');
    const Bytes space = range('\t', '\r') | range(' ', ' ');
    switch (c) {
      case 'd': return digit;
      case 'D': return ~digit;
      case 'w': return word;
      case 'W': return ~word;
      case 's': return space;
      case 'S': return ~space;
      default:
        if (word.test(c) && c != '_') fail_at("an escape that is not supported", ErrorCode::kUnsupported);
        return range(c, c);
    }
  }

  Bytes parse_class() {
    const bool negated = take('^');
    Bytes bytes;
    bool first = true;
    while (first || at_end() || peek() != ']') {
      first = false;
      const unsigned char from = take_any();
      Bytes item = from == '\\' ? parse_escape() : range(from, from);
      if (position_ + 1 < text_.size() && peek() == '-' && text_[position_ + 1] != ']') {
        ++position_;
        if (item.count() != 1) fail_at("a range that begins with a class");
        const unsigned char to = take_any();
        const Bytes last = to == '\\' ? parse_escape() : range(to, to);
        if (last.count() != 1 || first_of(last) < first_of(item)) fail_at("a bad range");
        item = range(first_of(item), first_of(last));
      }
      bytes |= item;
    }
    ++position_;
    return negated ? ~bytes : bytes;
  }

  static unsigned char first_of(const Bytes& bytes) {
    return static_cast<unsigned char>(bytes._Find_first());
  }

  std::int32_t add_state(NamePattern::State state) {
    if (automaton_.states_.size() >= kMostStates) fail_at("too large an expression");
    automaton_.states_.push_back(state);
    return static_cast<std::int32_t>(automaton_.states_.size() - 1);
  }

  // The state that matches `node` and goes on with `next`.
  std::int32_t emit(const Node& node, std::int32_t next) {
    if (++steps_ > kMostSteps) fail_at("too large an expression");
    switch (node.type) {
      case Node::Type::kBegin: return add_state({Kind::kBegin, next});
      case Node::Type::kEnd: return add_state({Kind::kEnd, next});
      case Node::Type::kBytes:
        automaton_.sets_.push_back(node.bytes);
        return add_state({Kind::kBytes, next, -1, static_cast<std::int32_t>(automaton_.sets_.size() - 1)});
      case Node::Type::kSequence:
        for (auto child = node.children.rbegin(); child != node.children.rend(); ++child)
          next = emit(*child, next);
        return next;
      case Node::Type::kAlternatives: {
        std::int32_t start = emit(node.children.back(), next);
        for (auto child = node.children.rbegin() + 1; child != node.children.rend(); ++child) {
          start = add_state({Kind::kFork, emit(*child, next), start});
        }
        return start;
      }
      case Node::Type::kRepeat: return emit_repeat(node, next);
    }
    return next;
  }

  std::int32_t emit_repeat(const Node& node, std::int32_t next) {
    const Node& child = node.children.front();
    std::int32_t start = next;
    if (node.most < 0) {
      start = add_state({Kind::kFork, -1, next});
      const std::int32_t body = emit(child, start);
      automaton_.states_[static_cast<std::size_t>(start)].next = body;
    } else {
      for (int i = node.least; i < node.most; ++i) start = add_state({Kind::kFork, emit(child, start), next});
    }
    for (int i = 0; i < node.least; ++i) start = emit(child, start);
    return start;
  }

  std::string_view text_;
  NamePattern& automaton_;
  std::size_t position_ = 0;
  int steps_ = 0;
};

NamePattern::NamePattern(std::string_view pattern) { NamePatternCompiler(pattern, *this).compile(); }

bool NamePattern::matches(std::string_view name) const {
  std::vector<std::int32_t> current{start_};
  std::vector<std::int32_t> waiting;  // states of kind kBytes that are alive
  std::vector<std::size_t> seen(states_.size(),
                                static_cast<std::size_t>(-1));  // last position that reached it
  for (std::size_t position = 0; position <= name.size(); ++position) {
    waiting.clear();
    while (!current.empty()) {
      const std::int32_t id = current.back();
      current.pop_back();
      if (std::exchange(seen[static_cast<std::size_t>(id)], position) == position) continue;
      const State& state = states_[static_cast<std::size_t>(id)];
      switch (state.kind) {
        case State::Kind::kMatch: return true;
        case State::Kind::kBytes: waiting.push_back(id); break;
        case State::Kind::kBegin:
          if (position == 0) current.push_back(state.next);
          break;
        case State::Kind::kEnd:
          if (position == name.size()) current.push_back(state.next);
          break;
        case State::Kind::kFork:
          current.push_back(state.next);
          current.push_back(state.other);
          break;
      }
    }
    if (position == name.size()) break;
    const auto byte = static_cast<unsigned char>(name[position]);
    for (const std::int32_t id : waiting) {
      const State& state = states_[static_cast<std::size_t>(id)];
      if (sets_[static_cast<std::size_t>(state.bytes)].test(byte)) current.push_back(state.next);
    }
    if (current.empty()) return false;
  }
  return false;
}

}  // namespace grille::checkpoint
