#include "grille/base/shared_range.h"

#include "grille/base/error.h"

namespace grille {
namespace {

std::uint64_t packed(std::int64_t begin, std::int64_t end) {
  return static_cast<std::uint64_t>(begin) | static_cast<std::uint64_t>(end) << 32;
}
std::int64_t packed_begin(std::uint64_t ends) { return static_cast<std::int64_t>(ends & 0xffffffff); }
std::int64_t packed_end(std::uint64_t ends) { return static_cast<std::int64_t>(ends >> 32); }

}  // namespace

void SharedRange::reset(std::int64_t count, std::int64_t parts) {
  check(count >= 0 && count >> 32 == 0 && parts >= 1 && parts <= kMaxParts, ErrorCode::kInternal,
        "shared range: {} items in {} parts", count, parts);
  count_ = count;
  parts_ = parts;
  for (std::int64_t part = 0; part < parts; ++part) {
    left_[static_cast<std::size_t>(part)].ends.store(packed(first(part), first(part + 1)),
                                                     std::memory_order_relaxed);
  }
}

std::optional<SharedRange::Piece> SharedRange::take(std::int64_t part, std::int64_t size) {
  for (std::int64_t i = 0; i < parts_; ++i) {
    const std::int64_t victim = (part + i) % parts_;
    std::atomic<std::uint64_t>& ends = left_[static_cast<std::size_t>(victim)].ends;
    std::uint64_t now = ends.load(std::memory_order_relaxed);
    while (packed_begin(now) < packed_end(now)) {
      const std::int64_t begin = packed_begin(now);
      const std::int64_t end = packed_end(now);
      // What would be left is not worth taking.
      const std::int64_t count = end - begin < 2 * size ? end - begin : size;
      const bool own = i == 0;
      const std::uint64_t after = own ? packed(begin + count, end) : packed(begin, end - count);
      if (!ends.compare_exchange_weak(now, after, std::memory_order_relaxed)) continue;
      if (own) return Piece{begin, begin + count, first(part + 1), begin > first(part)};
      return Piece{end - count, end, end, false};
    }
  }
  return std::nullopt;
}

}  // namespace grille
