#include "grille/base/error.h"

#include <gtest/gtest.h>

namespace grille {
namespace {

TEST(Error, CarriesItsCodeAndTheFormattedValues) {
  try {
    fail(ErrorCode::kInvalidArgument, "matmul: expected {} columns, got {}", 8, 9);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_STREQ(error.what(), "matmul: expected 8 columns, got 9");
  }
}

TEST(Error, CheckThrowsOnlyWhenTheConditionIsFalse) {
  EXPECT_NO_THROW(check(true, ErrorCode::kInternal, "never"));
  EXPECT_THROW(check(false, ErrorCode::kInternal, "always {}", 1), Error);
}

TEST(Error, EveryCodeHasAName) {
  for (int code = 0; code <= static_cast<int>(ErrorCode::kInternal); ++code) {
    EXPECT_STRNE(error_code_name(static_cast<ErrorCode>(code)), "unknown error") << code;
  }
}

TEST(Error, MessagesAreOneLineWhateverIsInThem) {
  const Error error(ErrorCode::kCorruptData, "a\nb\x1b[2Jé\t");
  EXPECT_STREQ(error.what(), "a\\nb\\x1b[2Jé\\x09");
}

}  // namespace
}  // namespace grille
