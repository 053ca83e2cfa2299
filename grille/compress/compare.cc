#include "grille/compress/compare.h"

#include <chrono>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "grille/base/error.h"
#include "grille/compress/pipeline.h"
#include "grille/compress/reconstruct.h"
#include "grille/models/load.h"

namespace grille::compress {
namespace {

Method method_of(const std::string& name, const std::string& text) {
  std::vector<std::string> names;
  for (const Method method : kMethods) {
    if (method_name(method) == name) return method;
    names.push_back(method_name(method));
  }
  fail(ErrorCode::kInvalidArgument,
       "'{}' in '{}' is no method; there are {}, each with +mask or +weights (--refine) and +block "
       "(--reconstruct)",
       name, text, fmt::join(names, ", "));
}

class Measure {
 public:
  Measure(const Options& options, const SplitCalibration& calibration, const std::vector<std::int32_t>& text,
          std::int64_t context, Progress& progress)
      : options_(options), text_(text), progress_(progress) {
    perplexity_.context = context;
    for (const text::CalibrationWindow& window : calibration.held_out) {
      auto begin = window.ids.begin();
      for (const std::int64_t length : window.segment_lengths) {
        documents_.emplace_back(begin, begin + length);
        begin += length;
      }
    }
  }

  void run(const models::ModelFiles& files, ComparedModel& model) const {
    models::LoadOptions load;
    load.compute_dtype = options_.compute_dtype;
    const models::Decoder decoder = models::load_decoder(files, load, progress_);
    model.held_out_perplexity =
        evaluate::document_perplexity(decoder, documents_, perplexity_, progress_).perplexity;
    if (!text_.empty())
      model.text_perplexity = evaluate::perplexity(decoder, text_, perplexity_, progress_).perplexity;
  }

 private:
  const Options& options_;
  const std::vector<std::int32_t>& text_;
  Progress& progress_;
  evaluate::PerplexityOptions perplexity_;
  std::vector<std::vector<std::int32_t>> documents_;
};

}  // namespace

Candidate parse_candidate(const std::string& text, const PruneOptions& base) {
  Candidate candidate{text, base};
  candidate.prune.refine = Refine::kNone;
  candidate.prune.reconstruct.reset();
  std::istringstream parts(text);
  std::string part;
  std::getline(parts, part, '+');
  candidate.prune.method = method_of(part, text);
  check(!text.ends_with('+'), ErrorCode::kInvalidArgument,
        "'{}': expected +mask, +weights or +block after the method", text);
  while (std::getline(parts, part, '+')) {
    const bool refines = part == refine_name(Refine::kMask) || part == refine_name(Refine::kWeights);
    check(refines || part == "block", ErrorCode::kInvalidArgument,
          "'+{}' in '{}': expected +mask, +weights or +block", part, text);
    if (refines) {
      check(candidate.prune.refine == Refine::kNone, ErrorCode::kInvalidArgument, "'{}' is refined twice",
            text);
      candidate.prune.refine = part == refine_name(Refine::kMask) ? Refine::kMask : Refine::kWeights;
    } else {
      candidate.prune.reconstruct = base.reconstruct.value_or(ReconstructOptions());
    }
  }
  return candidate;
}

SplitCalibration split_calibration(const std::vector<text::CalibrationWindow>& windows) {
  check(windows.size() >= 2, ErrorCode::kInvalidArgument,
        "a comparison needs two calibration windows or more, one of them to measure on; give more --samples");
  SplitCalibration split;
  for (std::size_t window = 0; window < windows.size(); ++window)
    (is_held_out(window, windows.size()) ? split.held_out : split.pruning).push_back(windows[window]);
  return split;
}

std::vector<ComparedModel> compare(const models::ModelFiles& files, const Options& options,
                                   const std::vector<Candidate>& candidates,
                                   const SplitCalibration& calibration, const std::vector<std::int32_t>& text,
                                   std::int64_t context, const std::filesystem::path& directory,
                                   Progress& progress) {
  std::vector<Options> wanted;
  std::set<std::string> names;
  for (const Candidate& candidate : candidates) {
    check(names.insert(candidate.name).second, ErrorCode::kInvalidArgument,
          "a comparison with '{}' named twice: each writes the folder of its name", candidate.name);
    wanted.push_back(options);
    wanted.back().prune = candidate.prune;
    check_options(files, wanted.back(), calibration.pruning);
    check_output(files, wanted.back(), directory / candidate.name);
  }
  const Measure measure(options, calibration, text, context, progress);
  std::vector<ComparedModel> models(1);
  models.front().name = "dense";
  measure.run(files, models.front());
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    ComparedModel model;
    model.name = candidates[i].name;
    const auto begin = std::chrono::steady_clock::now();
    model.report = run(files, wanted[i], calibration.pruning, directory / model.name, progress);
    model.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    measure.run(models::open_model((directory / model.name).string()), model);
    models.push_back(std::move(model));
  }
  return models;
}

}  // namespace grille::compress
