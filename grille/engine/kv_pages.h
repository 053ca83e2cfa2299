// The pages of the key/value cache as sequences hold them: grown page by page, shared where sequences begin
// alike, kept for the next sequence until the room is needed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "grille/engine/page_allocator.h"
#include "grille/engine/prefix_cache.h"

namespace grille::engine {

inline std::int64_t pages_for(std::int64_t tokens) {
  return (tokens + formats::kPageSize - 1) / formats::kPageSize;
}

// One sequence's pages, in the order of its positions.
struct PageList {
  std::vector<std::int32_t> pages;
  std::int64_t recorded = 0;                          // the first of them, which the prefix cache has seen
  PrefixCache::Block block = PrefixCache::kNoTokens;  // what those hold
};

class KvPages {
 public:
  // With `share_prefixes` false nothing is found again, and no page is kept.
  KvPages(std::int64_t num_pages, bool share_prefixes);

  std::int64_t num_pages() const { return allocator_.num_pages(); }
  // That no sequence holds, whether they hold something that could be found again or not.
  std::int64_t free_pages() const { return allocator_.free_pages(); }

  // Gives an empty list the longest prefix of `tokens` that whole pages hold, but never the last token, which
  // is to be computed. Returns the number of tokens found. O(tokens).
  std::int64_t find_prefix(std::span<const std::int32_t> tokens, PageList& list);
  // Makes room for `tokens` tokens, leaving at least `spare` pages free. False, and nothing changes, where
  // there is no room. What a page held that is taken is forgotten, the least recently used first.
  bool grow(PageList& list, std::int64_t tokens, std::int64_t spare = 0);
  // The keys and values of the first `computed` of `tokens` are in the list's pages: full ones can be found.
  void record(std::span<const std::int32_t> tokens, std::int64_t computed, PageList& list);
  // Gives all pages back; the list is empty afterwards.
  void release(PageList& list);

 private:
  PageAllocator allocator_;
  PrefixCache prefixes_;
  bool share_prefixes_;
};

}  // namespace grille::engine
