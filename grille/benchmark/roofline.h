// The roofline picture of a linear benchmark.
#pragma once

#include <string>

#include "grille/benchmark/linear.h"

namespace grille::benchmark {

// A stand-alone SVG: flop a byte to the right, TFLOP/s upward, both logarithmic; the measured bandwidth and
// the flop limits of the measured types as roofs, a mark for every point with its figures as a tooltip.
// Throws Error{kInvalidArgument} when there is no point.
std::string roofline_svg(const LinearResults& results);

}  // namespace grille::benchmark
