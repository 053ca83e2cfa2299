#include "grille/compress/options.h"

namespace grille::compress {

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
