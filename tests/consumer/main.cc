// What a program that uses an installed grille looks like: prune a matrix by magnitude, pack it.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "grille/base/error.h"
#include "grille/kernels/pack_24.h"
#include "grille/kernels/select_24.h"
#include "grille/tensors/views.h"
#include "grille/text/tokenizer.h"

// Reaches the Rust library: text that is no tokenizer.json must come back as an Error.
static bool refuses_a_bad_tokenizer() {
  try {
    grille::text::Tokenizer::from_json("{}");
    return false;
  } catch (const grille::Error&) {
    return true;
  }
}

int main() {
  using grille::DType;
  const std::int64_t rows = 4;
  const std::int64_t cols = 64;
  std::vector<float> weight(rows * cols);
  std::vector<float> scores(weight.size());
  for (std::size_t i = 0; i < weight.size(); ++i) {
    weight[i] = std::sin(static_cast<float>(i));
    scores[i] = std::abs(weight[i]);
  }
  try {
    std::vector<std::uint8_t> keep(weight.size());
    grille::kernels::TwoFourViolation violation;
    grille::kernels::select_24({.scores = {scores.data(), DType::kFloat32, rows, cols, cols},
                                .mask = {keep.data(), cols, grille::kernels::KeepMaskForm::kBytes},
                                .violation = &violation,
                                .stream = {}});
    grille::kernels::check_selected(violation, "scores");
    for (std::size_t i = 0; i < weight.size(); ++i) weight[i] *= keep[i];
    std::vector<float> values(weight.size() / 2);
    std::vector<std::uint8_t> positions(weight.size() / 8);
    grille::kernels::pack_24({.dense = {weight.data(), DType::kFloat32, rows, cols, cols},
                              .packed = {values.data(), positions.data(), cols / 2, cols / 8,
                                         grille::kernels::TwoFourPositions::kBitmask},
                              .violation = &violation,
                              .stream = {}});
    grille::kernels::check_packed(violation, "weight");
    const bool torch_works = grille::tensors::torch_dtype(DType::kBFloat16) == at::kBFloat16;
    std::printf("packed %zu weights into %zu values%s\n", weight.size(), values.size(),
                torch_works ? "" : "?");
    return torch_works ? 0 : 1;
  } catch (const grille::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
