#include "grille/engine/prefix_cache.h"

#include <algorithm>
#include <utility>

#include "grille/base/error.h"

namespace grille::engine {

PrefixCache::PrefixCache(std::int64_t num_pages, Hash hash)
    : entries_(0, KeyHash{std::move(hash)}), recorded_(static_cast<std::size_t>(num_pages), nullptr) {}

// Each value is mixed in as splitmix64 does (Steele, Lea and Flood, OOPSLA 2014).
std::size_t PrefixCache::default_hash(Block parent, const Tokens& tokens) {
  auto state = static_cast<std::uint64_t>(parent);
  for (const std::int32_t token : tokens) {
    state += 0x9e3779b97f4a7c15u + static_cast<std::uint32_t>(token);
    state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
    state = (state ^ (state >> 27)) * 0x94d049bb133111ebu;
    state ^= state >> 31;
  }
  return static_cast<std::size_t>(state);
}

PrefixCache::Key PrefixCache::key_of(Block parent, std::span<const std::int32_t> tokens) {
  check(tokens.size() == static_cast<std::size_t>(formats::kPageSize), ErrorCode::kInternal,
        "prefix cache: expected {} tokens, got {}", formats::kPageSize, tokens.size());
  Key key{parent, {}};
  std::copy(tokens.begin(), tokens.end(), key.tokens.begin());
  return key;
}

std::optional<PrefixCache::Entry> PrefixCache::find(Block parent,
                                                    std::span<const std::int32_t> tokens) const {
  const auto found = entries_.find(key_of(parent, tokens));
  return found == entries_.end() ? std::nullopt : std::optional<Entry>(found->second);
}

PrefixCache::Block PrefixCache::insert(Block parent, std::span<const std::int32_t> tokens,
                                       std::int32_t page) {
  check(!holds(page), ErrorCode::kInternal, "prefix cache: page {} is recorded already", page);
  const auto [entry, inserted] = entries_.try_emplace(key_of(parent, tokens), Entry{next_block_, page});
  if (inserted) {
    ++next_block_;
    recorded_[static_cast<std::size_t>(page)] = &*entry;
  }
  return entry->second.block;
}

void PrefixCache::forget(std::int32_t page) {
  const Map::value_type*& recorded = recorded_[static_cast<std::size_t>(page)];
  if (recorded == nullptr) return;
  const Key key = recorded->first;
  recorded = nullptr;
  entries_.erase(key);
}

}  // namespace grille::engine
