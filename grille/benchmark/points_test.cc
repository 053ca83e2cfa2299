#include "grille/benchmark/points.h"

#include <gtest/gtest.h>

#include "grille/base/error.h"

namespace grille::benchmark {
namespace {

// The message of the Error that `call` throws; it must be one line and name `option`.
template <typename Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(BenchmarkPoints, Llama38BIsTheFourLayersOfItsConfig) {
  // hidden 4096, 32 heads and 8 KV heads of 128, intermediate 14336.
  const std::vector<LayerShape> layers = model_layers("llama-3-8b");
  ASSERT_EQ(layers.size(), 4u);
  EXPECT_EQ(layers[0], (LayerShape{"qkv", 4096, 4096 + 2 * 8 * 128}));
  EXPECT_EQ(layers[1], (LayerShape{"o", 4096, 4096}));
  EXPECT_EQ(layers[2], (LayerShape{"gate_up", 4096, 2 * 14336}));
  EXPECT_EQ(layers[3], (LayerShape{"down", 14336, 4096}));
}

TEST(BenchmarkPoints, EveryModelsLayersFitEachOther) {
  for (const char* model : {"llama-3-8b", "llama-3-70b", "qwen2.5-7b"}) {
    const std::vector<LayerShape> l = model_layers(model);
    ASSERT_EQ(l.size(), 4u);
    const std::int64_t hidden = l[0].k;
    EXPECT_EQ(l[1].n, hidden) << model;
    EXPECT_EQ(l[2].k, hidden) << model;
    EXPECT_EQ(l[2].n, 2 * l[3].k) << model;
    EXPECT_EQ(l[3].n, hidden) << model;
  }
  EXPECT_NE(message_of([] { model_layers("gpt-2"); }).find("llama-3-8b, llama-3-70b, qwen2.5-7b"),
            std::string::npos);
}

TEST(BenchmarkPoints, ShapesAreReadAsKxN) {
  EXPECT_EQ(parse_shapes("4096x6144,14336x4096"),
            (std::vector<LayerShape>{{"4096x6144", 4096, 6144}, {"14336x4096", 14336, 4096}}));
  for (const char* text : {"", "4096", "x16", "16x", "16x16x16", "0x16", "-16x16", "24x16", "16x8", "16x16,",
                           "16 x16", "99999999999999999999x16", "2097152x16"}) {
    EXPECT_NE(message_of([&] { parse_shapes(text); }).find("--shapes"), std::string::npos) << text;
  }
}

TEST(BenchmarkPoints, TokenCountsAreSortedAndUnique) {
  EXPECT_EQ(parse_token_counts("256,1,16,1"), (std::vector<std::int64_t>{1, 16, 256}));
  for (const char* text : {"", "0", "1,", "1;2", "-3", "1.5", "1e3", "2097152"})
    EXPECT_NE(message_of([&] { parse_token_counts(text); }).find("--m"), std::string::npos) << text;
}

TEST(BenchmarkPoints, AChoiceKeepsTheOrderOfWhatThereIs) {
  const std::vector<std::string> known = {"a", "b", "c"};
  EXPECT_EQ(parse_choice("c,a", known, "--letters"), (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(parse_choice("all", known, "--letters"), known);
  EXPECT_TRUE(parse_choice("none", known, "--letters").empty());
  for (const char* text : {"", "d", "a,,b", "a,all"}) {
    const std::string message = message_of([&] { parse_choice(text, known, "--letters"); });
    EXPECT_NE(message.find("--letters"), std::string::npos) << text;
    EXPECT_NE(message.find("a, b, c"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace grille::benchmark
