// BPE merges out of the scores of a SentencePiece vocabulary.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace grille::text {

using TokenIds = std::unordered_map<std::string_view, std::int64_t>;

// SentencePiece merges the pair whose joined piece has the best score. As a list: every way to cut a
// piece into two pieces, best score first; of equal ones the longer left, then the longer right part (in
// characters); then in order of ids. The order of transformers' converter, so that ids agree with its.
// The views point into `pieces`, which are UTF-8. Throws Error{kCorruptData} for a piece over 4096 bytes.
std::vector<std::pair<std::string_view, std::string_view>> sentencepiece_merges(
    const std::vector<std::string>& pieces, const std::vector<float>& scores, const TokenIds& ids);

}  // namespace grille::text
