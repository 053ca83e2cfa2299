// The oracle of attention tests: loops from the definition, in double.
#pragma once

#include "grille/kernels/attention_paged.h"

namespace grille::kernels {

// As attention_paged, which see. The arguments must be valid.
void attention_paged_reference(const ConstMatrixView& query, std::span<const formats::SequenceSpan> sequences,
                               const formats::PagedKvView& kv, float scale, const MatrixView& out);

}  // namespace grille::kernels
