#include "grille/text/sentencepiece_merges.h"

#include <algorithm>
#include <tuple>

#include "grille/base/error.h"

namespace grille::text {

namespace {

// Cutting a piece costs the square of its length.
constexpr std::size_t kMaxPieceBytes = 4096;

struct Merge {
  std::string_view left;
  std::string_view right;
  std::int64_t left_id;
  std::int64_t right_id;
  float score;
  int left_characters;
  int right_characters;
};

bool starts_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

}  // namespace

std::vector<std::pair<std::string_view, std::string_view>> sentencepiece_merges(
    const std::vector<std::string>& pieces, const std::vector<float>& scores, const TokenIds& ids) {
  std::vector<Merge> merges;
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    const std::string_view piece = pieces[id];
    check(piece.size() <= kMaxPieceBytes, ErrorCode::kCorruptData,
          "GGUF tokenizer: token {} has {} bytes, at most {} are read", id, piece.size(), kMaxPieceBytes);
    const auto characters = static_cast<int>(std::count_if(piece.begin(), piece.end(), starts_character));
    const std::size_t first = merges.size();
    int left_characters = 0;
    for (std::size_t cut = 1; cut < piece.size(); ++cut) {
      if (!starts_character(piece[cut])) continue;
      ++left_characters;
      const auto left = ids.find(piece.substr(0, cut));
      if (left == ids.end()) continue;
      const auto right = ids.find(piece.substr(cut));
      if (right == ids.end()) continue;
      merges.push_back({left->first, right->first, left->second, right->second, scores[id], left_characters,
                        characters - left_characters});
    }
    std::sort(merges.begin() + static_cast<std::ptrdiff_t>(first), merges.end(),
              [](const Merge& a, const Merge& b) {
                return std::tie(a.left_id, a.right_id) < std::tie(b.left_id, b.right_id);
              });
  }
  std::stable_sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) {
    return std::tie(a.score, a.left_characters, a.right_characters) >
           std::tie(b.score, b.left_characters, b.right_characters);
  });
  std::vector<std::pair<std::string_view, std::string_view>> pairs;
  pairs.reserve(merges.size());
  for (const Merge& merge : merges) pairs.emplace_back(merge.left, merge.right);
  return pairs;
}

}  // namespace grille::text
