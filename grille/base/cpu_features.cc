#include "grille/base/cpu_features.h"

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <cstdlib>
#include <string>

#include "grille/base/error.h"

namespace grille {
namespace {

#if defined(__x86_64__)
// The system saves the 8 KiB of tiles only of processes that have asked (Linux's
// Documentation/arch/x86/xstate.rst).
bool may_use_tiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#endif

Isa isa_from_environment() {
  const Isa detected = detected_isa();
  const char* text = std::getenv("GRILLE_ISA");
  if (text == nullptr || *text == '\0') return detected;
  for (Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAmx}) {
    if (isa_name(isa) != text) continue;
    check(isa <= detected, ErrorCode::kUnsupported, "GRILLE_ISA={}: this CPU lacks it (best here: {})", text,
          isa_name(detected));
    return isa;
  }
  fail(ErrorCode::kInvalidArgument, "GRILLE_ISA={}: expected scalar, avx2, avx512 or amx", text);
}

}  // namespace

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::kScalar: return "scalar";
    case Isa::kAvx2: return "avx2";
    case Isa::kAvx512: return "avx512";
    case Isa::kAmx: return "amx";
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
  const bool amx = avx512 && __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16");
  if (amx && may_use_tiles()) return Isa::kAmx;
  if (avx512) return Isa::kAvx512;
  if (avx2) return Isa::kAvx2;
#endif
  return Isa::kScalar;
}

Isa active_isa() {
  static const Isa isa = isa_from_environment();
  return isa;
}

bool slow_bfloat16_pairs() {
#if defined(__x86_64__)
  return __builtin_cpu_is("intel") != 0;
#else
  return false;
#endif
}

}  // namespace grille
