#include "grille/formats/paged_kv.h"

#include <set>

#include <gtest/gtest.h>

namespace grille::formats {
namespace {

TEST(PagedKv, EverySlotHasItsOwnPlaceAndAHeadsPageIsContiguous) {
  const PagedKvView view{.num_pages = 3, .num_kv_heads = 2, .head_dim = 8};
  std::set<std::int64_t> offsets;
  for (std::int64_t page = 0; page < 3; ++page) {
    for (std::int64_t head = 0; head < 2; ++head) {
      for (std::int64_t slot = 0; slot < kPageSize; ++slot) {
        EXPECT_EQ(view.offset(page, head, slot), view.offset(page, head, 0) + slot * 8);
        offsets.insert(view.offset(page, head, slot));
      }
    }
  }
  EXPECT_EQ(offsets.size(), static_cast<std::size_t>(3 * 2 * kPageSize));
  EXPECT_EQ(*offsets.rbegin() + 8, 3 * 2 * kPageSize * 8);
}

}  // namespace
}  // namespace grille::formats
