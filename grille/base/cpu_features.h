// Which instruction set the CPU kernels use.
#pragma once

#include <string_view>

namespace grille {

enum class Isa {
  kScalar,
  kAvx2,    // AVX2, FMA, F16C
  kAvx512,  // AVX-512 F, BW, DQ, VL, VBMI, VBMI2, BF16, and GFNI (Zen 4, Sapphire Rapids and later)
  kAmx,     // the same and AMX-TILE, AMX-BF16 (Sapphire Rapids and later)
};

std::string_view isa_name(Isa isa);

// The best set that this CPU and operating system support. Asks the system for the use of AMX's tiles where
// the CPU has them; that holds for the whole process.
Isa detected_isa();

// detected_isa(), or what the environment variable GRILLE_ISA (scalar, avx2, avx512, amx) says. Read once.
// Throws Error{kInvalidArgument} for another word, Error{kUnsupported} for a set that the CPU lacks.
Isa active_isa();

// Whether this CPU multiplies floats faster than pairs of bfloat16 (vdpbf16ps): Intel's do, AMD's do not.
bool slow_bfloat16_pairs();

}  // namespace grille
