#include "grille/base/interrupt.h"

#include <gtest/gtest.h>

#include "grille/base/error.h"
#include "grille/base/progress.h"

namespace grille {
namespace {

TEST(Interrupt, ThrowsCancelledFromTheRequestUntilItIsCleared) {
  EXPECT_NO_THROW(throw_if_interrupted());
  request_interrupt();
  EXPECT_TRUE(interrupt_requested());
  try {
    throw_if_interrupted();
    FAIL() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCancelled);
  }
  clear_interrupt();
  EXPECT_FALSE(interrupt_requested());
  EXPECT_NO_THROW(throw_if_interrupted());
}

TEST(Progress, NoProgressTakesEveryReport) {
  Progress& progress = no_progress();
  progress.start("task", 2, "blocks");
  progress.update(1, "note");
  progress.finish();
  EXPECT_EQ(&progress, &no_progress());
}

}  // namespace
}  // namespace grille
