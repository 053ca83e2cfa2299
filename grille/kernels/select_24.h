// Scores -> keep-mask: of every m consecutive columns of a row keep the n with the highest scores.
#pragma once

#include <cstdint>

#include "grille/base/device.h"
#include "grille/base/matrix_view.h"
#include "grille/kernels/two_four_violation.h"

namespace grille::kernels {

enum class KeepMaskForm : std::uint8_t {
  kBytes,  // [rows, stride >= cols], 1 = keep, 0 = prune
  kBits,   // [rows, stride >= ceil(cols / 8)], bit k of byte b is column 8 b + k; bits past cols are 0
};

struct KeepMask {
  std::uint8_t* data = nullptr;
  std::int64_t row_stride = 0;  // in bytes; bytes past the last column's are not written
  KeepMaskForm form = KeepMaskForm::kBytes;
};

struct Select24Args {
  ConstMatrixView scores;  // [rows, cols] float32, cols % group == 0; infinities are scores like others
  int keep = 2;            // n: 1 <= keep <= group (2:4: keep 2 of a group of 4)
  int group = 4;           // m: 1 <= group <= 32
  KeepMask mask;           // must not alias `scores`
  TwoFourViolation* violation = nullptr;  // on the stream's device; always written
  Stream stream;
};

// Exactly `keep` columns of every group are kept. Of equal scores (-0.0 equals 0.0) the lower column is
// pruned first. A NaN score makes its group a violation, and nothing of the group is kept.
// Cost: reads the scores once, m compares a score. Stream and errors as pack_24; check_selected() has the
// message.
void select_24(const Select24Args& args);

// The definition, as a sort: the tests' oracle. CPU only.
void select_24_reference(const Select24Args& args);

}  // namespace grille::kernels
