// A range of work whose threads end together.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

namespace grille {

// [0, count) in `parts` equal parts, taken in pieces: each thread goes through a part of its own from the
// front and, when that is used up, helps others from the ends of theirs. For loops as short as a few
// microseconds, where threads start late or wait for memory by turns.
class SharedRange {
 public:
  static constexpr std::int64_t kMaxParts = 256;

  struct Piece {
    std::int64_t begin, end;
    std::int64_t part_end;  // own: where the part ended at first; else `end`
    bool follows;           // it continues the piece that the thread had before
  };

  // 0 <= count < 2^32, 1 <= parts <= kMaxParts. Not while it is in use.
  void reset(std::int64_t count, std::int64_t parts);

  // The next piece of about `size` items for the thread that owns `part`, while there is one. Each item is in
  // one piece.
  std::optional<Piece> take(std::int64_t part, std::int64_t size);

 private:
  std::int64_t first(std::int64_t part) const { return count_ * part / parts_; }

  struct alignas(64) Left {
    std::atomic<std::uint64_t> ends;  // what is left of a part: begin, and end << 32
  };
  std::int64_t count_ = 0;
  std::int64_t parts_ = 0;
  std::array<Left, kMaxParts> left_;
};

}  // namespace grille
