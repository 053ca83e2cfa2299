// Prune, quantize or convert a model, block by block, from files to files.
#pragma once

#include <filesystem>
#include <vector>

#include "grille/base/progress.h"
#include "grille/compress/options.h"
#include "grille/models/model_files.h"
#include "grille/text/calibration.h"

namespace grille::compress {

// Throws Error{kInvalidArgument} when the options do not fit the model: a pattern's group that does not
// divide a layer's inputs, a context longer than the model's, a method without calibration data, targets
// that match nothing.
void check_options(const models::ModelFiles& files, const Options& options,
                   const std::vector<text::CalibrationWindow>& calibration);

// What run() would say of the place to write to; a caller with long work before run() asks first.
void check_output(const models::ModelFiles& files, const Options& options,
                  const std::filesystem::path& directory);

// Time, memory and size, from the model's shapes and a short measurement of this machine.
Estimate estimate(const models::ModelFiles& files, const Options& options,
                  const std::vector<text::CalibrationWindow>& calibration);

// Writes the new checkpoint to `directory`. Work in progress lies in `directory`.partial, one file a
// block, and is kept when the run ends early; with Options::resume finished blocks are taken from there.
// `directory` appears by renaming when everything is complete. One block's weights are in memory at a
// time, and the hidden states of the calibration text. The result depends on the model, the options, the
// calibration ids and the number of threads alone.
// Throws Error{kInvalidArgument} when `directory` is not empty (and overwrite is off) or the unfinished
// work in `directory`.partial was made with other options; Error{kNoSpace} on a full disk.
Report run(const models::ModelFiles& files, const Options& options,
           const std::vector<text::CalibrationWindow>& calibration, const std::filesystem::path& directory,
           Progress& progress);

}  // namespace grille::compress
