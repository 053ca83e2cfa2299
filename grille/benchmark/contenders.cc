#include "grille/benchmark/contenders.h"

#include <algorithm>

#include "grille/base/error.h"

namespace grille::benchmark {

const std::vector<ContenderInfo>& all_contenders() {
  constexpr DType kBf16 = DType::kBFloat16, kFp16 = DType::kFloat16;
  constexpr DType kFp8 = DType::kFloat8E4M3, kInt8 = DType::kInt8;
  static const std::vector<ContenderInfo> list = {
      {"2:4-fp8", Library::kGrille, kFp8, true, Scaling::kRow},
      {"2:4-bf16", Library::kGrille, kBf16, true, Scaling::kNone},
      {"2:4-int8", Library::kGrille, kInt8, true, Scaling::kRow},
      {"2:4-fp16", Library::kGrille, kFp16, true, Scaling::kNone},
      {"cublaslt-bf16", Library::kCublasLt, kBf16, false, Scaling::kNone},
      {"cublaslt-fp16", Library::kCublasLt, kFp16, false, Scaling::kNone},
      {"cublaslt-fp8-tensorwise", Library::kCublasLt, kFp8, false, Scaling::kTensor},
      {"cublaslt-fp8-rowwise", Library::kCublasLt, kFp8, false, Scaling::kRow},
      {"cublaslt-int8", Library::kCublasLt, kInt8, false, Scaling::kNone},
      {"cusparselt-bf16", Library::kCusparseLt, kBf16, true, Scaling::kNone},
      {"cusparselt-fp16", Library::kCusparseLt, kFp16, true, Scaling::kNone},
      {"cusparselt-fp8", Library::kCusparseLt, kFp8, true, Scaling::kTensor},
      {"cusparselt-int8", Library::kCusparseLt, kInt8, true, Scaling::kTensor},
  };
  return list;
}

const ContenderInfo& contender_info(std::string_view name) {
  for (const ContenderInfo& info : all_contenders()) {
    if (info.name == name) return info;
  }
  fail(ErrorCode::kInvalidArgument, "no contender is called '{}'", name);
}

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const ContenderInfo& info : all_contenders()) {
    if (!info.baseline()) names.push_back(info.name);
  }
  return names;
}

std::vector<std::string> baseline_names() { return baselines_for({}); }

std::vector<std::string> baselines_for(const std::vector<std::string>& formats) {
  std::vector<std::string> names;
  for (const ContenderInfo& info : all_contenders()) {
    if (!info.baseline()) continue;
    const bool wanted = formats.empty() || info.name == "cublaslt-bf16" ||
                        std::any_of(formats.begin(), formats.end(), [&](const std::string& format) {
                          return contender_info(format).dtype == info.dtype;
                        });
    if (wanted) names.push_back(info.name);
  }
  return names;
}

}  // namespace grille::benchmark
