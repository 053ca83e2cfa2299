// A finished block on disk, before the parts are put together.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "grille/checkpoint/safetensors.h"
#include "grille/compress/options.h"
#include "grille/compress/output_config.h"
#include "grille/tensors/weight.h"

namespace grille::compress {

// Weights are kept in the form in which they run (2:4 as values and bitmask), whatever the final format.
void write_part(const std::filesystem::path& path, const std::map<std::string, tensors::Weight>& weights,
                const std::map<std::string, at::Tensor>& tensors, const std::vector<LayerReport>& reports,
                const std::optional<Reconstruction>& reconstruction = std::nullopt);

class PartFile {
 public:
  explicit PartFile(const std::filesystem::path& path);
  // Throws Error{kNotFound} for a module that is not in the part.
  tensors::Weight weight(const std::string& module) const;
  const ModuleForms& forms() const { return forms_; }
  std::vector<LayerReport> reports() const;
  std::optional<Reconstruction> reconstruction() const;
  const checkpoint::TensorSource& source() const { return source_; }

 private:
  std::filesystem::path path_;
  checkpoint::SafetensorsSource source_;
  ModuleForms forms_;
  checkpoint::CompressionConfig compression_;
};

}  // namespace grille::compress
