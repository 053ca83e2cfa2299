// Speed of whole models on the CPU: bench/model_speed.py drives this program, so that other libraries take
// turns with it.
//
//   bench_model [--threads N] MODEL...
//
// prints a line {"machine", "models": [...]} once the models are loaded, then answers every line of input
//   MODEL_INDEX PROMPT_TOKENS NEW_TOKENS
// with one JSON line: {"prefill_seconds", "step_seconds": [of each new token], "read_gbps"}. Token ids are
// random, the same each time; decoding is greedy and goes through the engine, sampler included. Prefill ends
// with the first token.
#include <chrono>
#include <cstdio>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "bench/machine.h"
#include "bench/read_bandwidth.h"
#include "grille/base/parallel.h"
#include "grille/base/progress.h"
#include "grille/engine/local_engine.h"
#include "grille/models/load.h"

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What one token has to read: every weight once, but of a separate embedding only a row.
std::int64_t weight_bytes(const grille::models::Decoder& decoder) {
  const auto stored_bytes = [](const grille::nn::Linear& linear) {
    return dynamic_cast<const grille::nn::WeightLinear&>(linear).weight().stored_bytes();
  };
  std::int64_t bytes = stored_bytes(*decoder.head);
  for (const auto& layer : decoder.layers) {
    for (const auto& linear : layer.linears) bytes += stored_bytes(*linear);
  }
  return bytes;
}

// Keys and values of one position in all layers.
std::int64_t position_bytes(const grille::models::Decoder& decoder) {
  const grille::models::DecoderConfig& c = decoder.config();
  return 2 * c.num_layers * c.num_kv_heads * c.head_dim *
         static_cast<std::int64_t>(c10::elementSize(decoder.compute_dtype()));
}

grille::engine::Request random_request(std::int64_t prompt, std::int64_t fresh, std::int64_t vocab) {
  grille::engine::Request request;
  std::mt19937 random(1);
  for (std::int64_t i = 0; i < prompt; ++i) {
    request.prompt.push_back(static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(vocab)));
  }
  request.max_tokens = fresh + 1;  // the first one comes with the prompt
  return request;
}

nlohmann::json run(const grille::models::Decoder& decoder, std::int64_t prompt, std::int64_t fresh) {
  grille::engine::LocalEngineOptions options;
  options.max_positions = prompt + fresh + 1;
  options.max_sequences = 1;
  grille::engine::LocalEngine engine(decoder, options);
  engine.submit(random_request(prompt, fresh, decoder.config().vocab_size));
  auto start = Clock::now();
  while (engine.step().empty()) {
  }
  const double prefill = seconds_since(start);
  std::vector<double> steps;
  while (!engine.idle()) {
    start = Clock::now();
    engine.step();
    steps.push_back(seconds_since(start));
  }
  return {{"prefill_seconds", prefill}, {"step_seconds", steps}};
}

}  // namespace

int main(int argc, char** argv) {
  int threads = 2;
  std::vector<std::string> paths;
  CLI::App app("Speed of whole models on the CPU; see bench/model_speed.py");
  app.add_option("--threads", threads, "Threads")->check(CLI::PositiveNumber);
  app.add_option("MODEL", paths, "Models")->required();
  CLI11_PARSE(app, argc, argv);
  grille::set_num_threads(threads);
  at::set_num_threads(threads);

  const grille::bench::ReadBandwidth bandwidth;
  std::vector<grille::models::Decoder> decoders;
  nlohmann::json models = nlohmann::json::array();
  for (const std::string& path : paths) {
    decoders.push_back(
        grille::models::load_decoder(grille::models::open_model(path), {}, grille::no_progress()));
    models.push_back({{"path", path},
                      {"weight_bytes", weight_bytes(decoders.back())},
                      {"position_bytes", position_bytes(decoders.back())}});
  }
  std::cout << nlohmann::json{{"machine", grille::bench::machine()}, {"models", models}}.dump() << std::endl;
  std::size_t index = 0;
  std::int64_t prompt = 0;
  std::int64_t fresh = 0;
  while (std::cin >> index >> prompt >> fresh) {
    nlohmann::json answer = run(decoders.at(index), prompt, fresh);
    answer["read_gbps"] = bandwidth.measure() * 1e-9;
    std::cout << answer.dump() << std::endl;
  }
  return 0;
}
