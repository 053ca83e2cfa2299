// Numbers of pages: which are used, by how many, and which unused one goes next.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace grille::engine {

class PageAllocator {
 public:
  explicit PageAllocator(std::int64_t num_pages);

  std::int64_t num_pages() const { return static_cast<std::int64_t>(users_.size()); }
  std::int64_t free_pages() const { return free_pages_; }
  // The unused page that comes first, now with one user; empty when none is left. Fresh pages come in order.
  std::optional<std::int32_t> allocate();
  // One user more; an unused page is used again.
  void share(std::int32_t page);
  // One user less. A page without users is handed out again: the next time, or, if what it holds may still be
  // `wanted`, after all pages that are unused now. Throws Error{kInternal} for a page without users.
  void release(std::int32_t page, bool wanted = false);

 private:
  struct Link {
    std::int32_t before;
    std::int32_t after;
  };

  void unlink(std::int32_t page);
  void link_between(std::int32_t before, std::int32_t page, std::int32_t after);
  Link& link(std::int32_t page) { return links_[static_cast<std::size_t>(page)]; }

  std::vector<std::int32_t> users_;
  std::vector<Link> links_;  // a ring of the unused pages, and of one entry more where it begins
  std::int64_t free_pages_;
};

}  // namespace grille::engine
