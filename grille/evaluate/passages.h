// What a model predicts inside many token sequences at once. Where they begin alike, that part is computed
// once.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "grille/models/decoder.h"

namespace grille::evaluate {

struct Passage {
  std::vector<std::int32_t> ids;  // at least one, at most the model's max_positions
  // Predictions are wanted after ids[first], ids[first + 1], ..., ids.back().
  std::int64_t first = 0;
};

// Takes the logits [vocab_size], in float32, that follow passages[passage].ids[position]. It is called from
// several threads at once, for each pair of passage and position once, in no order.
using LogitsReader =
    std::function<void(std::size_t passage, std::int64_t position, std::span<const float> logits)>;

// Runs all passages, batched in their order, and gives each wanted position's logits to `read`.
// `after(passages)` is called between batches with the number that are done.
//
// On the CPU keys and values go into a paged cache, and a passage computes only the tokens after the longest
// run of whole pages of 16 that an earlier passage has in common with it: tokens that all share are computed
// once, those of the last page at most 15 times too often. Elsewhere every passage is computed whole. Equal
// within the order of floating-point sums.
//
// Cost: a forward pass over the distinct tokens, a head row for each wanted position; memory for the keys and
// values of the longest passage and two batches of 1024 tokens. Throws what `read` throws,
// Error{kInvalidArgument} for a passage that is empty or too long.
void for_each_prediction(
    const models::Decoder& model, std::span<const Passage> passages, const LogitsReader& read,
    const std::function<void(std::int64_t passages)>& after = [](std::int64_t) {});

}  // namespace grille::evaluate
