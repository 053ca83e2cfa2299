#include "grille/base/cpu_features.h"

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

namespace grille {
namespace {

TEST(CpuFeatures, SetsAreOrderedAndNamedAsGrilleIsaSpellsThem) {
  EXPECT_LT(Isa::kScalar, Isa::kAvx2);
  EXPECT_LT(Isa::kAvx2, Isa::kAvx512);
  EXPECT_EQ(isa_name(Isa::kScalar), "scalar");
  EXPECT_EQ(isa_name(Isa::kAvx2), "avx2");
  EXPECT_LT(Isa::kAvx512, Isa::kAmx);
  EXPECT_EQ(isa_name(Isa::kAvx512), "avx512");
  EXPECT_EQ(isa_name(Isa::kAmx), "amx");
}

TEST(PerIsaCpuFeatures, TheForcedSetIsTheActiveOne) {
  const char* forced = std::getenv("GRILLE_ISA");
  if (forced == nullptr) GTEST_SKIP() << "GRILLE_ISA is not set";
  EXPECT_EQ(isa_name(active_isa()), forced);
  EXPECT_LE(active_isa(), detected_isa());
}

}  // namespace
}  // namespace grille
