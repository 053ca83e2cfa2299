#include "grille/engine/page_allocator.h"

#include <limits>

#include "grille/base/error.h"

namespace grille::engine {

PageAllocator::PageAllocator(std::int64_t num_pages) : free_pages_(num_pages) {
  check(num_pages >= 1 && num_pages < std::numeric_limits<std::int32_t>::max(), ErrorCode::kInvalidArgument,
        "key/value cache: expected between 1 and 2^31 - 2 pages, got {}", num_pages);
  users_.resize(static_cast<std::size_t>(num_pages), 0);
  links_.resize(users_.size() + 1);
  const auto ring = static_cast<std::int32_t>(links_.size());
  for (std::int32_t i = 0; i < ring; ++i) link(i) = {i == 0 ? ring - 1 : i - 1, i + 1 == ring ? 0 : i + 1};
}

std::optional<std::int32_t> PageAllocator::allocate() {
  if (free_pages_ == 0) return std::nullopt;
  const std::int32_t page = links_.back().after;
  share(page);
  return page;
}

void PageAllocator::share(std::int32_t page) {
  std::int32_t& users = users_.at(static_cast<std::size_t>(page));
  if (users == 0) unlink(page);
  ++users;
}

void PageAllocator::release(std::int32_t page, bool wanted) {
  check(page >= 0 && page < num_pages() && users_[static_cast<std::size_t>(page)] > 0, ErrorCode::kInternal,
        "page allocator: page {} is not in use", page);
  if (--users_[static_cast<std::size_t>(page)] > 0) return;
  const auto begin = static_cast<std::int32_t>(num_pages());
  if (wanted) {
    link_between(link(begin).before, page, begin);
  } else {
    link_between(begin, page, link(begin).after);
  }
}

void PageAllocator::unlink(std::int32_t page) {
  const auto [before, after] = link(page);
  link(before).after = after;
  link(after).before = before;
  --free_pages_;
}

void PageAllocator::link_between(std::int32_t before, std::int32_t page, std::int32_t after) {
  link(page) = {before, after};
  link(before).after = page;
  link(after).before = page;
  ++free_pages_;
}

}  // namespace grille::engine
