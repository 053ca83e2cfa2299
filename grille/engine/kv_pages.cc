#include "grille/engine/kv_pages.h"

#include "grille/base/error.h"

namespace grille::engine {
namespace {

std::span<const std::int32_t> page_of(std::span<const std::int32_t> tokens, std::int64_t index) {
  return tokens.subspan(static_cast<std::size_t>(index * formats::kPageSize),
                        static_cast<std::size_t>(formats::kPageSize));
}

}  // namespace

KvPages::KvPages(std::int64_t num_pages, bool share_prefixes)
    : allocator_(num_pages), prefixes_(num_pages), share_prefixes_(share_prefixes) {}

std::int64_t KvPages::find_prefix(std::span<const std::int32_t> tokens, PageList& list) {
  check(list.pages.empty(), ErrorCode::kInternal, "key/value pages: the list holds pages already");
  if (!share_prefixes_ || tokens.empty()) return 0;
  const std::int64_t most = (static_cast<std::int64_t>(tokens.size()) - 1) / formats::kPageSize;
  while (list.recorded < most) {
    const auto found = prefixes_.find(list.block, page_of(tokens, list.recorded));
    if (!found) break;
    allocator_.share(found->page);
    list.pages.push_back(found->page);
    list.block = found->block;
    ++list.recorded;
  }
  return list.recorded * formats::kPageSize;
}

bool KvPages::grow(PageList& list, std::int64_t tokens, std::int64_t spare) {
  const std::int64_t wanted = pages_for(tokens) - static_cast<std::int64_t>(list.pages.size());
  if (wanted <= 0) return true;
  if (wanted + spare > free_pages()) return false;
  for (std::int64_t i = 0; i < wanted; ++i) {
    const std::int32_t page = *allocator_.allocate();
    prefixes_.forget(page);
    list.pages.push_back(page);
  }
  return true;
}

void KvPages::record(std::span<const std::int32_t> tokens, std::int64_t computed, PageList& list) {
  if (!share_prefixes_) return;
  for (; (list.recorded + 1) * formats::kPageSize <= computed; ++list.recorded) {
    const std::int32_t page = list.pages[static_cast<std::size_t>(list.recorded)];
    list.block = prefixes_.insert(list.block, page_of(tokens, list.recorded), page);
  }
}

// From the end: of one sequence's pages the last are taken first, since no page is found without those
// before.
void KvPages::release(PageList& list) {
  while (!list.pages.empty()) {
    const std::int32_t page = list.pages.back();
    allocator_.release(page, /*wanted=*/prefixes_.holds(page));
    list.pages.pop_back();
  }
  list = {};
}

}  // namespace grille::engine
