// grille prune
#include <algorithm>
#include <iostream>

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include "cli/compare.h"
#include "cli/compress_options.h"
#include "cli/evaluation_text.h"
#include "grille/base/error.h"

namespace grille::cli {
namespace {

struct PruneCommand {
  OutputOptions output;
  QuantizeOptions quantize;
  compress::PruneOptions prune;
  std::string pattern = "2:4";
  std::optional<double> sparsity;
  std::string method = "sparsegpt";
  std::string refine = "none";
  std::string reconstruct = "none";
  compress::ReconstructOptions reconstruction;
  std::vector<std::string> compare;
  EvaluationText text;
  std::vector<std::string> calibration;
  std::int64_t samples = 128;
  std::int64_t context = 0;
  bool dry_run = false;
  const CLI::App* command = nullptr;
};

std::vector<std::string> method_names() {
  std::vector<std::string> names;
  names.reserve(std::size(compress::kMethods));
  for (const auto method : compress::kMethods) names.push_back(compress::method_name(method));
  return names;
}

std::vector<std::string> names_of(const std::vector<compress::Candidate>& candidates) {
  std::vector<std::string> names;
  names.reserve(candidates.size());
  for (const auto& candidate : candidates) names.push_back(candidate.name);
  return names;
}

compress::Method parse_method(const std::string& name) {
  for (const auto method : compress::kMethods) {
    if (compress::method_name(method) == name) return method;
  }
  fail(ErrorCode::kInternal, "method '{}'", name);
}

compress::Refine parse_refine(const std::string& name) {
  for (const auto refine : {compress::Refine::kNone, compress::Refine::kMask, compress::Refine::kWeights}) {
    if (compress::refine_name(refine) == name) return refine;
  }
  fail(ErrorCode::kInternal, "refine '{}'", name);
}

text::CalibrationOptions calibration_options(const PruneCommand& options, const models::ModelFiles& files,
                                             const CommandContext& context) {
  text::CalibrationOptions calibration;
  calibration.files.assign(options.calibration.begin(), options.calibration.end());
  calibration.samples = options.samples;
  calibration.context =
      options.context > 0 ? options.context : std::min<std::int64_t>(2048, files.config.max_positions);
  calibration.seed = context.options.seed;
  check(calibration.context <= files.config.max_positions, ErrorCode::kInvalidArgument,
        "--context {}: the model's longest is {}", calibration.context, files.config.max_positions);
  return calibration;
}

nlohmann::json estimate_json(const compress::Estimate& estimate) {
  return {{"estimated_seconds", estimate.seconds},
          {"estimated_peak_host_bytes", estimate.peak_host_bytes},
          {"estimated_file_bytes_out", estimate.file_bytes_out}};
}

bool given(const PruneCommand& options, const char* name) { return options.command->count(name) > 0; }

// An option that would change nothing is a mistake.
void check_used(const PruneCommand& options, const std::vector<compress::Candidate>& candidates) {
  const auto none = [&](auto&& has) { return std::none_of(candidates.begin(), candidates.end(), has); };
  const auto belongs = [&](std::initializer_list<const char*> names, bool wanted, const char* to) {
    for (const char* name : names) {
      check(wanted || !given(options, name), ErrorCode::kInvalidArgument,
            "{}: belongs to {}, which is not given", name, to);
    }
  };
  check(
      !given(options, "--damping") || !none([](const auto& one) { return compress::damping_of(one.prune); }),
      ErrorCode::kInvalidArgument, "--damping: {} has none", fmt::join(names_of(candidates), ", "));
  belongs({"--epochs", "--rate"}, !none([](const auto& one) { return one.prune.reconstruct.has_value(); }),
          "--reconstruct block");
  belongs({"--samples", "--context", "--true-sequential"}, !options.calibration.empty(), "--calibration");
  belongs({"--text"}, !options.compare.empty(), "--compare");
  belongs({"--text-format", "--max-tokens"}, !options.text.file.empty(), "--text");
  for (const char* name : {"--method", "--refine", "--reconstruct", "--resume", "--dry-run"}) {
    check(options.compare.empty() || !given(options, name), ErrorCode::kInvalidArgument,
          "{}: not with --compare, which names its methods itself: wanda, ria+mask, sparsegpt+weights+block",
          name);
  }
}

// What is to be pruned how: --compare's list, or the one that --method, --refine and --reconstruct name.
std::vector<compress::Candidate> candidates_of(const PruneCommand& options) {
  compress::PruneOptions base = options.prune;
  base.pattern = prune::parse_pattern(options.pattern, options.sparsity);
  base.reconstruct = options.reconstruction;
  std::vector<compress::Candidate> candidates;
  for (const std::string& text : options.compare) candidates.push_back(compress::parse_candidate(text, base));
  if (!candidates.empty()) return candidates;
  base.method = parse_method(options.method);
  base.refine = parse_refine(options.refine);
  if (options.reconstruct == "none") base.reconstruct.reset();
  return {{"--method " + options.method, base}};
}

nlohmann::json compare(const PruneCommand& options, const models::ModelFiles& files,
                       const compress::Options& pipeline, const std::vector<compress::Candidate>& candidates,
                       const text::CalibrationData& calibration, const CommandContext& context) {
  check(!options.calibration.empty(), ErrorCode::kInvalidArgument,
        "--compare: needs text to calibrate and measure on: give --calibration FILE");
  const compress::SplitCalibration split = compress::split_calibration(calibration.windows);
  compress::Options shared = pipeline;
  shared.calibration_samples = static_cast<std::int64_t>(split.pruning.size());
  std::vector<std::int32_t> text;
  if (!options.text.file.empty()) text = read_evaluation_text(options.text, models::load_tokenizer(files));
  return report_comparison(
      compress::compare(files, shared, candidates, split, text, shared.calibration_context,
                        options.output.directory, context.progress),
      context);
}

nlohmann::json run(const PruneCommand& options, const CommandContext& context) {
  compress::Options pipeline = compress_options(options.output, options.quantize, context.options);
  const std::vector<compress::Candidate> candidates = candidates_of(options);
  check_used(options, candidates);
  for (const compress::Candidate& candidate : candidates) {
    check(!options.calibration.empty() || !compress::needs_calibration(candidate.prune),
          ErrorCode::kInvalidArgument, "{}{}{} needs text to calibrate on: give --calibration FILE",
          candidate.name, options.refine == "none" ? "" : " with --refine",
          options.reconstruct == "none" ? "" : " with --reconstruct");
  }

  const models::ModelFiles files = models::open_model(options.output.model);
  pipeline.prune = candidates.front().prune;
  if (!options.dry_run && options.compare.empty())
    compress::check_output(files, pipeline, options.output.directory);
  text::CalibrationData calibration;
  if (!options.calibration.empty()) {
    const text::CalibrationOptions wanted = calibration_options(options, files, context);
    calibration = text::read_calibration(models::load_tokenizer(files), wanted);
    pipeline.calibration_sha256 = calibration.sha256;
    pipeline.calibration_samples = wanted.samples;
    pipeline.calibration_context = wanted.context;
  }
  if (!options.compare.empty()) return compare(options, files, pipeline, candidates, calibration, context);
  compress::check_options(files, pipeline, calibration.windows);
  const compress::Estimate estimate = compress::estimate(files, pipeline, calibration.windows);
  spdlog::info("estimate: {:.0f} s, {:.1f} GB of memory, {:.1f} MB on disk", estimate.seconds,
               static_cast<double>(estimate.peak_host_bytes) / 1e9,
               static_cast<double>(estimate.file_bytes_out) / 1e6);
  if (options.dry_run) return estimate_json(estimate);
  nlohmann::json result =
      run_pipeline(files, pipeline, calibration.windows, options.output.directory, context);
  result.update(estimate_json(estimate));
  return result;
}

}  // namespace

void add_prune(CLI::App& app) {
  auto options = std::make_shared<PruneCommand>();
  CLI::App* command =
      add_command(app, "prune", "Make a model sparse",
                  "grille prune model/ -o sparse/ --pattern 2:4 --method sparsegpt --quantize fp8-dynamic "
                  "--calibration chat.jsonl",
                  [options](const CommandContext& context) { return run(*options, context); });
  options->command = command;
  add_output_options(*command, options->output);
  command->add_option("--pattern", options->pattern, "N:M (keep N of every M columns) or unstructured")
      ->capture_default_str();
  command->add_option("--sparsity", options->sparsity, "Share of zeros for unstructured (default 0.5)");
  command->add_option("--method", options->method, "How the weights to remove are chosen")
      ->check(CLI::IsMember(method_names()))
      ->capture_default_str();
  command
      ->add_option(
          "--refine", options->refine,
          "Then exchange kept and pruned weights of a group while that lowers the layer's error; mask: kept "
          "weights are the model's own; weights: they become the best ones for the mask")
      ->check(CLI::IsMember({"none", "mask", "weights"}))
      ->capture_default_str();
  command
      ->add_option(
          "--compare", options->compare,
          "Instead: prune by each of these into a folder of OUTPUT and print a table of perplexities on "
          "held-out calibration text and on --text, errors and seconds: METHOD[+mask|+weights][+block], ...")
      ->delimiter(',');
  add_evaluation_text(*command, options->text, "--compare: a text to measure perplexity on too");
  command
      ->add_option("--calibration", options->calibration,
                   "Text that shows the model at work: .txt, .jsonl (text or messages), .u16/.u32 token ids")
      ->check(CLI::ExistingFile);
  command->add_option("--samples", options->samples, "Calibration windows")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20))
      ->capture_default_str();
  command->add_option("--context", options->context, "Tokens a window (default: 2048 or the model's longest)")
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{1} << 24));
  command
      ->add_option("--reconstruct", options->reconstruct,
                   "block: then train every block's kept weights until its output is the dense block's")
      ->check(CLI::IsMember({"none", "block"}))
      ->capture_default_str();
  command
      ->add_option("--epochs", options->reconstruction.epochs,
                   "--reconstruct: passes over the calibration text")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1000}))
      ->capture_default_str();
  command->add_option("--rate", options->reconstruction.rate, "--reconstruct: Adam's learning rate")
      ->check(CLI::Range(1e-9, 0.1))
      ->capture_default_str();
  command
      ->add_option(
          "--damping", options->prune.damping,
          "Share of the mean added to H's diagonal (default: 0.01; admm 0.1); for sparsegpt, admm, alps and "
          "--refine weights")
      ->check(CLI::Range(1e-9, 1.0));
  command->add_flag("--true-sequential", options->prune.true_sequential,
                    "Layers of a block see inputs that its pruned layers made (slower)");
  command
      ->add_option("--targets", options->prune.targets,
                   "Layers to prune: a class name, a full module name, or re:<regular expression>")
      ->capture_default_str();
  command->add_option("--ignore", options->prune.ignore, "Layers to leave alone, in the same syntax")
      ->capture_default_str();
  add_quantize_options(*command, options->quantize, "none");
  command->add_flag("--dry-run", options->dry_run, "Print the estimate and stop");
}

}  // namespace grille::cli
