// Which instruction set the CPU kernels use.
#pragma once

#include <string_view>

namespace grille {

enum class Isa {
  kScalar,
  kAvx2,    // AVX2, FMA, F16C
  kAvx512,  // AVX-512 F, BW, DQ, VL, VBMI, VBMI2, BF16 (Zen 4, Sapphire Rapids and later)
};

std::string_view isa_name(Isa isa);

// The best set that this CPU and operating system support.
Isa detected_isa();

// detected_isa(), or what the environment variable GRILLE_ISA (scalar, avx2, avx512) says. Read once.
// Throws Error{kInvalidArgument} for another word, Error{kUnsupported} for a set that the CPU lacks.
Isa active_isa();

}  // namespace grille
