#include "grille/base/cpu_features.h"

#include <cstdlib>
#include <string>

#include "grille/base/error.h"

namespace grille {
namespace {

Isa isa_from_environment() {
  const Isa detected = detected_isa();
  const char* text = std::getenv("GRILLE_ISA");
  if (text == nullptr || *text == '\0') return detected;
  for (Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
    if (isa_name(isa) != text) continue;
    check(isa <= detected, ErrorCode::kUnsupported, "GRILLE_ISA={}: this CPU lacks it (best here: {})", text,
          isa_name(detected));
    return isa;
  }
  fail(ErrorCode::kInvalidArgument, "GRILLE_ISA={}: expected scalar, avx2 or avx512", text);
}

}  // namespace

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::kScalar: return "scalar";
    case Isa::kAvx2: return "avx2";
    case Isa::kAvx512: return "avx512";
  }
  return "unknown";
}

Isa detected_isa() {
#if defined(__x86_64__)
  const bool avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
                      __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("gfni");
  if (avx512) return Isa::kAvx512;
  if (avx2) return Isa::kAvx2;
#endif
  return Isa::kScalar;
}

Isa active_isa() {
  static const Isa isa = isa_from_environment();
  return isa;
}

}  // namespace grille
