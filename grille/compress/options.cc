#include "grille/compress/options.h"

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
    case Method::kSparseGpt: return "sparsegpt";
  }
  return "";
}

bool method_needs_calibration(Method method) { return method != Method::kMagnitude; }

}  // namespace grille::compress
