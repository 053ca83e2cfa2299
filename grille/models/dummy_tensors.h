// Random weights in the shapes and formats that a configuration asks for: speed is measured without a
// checkpoint.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "grille/checkpoint/compression_config.h"
#include "grille/checkpoint/tensor_source.h"
#include "grille/models/config.h"

namespace grille::models {

// Linear weights have independent random values of variance 1 / columns (float8: random codes up to 1.875,
// all with one scale), 2:4 ones random masks; norms are 1 and biases 0. Values depend on seed, name and place
// alone.
class DummyTensors final : public checkpoint::TensorSource {
 public:
  // Throws Error{kCorruptData} for a configuration of more than 10,000 layers or impossible sizes.
  DummyTensors(const DecoderConfig& config, const checkpoint::CompressionConfig& compression,
               std::uint64_t seed);

  const std::map<std::string, checkpoint::TensorInfo>& tensors() const override { return tensors_; }
  void read_rows(const std::string& name, std::int64_t begin, std::int64_t end,
                 std::span<std::byte> out) const override;
  std::string locate(const std::string& name) const override {
    return "dummy weights: tensor '" + name + "'";
  }
  std::int64_t file_bytes() const override { return 0; }

 private:
  void add(const std::string& name, DType dtype, std::vector<std::int64_t> shape);
  void add_linear(const std::string& module, std::int64_t rows, std::int64_t cols, DType dtype,
                  const checkpoint::CompressionConfig& compression, const std::string& class_name = "Linear");

  std::map<std::string, checkpoint::TensorInfo> tensors_;
  std::map<std::string, std::int64_t> cols_;  // of each linear module
  std::map<std::string, std::int64_t> rows_;
  std::uint64_t seed_;
};

}  // namespace grille::models
