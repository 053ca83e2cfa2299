// Who takes part in a linear benchmark.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "grille/base/dtype.h"

namespace grille::benchmark {

enum class Library : std::uint8_t { kGrille, kCublasLt, kCusparseLt };

// How an 8-bit product is scaled: not at all (16-bit types), by one factor, or per token x per feature.
enum class Scaling : std::uint8_t { kNone, kTensor, kRow };

struct ContenderInfo {
  std::string name;  // "2:4-fp8", "cublaslt-fp8-rowwise"
  Library library = Library::kGrille;
  DType dtype = DType::kBFloat16;  // of x and the weight
  bool sparse = false;             // the weight is stored 2:4
  Scaling scaling = Scaling::kNone;

  bool baseline() const { return library != Library::kGrille; }
};

// All of them: grille's formats, then the baselines.
const std::vector<ContenderInfo>& all_contenders();
const ContenderInfo& contender_info(std::string_view name);  // throws Error{kInvalidArgument}

std::vector<std::string> format_names();
std::vector<std::string> baseline_names();

// The baselines that say something about `formats`: those of the same types, and dense bf16. All baselines
// when there are no formats.
std::vector<std::string> baselines_for(const std::vector<std::string>& formats);

}  // namespace grille::benchmark
