#include "cli/linear_options.h"

#include <algorithm>

#include "grille/base/error.h"

namespace grille::cli {
namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

void add_linear_options(CLI::App& command, benchmark::LinearRequest& request, std::string& svg) {
  CLI::Option* model = command.add_option("--model", request.model,
                                          "Layers of a model's block: llama-3-8b, llama-3-70b, qwen2.5-7b");
  model->capture_default_str();
  command.add_option("--shapes", request.shapes, "Layers as KxN,... (in features x out features) instead")
      ->excludes(model);
  command.add_option("--m", request.tokens, "Token counts")->capture_default_str();
  command
      .add_option("--formats", request.formats, "all, none, or some of " + joined(benchmark::format_names()))
      ->capture_default_str();
  command
      .add_option("--baselines", request.baselines,
                  "matching (the formats' types, and dense bf16), all, none, or some of " +
                      joined(benchmark::baseline_names()))
      ->capture_default_str();
  command
      .add_option("--seconds", request.seconds,
                  "Measuring time of a contender and point, once with weights from memory and once warm")
      ->capture_default_str();
  command.add_option("--turns", request.turns, "In so many turns, between which the other contenders run")
      ->capture_default_str();
  CLI::Option* roofline = command.add_option("--svg", svg, "Also write a roofline plot")->option_text("FILE");
  CLI::Option* plans =
      command
          .add_option(
              "--plans", request.plans,
              "Let the 2:4 kernels use the plans of this file, or none but their rule, in place of the "
              "built-in ones")
          ->option_text("FILE|none");
  command
      .add_option(
          "--tune", request.tune,
          "Measure no baselines but every plan of the 2:4 kernels, and add the best ones to this file")
      ->option_text("FILE")
      ->excludes(roofline)
      ->excludes(plans);
}

int linear_device(const std::string& device) {
  if (device == "auto" || device == "cuda") return 0;
  check(device != "cpu", ErrorCode::kUnsupported,
        "bench linear measures CUDA kernels; for the CPU run build/bin/bench_linear");
  const std::string number = device.starts_with("cuda:") ? device.substr(5) : "";
  const bool digits = !number.empty() && number.size() <= 3 &&
                      std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
  check(digits, ErrorCode::kInvalidArgument, "--device {}: expected cuda or cuda:N", device);
  return std::stoi(number);
}

}  // namespace grille::cli
