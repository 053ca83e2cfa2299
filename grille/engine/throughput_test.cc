#include "grille/engine/throughput.h"

#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include "grille/models/tiny_decoder.h"

namespace grille::engine {
namespace {

TEST(Throughput, CountsEveryTokenOfEveryRequest) {
  const c10::InferenceMode inference;
  const models::Decoder model = models::tiny_decoder();
  LocalEngine engine(model, {.max_batched_tokens = 64, .max_sequences = 4});
  const ThroughputResult result =
      run_throughput(engine, 50, {.num_prompts = 8, .input_len = 10, .output_len = 6}, no_progress());
  EXPECT_EQ(result.requests, 8);
  EXPECT_EQ(result.prompt_tokens, 80);
  EXPECT_EQ(result.output_tokens, 48);  // nothing ended early
  EXPECT_EQ(result.steps, 12);          // two rounds of four: a step with the prompts, then five
  EXPECT_DOUBLE_EQ(result.mean_batch, 4.0);
  EXPECT_DOUBLE_EQ(result.tokens_per_second(), 128 / result.elapsed_seconds);
  EXPECT_DOUBLE_EQ(result.output_tokens_per_second(), 48 / result.elapsed_seconds);
  EXPECT_LE(result.stages.total(), result.elapsed_seconds);
}

TEST(Throughput, RefusesSizesThatCannotRun) {
  const models::Decoder model = models::tiny_decoder();
  LocalEngine engine(model, {});
  EXPECT_THROW(run_throughput(engine, 50, {.num_prompts = 0}, no_progress()), Error);
  EXPECT_THROW(run_throughput(engine, 50, {.input_len = 0}, no_progress()), Error);
  EXPECT_THROW(run_throughput(engine, 50, {.input_len = 60, .output_len = 6}, no_progress()), Error);
}

}  // namespace
}  // namespace grille::engine
