#include "grille/checkpoint/name_pattern.h"

#include <chrono>
#include <string>

#include <gtest/gtest.h>

#include "grille/base/error.h"
#include "grille/checkpoint/module_targets.h"

namespace grille::checkpoint {
namespace {

// Expected results are those of Python's re.match (tests/test_compressed_tensors.py compares more).
TEST(NamePattern, MatchesAsPythonDoes) {
  struct Case {
    const char* pattern;
    const char* name;
    bool matches;
  };
  const Case cases[] = {
      {".*lm_head", "lm_head", true},
      {".*lm_head", "model.lm_head.x", true},
      {"lm_head", "model.lm_head", false},
      {"lm_head", "lm_head_2", true},
      {"lm_head$", "lm_head_2", false},
      {"^lm_head$", "lm_head", true},
      {"model\\.layers\\.(0|1|12)\\.", "model.layers.12.mlp", true},
      {"model\\.layers\\.(0|1|12)\\.", "model.layers.121.mlp", false},
      {"model\\.layers\\.[0-9]+\\.self_attn", "model.layers.7.self_attn.q_proj", true},
      {".*\\.(?:q|k|v)_proj$", "model.layers.7.self_attn.k_proj", true},
      {".*\\.(?:q|k|v)_proj$", "model.layers.7.self_attn.o_proj", false},
      {"a{2,3}b", "aab", true},
      {"a{2,3}b", "aaaab", false},
      {"a{2}b", "ab", false},
      {"a{,2}b", "b", true},
      {"a{x}", "a{x}", true},
      {"(ab?)*c", "abaabc", true},
      {"[^.]+$", "lm_head", true},
      {"[^.]+$", "lm.head", false},
      {"[]a]b", "]b", true},
      {"[a\\-z]", "-", true},
      {"[a-]", "-", true},
      {"\\d\\D\\w\\W\\s\\S", "1x_. y", true},
      {"", "anything", true},
      {"a|", "b", true},
      {"x+?y", "xxy", true},
      {"a^b", "ab", false},
  };
  for (const Case& c : cases)
    EXPECT_EQ(NamePattern(c.pattern).matches(c.name), c.matches) << c.pattern << " " << c.name;
}

TEST(NamePattern, WhatItCannotDoIsAnErrorAndNotAWrongAnswer) {
  for (const char* pattern : {"(?!lm_head).*", "(?=a)", "(a)\\1", "\\bq_proj", "a\\Z", "(?P<x>a)"}) {
    try {
      const NamePattern compiled(pattern);
      ADD_FAILURE() << pattern;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << pattern;
    }
  }
  for (const char* pattern :
       {"(", ")", "a)", "[a", "*a", "a**", "a{3,2}", "a{1001}", "[z-a]", "\\", "[\\d-z]"}) {
    EXPECT_THROW(NamePattern{pattern}, Error) << pattern;
  }
}

TEST(NamePattern, HostilePatternsEndQuickly) {
  const auto start = std::chrono::steady_clock::now();
  const std::string name(500, 'a');
  EXPECT_FALSE(NamePattern("(a*)*b").matches(name));
  EXPECT_FALSE(NamePattern("(a|a)*b").matches(name));
  EXPECT_FALSE(NamePattern("(a?){60}a{60}b").matches(name));
  EXPECT_THROW(NamePattern("((((){1000}){1000}){1000}){1000}"), Error);
  EXPECT_THROW(NamePattern("((a{1000}){1000}){1000}"), Error);
  EXPECT_THROW(NamePattern(std::string(3000, '(')), Error);
  EXPECT_THROW(NamePattern(std::string(1'000'000, 'a')), Error);
  // Backtracking would need 2^500 steps; ten seconds leave room for a slow machine under a sanitizer.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(ModuleTargets, KnowClassesNamesAndPatterns) {
  const ModuleTargets targets({"Linear", "lm_head", "re:.*norm$"});
  EXPECT_TRUE(targets.matches("model.layers.0.mlp.up_proj", "Linear"));
  EXPECT_TRUE(targets.matches("lm_head", "Other"));
  EXPECT_TRUE(targets.matches("model.norm", "RMSNorm"));
  EXPECT_FALSE(targets.matches("model.embed_tokens", "Embedding"));
  EXPECT_FALSE(ModuleTargets().matches("a", "Linear"));
  EXPECT_THROW(ModuleTargets({"re:("}), Error);
}

}  // namespace
}  // namespace grille::checkpoint
