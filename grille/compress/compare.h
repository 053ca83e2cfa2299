// Several ways of pruning one model, side by side.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "grille/base/progress.h"
#include "grille/compress/options.h"
#include "grille/evaluate/perplexity.h"
#include "grille/models/model_files.h"
#include "grille/text/calibration.h"

namespace grille::compress {

struct Candidate {
  std::string name;  // "wanda+mask+block"
  PruneOptions prune;
};

// METHOD, then any of +mask or +weights (refinement) and +block (reconstruction, with `base`'s epochs and
// rate); the rest is `base`'s. Throws Error{kInvalidArgument} that says what is accepted.
Candidate parse_candidate(const std::string& text, const PruneOptions& base);

// Calibration windows that pruning does not see (every eighth, or the last of fewer), and the others.
struct SplitCalibration {
  std::vector<text::CalibrationWindow> pruning;
  std::vector<text::CalibrationWindow> held_out;
};

// Throws Error{kInvalidArgument} for fewer than two windows.
SplitCalibration split_calibration(const std::vector<text::CalibrationWindow>& windows);

struct ComparedModel {
  std::string name;                // a candidate's, or "dense"
  double held_out_perplexity = 0;  // of the held-out windows, each of their documents alone
  std::optional<double> text_perplexity;
  double seconds = 0;  // pruning alone
  Report report;       // empty for "dense"
};

// Perplexities of `files` and of what every candidate makes of it, which is written to `directory`/NAME;
// `text` (empty: none) is cut into windows of `context` tokens. Everything but `prune` comes from `options`.
// The dense model is first in the answer. Errors are those of check_options() and run(); a bad candidate is
// told before any work.
std::vector<ComparedModel> compare(const models::ModelFiles& files, const Options& options,
                                   const std::vector<Candidate>& candidates,
                                   const SplitCalibration& calibration, const std::vector<std::int32_t>& text,
                                   std::int64_t context, const std::filesystem::path& directory,
                                   Progress& progress);

}  // namespace grille::compress
