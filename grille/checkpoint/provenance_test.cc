#include "grille/checkpoint/provenance.h"

#include <limits>

#include <gtest/gtest.h>

#include "grille/checkpoint/json_file.h"
#include "grille/checkpoint/scratch_directory.h"

namespace grille::checkpoint {
namespace {

using nlohmann::json;

TEST(Provenance, SurvivesAJourneyThroughJson) {
  Provenance provenance;
  ProvenanceStep step;
  step.command = "prune";
  step.version = "0.1.0";
  step.method = "sparsegpt";
  step.options = {{"pattern", "2:4"}, {"damping", 0.01}};
  step.seed = 18446744073709551615ull;
  step.calibration_sha256 = std::string(64, 'a');
  step.layers = {{"model.layers.0.mlp.up_proj", 0.5, 0.125, 0.01}, {"b", 0.25, std::nullopt, std::nullopt}};
  step.perplexity_before = 21.5;
  step.perplexity_after = std::numeric_limits<double>::infinity();  // left out
  provenance.steps.push_back(step);
  provenance.steps.emplace_back().command = "quantize";
  const json written = to_json(provenance);
  const auto read = parse_provenance({{"grille", json::parse(written.dump())}});
  ASSERT_TRUE(read);
  EXPECT_EQ(to_json(*read), written);
  EXPECT_EQ(read->steps[0].seed, step.seed);
  EXPECT_EQ(read->steps[0].layers[0].relative_error, 0.125);
  EXPECT_EQ(read->steps[0].perplexity_after, std::nullopt);
  EXPECT_EQ(read->steps[1].command, "quantize");
}

TEST(Provenance, AbsentIsNothingAndIllFormedIsAnError) {
  EXPECT_FALSE(parse_provenance(json::object()));
  EXPECT_FALSE(parse_provenance({{"grille", nullptr}}));
  for (const char* text : {R"({"grille":3})", R"({"grille":{}})", R"({"grille":{"version":1}})",
                           R"({"grille":{"version":1,"steps":[{"command":7}]}})",
                           R"({"grille":{"version":1,"steps":[{"command":"p","seed":"x"}]}})",
                           R"({"grille":{"version":1,"steps":[{"command":"p","layers":[1]}]}})"}) {
    expect_contains(error_of([&] { parse_provenance(json::parse(text)); }),
                    "corrupt data: config.json: grille:");
  }
  expect_contains(error_of([&] { parse_provenance({{"grille", {{"version", 2}}}}); }), "later version");
}

TEST(JsonFile, LimitsDepthSizeAndRepetition) {
  EXPECT_EQ(parse_json(R"({"a":[1,{"b":2}],"c":{"a":1}})", "f")["a"][1]["b"], 2);
  expect_contains(error_of([] { parse_json(std::string(1000000, '['), "f"); }),
                  "f: JSON is nested more than 64 deep");
  expect_contains(error_of([] { parse_json(R"({"a":1,"a":2})", "f"); }), "f: the key 'a' appears twice");
  expect_contains(error_of([] { parse_json(R"([{"x":{"a":1,"b":1,"a":2}}])", "f"); }),
                  "the key 'a' appears twice");
  expect_contains(error_of([] { parse_json("{\"a\":1} x", "f"); }), "f: not valid JSON at byte");
  expect_contains(error_of([] { parse_json("\"\xff\"", "f"); }), "f: not valid JSON");
  expect_contains(error_of([] { parse_json("1e999", "f"); }), "f: JSON holds a number that is out of range");
  expect_contains(error_of([] { parse_json("[1,2]", "f", {.bytes = 4}); }), "5 bytes of JSON, at most 4");
  expect_contains(error_of([] { read_json_file("/nonexistent/config.json"); }),
                  "not found: /nonexistent/config.json");
}

}  // namespace
}  // namespace grille::checkpoint
