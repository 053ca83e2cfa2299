#include "grille/compress/options.h"

#include "grille/prune/admm.h"
#include "grille/prune/alps.h"
#include "grille/prune/refine.h"
#include "grille/prune/sparsegpt.h"

namespace grille::compress {

std::string quantization_name(Quantization quantization) {
  switch (quantization) {
    case Quantization::kNone: return "none";
    case Quantization::kFp8Dynamic: return "fp8-dynamic";
    case Quantization::kInt8Dynamic: return "int8-dynamic";
    case Quantization::kInt4: return "int4";
  }
  return "";
}

std::string output_format_name(OutputFormat format) {
  switch (format) {
    case OutputFormat::kCompressed: return "compressed";
    case OutputFormat::kDense: return "dense";
    case OutputFormat::kMarlin24: return "marlin-24";
  }
  return "";
}

std::string method_name(Method method) {
  switch (method) {
    case Method::kMagnitude: return "magnitude";
    case Method::kWanda: return "wanda";
    case Method::kRia: return "ria";
    case Method::kSparseGpt: return "sparsegpt";
    case Method::kAdmm: return "admm";
    case Method::kAlps: return "alps";
  }
  return "";
}

std::string refine_name(Refine refine) {
  switch (refine) {
    case Refine::kNone: return "none";
    case Refine::kMask: return "mask";
    case Refine::kWeights: return "weights";
  }
  return "";
}

bool needs_calibration(const PruneOptions& options) {
  return options.method != Method::kMagnitude || options.refine != Refine::kNone || options.reconstruct;
}

std::optional<double> damping_of(const PruneOptions& options) {
  switch (options.method) {
    case Method::kSparseGpt: return options.damping.value_or(prune::SparseGptOptions().damping);
    case Method::kAdmm: return options.damping.value_or(prune::AdmmOptions().damping);
    case Method::kAlps: return options.damping.value_or(prune::AlpsOptions().damping);
    default: break;
  }
  if (options.refine == Refine::kWeights) return options.damping.value_or(prune::RefineOptions().damping);
  return std::nullopt;
}

}  // namespace grille::compress
