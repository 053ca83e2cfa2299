// For tests: parsers against mutated input. Whatever the bytes, a grille::Error or a result, and nothing
// else. Meant to run under the address sanitizer (`make fuzz`); seeded, so that a failure repeats.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "grille/base/error.h"

namespace grille {

// How many random inputs a Fuzz* test tries: GRILLE_FUZZ_RUNS (`make fuzz` sets it), else 2000, enough to
// keep the test itself alive.
inline std::int64_t fuzz_runs() {
  const char* text = std::getenv("GRILLE_FUZZ_RUNS");
  const std::int64_t runs = text == nullptr ? 0 : std::strtoll(text, nullptr, 10);
  return runs > 0 ? runs : 2000;
}

// Seeds with one to four changes each: bits, bytes, numbers, cuts, pieces of seeds, and `words` of the
// language that the parser reads.
class Mutator {
 public:
  Mutator(std::vector<std::string> seeds, std::vector<std::string> words)
      : seeds_(std::move(seeds)), words_(std::move(words)) {}

  std::string next() {
    std::string text = seeds_[below(seeds_.size())];
    for (std::size_t i = below(4) + 1; i > 0; --i) mutate(text);
    return text;
  }

 private:
  static constexpr std::size_t kMostRepeated = std::size_t{1} << 15;  // bytes

  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  template <typename T>
  void put_number(std::string& text) {
    static constexpr std::uint64_t kNumbers[] = {
        0,           1,          2,          3,          4,          7,          8,          31,
        32,          33,         255,        256,        65535,      0x7fffffff, 0x80000000, 0xffffffff,
        0x100000000, 1ull << 40, 1ull << 61, 1ull << 62, 1ull << 63, ~0ull};
    const T value = static_cast<T>(kNumbers[below(std::size(kNumbers))] + (below(4) == 0 ? below(64) : 0));
    if (text.size() < sizeof value) return;
    text.replace(below(text.size() - sizeof value + 1), sizeof value, reinterpret_cast<const char*>(&value),
                 sizeof value);
  }

  // A word or a piece many times over: nesting is made of that.
  void repeat(std::string& text) {
    const std::string piece =
        below(2) == 0 ? words_[below(words_.size())] : text.substr(below(text.size() + 1), below(32));
    if (piece.empty()) return;
    std::string run;
    for (std::size_t i = below(kMostRepeated / piece.size()) + 1; i > 0; --i) run += piece;
    text.insert(below(text.size() + 1), run);
  }

  void mutate(std::string& text) {
    if (below(64) == 0) return repeat(text);  // rare: such inputs are long
    switch (below(9)) {
      case 0:
        if (!text.empty()) text[below(text.size())] ^= static_cast<char>(1u << below(8));
        break;
      case 1:
        if (!text.empty()) text[below(text.size())] = static_cast<char>(random_());
        break;
      case 2: put_number<std::uint64_t>(text); break;
      case 3: put_number<std::uint32_t>(text); break;
      case 4: text.resize(below(text.size() + 1)); break;
      case 5: text.erase(below(text.size() + 1), below(16)); break;
      case 6: text.insert(below(text.size() + 1), words_[below(words_.size())]); break;
      case 7: {  // a piece again, somewhere else
        const std::string piece = text.substr(below(text.size() + 1), below(64));
        text.insert(below(text.size() + 1), piece);
        break;
      }
      case 8: {  // a piece of another seed
        const std::string& other = seeds_[below(seeds_.size())];
        text.insert(below(text.size() + 1), other, below(other.size() + 1), below(64));
        break;
      }
    }
  }

  std::vector<std::string> seeds_;
  std::vector<std::string> words_;
  std::mt19937_64 random_{0};
};

inline std::vector<std::string> json_words() {
  return {
      "{",       "}",   "[", "]", "\"", ":", ",", "null", "true", "-1", "1e9", "0.5", "99999999999999999999",
      "\\u0000", "\xff"};
}

struct FuzzInput {
  std::vector<std::string> seeds;
  std::vector<std::string> words;
  // What one input costs in inputs of a plain parser: fuzz_runs() / cost inputs are tried.
  std::int64_t cost = 1;
};

// Runs `parse` on mutated seeds. The seeds themselves must be accepted, and mutations must not all be refused
// or all be accepted, or else the test looks at nothing. An input that takes kSlowestSeconds ends the
// process.
template <typename Parse>
void fuzz(const FuzzInput& input, Parse&& parse) {
  constexpr unsigned kSlowestSeconds = 60;
  for (const std::string& seed : input.seeds) ASSERT_NO_THROW(parse(seed)) << seed;
  Mutator mutator(input.seeds, input.words);
  std::int64_t accepted = 0;
  const std::int64_t runs = std::max<std::int64_t>(fuzz_runs() / input.cost, 100);
  for (std::int64_t i = 0; i < runs; ++i) {
    const std::string text = mutator.next();
    ::alarm(kSlowestSeconds);
    try {
      parse(text);
      ++accepted;
    } catch (const Error& error) {
      ASSERT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      ASSERT_NE(error.code(), ErrorCode::kInternal) << error.what();
    }
  }
  ::alarm(0);
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, runs);
}

}  // namespace grille
