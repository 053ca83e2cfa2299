// What a checkpoint holds: formats, sizes, zeros, and whether patterns are kept.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "grille/base/progress.h"
#include "grille/checkpoint/provenance.h"
#include "grille/models/model_files.h"

namespace grille::compress {

struct LayerInspection {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::string format;  // compressed-tensors' names: "dense", "int-quantized",
                       // "sparse-24-bitmask+float-quantized", ...
  std::string dtype;   // of the stored values
  std::int64_t stored_bytes = 0;
  double sparsity = 0.0;        // share of zeros
  std::int64_t violations = 0;  // groups that keep more than the layer's own N:M pattern allows
  bool two_four = false;        // every group of four columns has at most two non-zeros
  std::vector<float> density;   // share of non-zeros in kDensitySide x kDensitySide parts, row by row
};

constexpr std::int64_t kDensitySide = 24;

struct Inspection {
  std::string architecture;
  std::int64_t parameters = 0;  // of the dense model
  std::int64_t file_bytes = 0;
  std::vector<LayerInspection> layers;  // embedding, head and linear layers
  std::optional<checkpoint::Provenance> provenance;
};

// Reads every weight once, one at a time. A layer's pattern is known from the
// provenance of a checkpoint that `grille prune` wrote, or from what an older one says (sparsity_structure).
Inspection inspect(const models::ModelFiles& files, Progress& progress);

// A page that needs nothing but itself: the table, sizes, provenance and a picture of every layer's zeros.
std::string html_report(const Inspection& inspection, const std::string& title);

}  // namespace grille::compress
