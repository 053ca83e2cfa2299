// What full pages of the key/value cache hold, so that sequences that begin alike share them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "grille/formats/paged_kv.h"

namespace grille::engine {

class PrefixCache {
 public:
  // A prefix of whole pages that some page ends: the page's tokens after those of the parent block. Two
  // blocks are equal only if all their tokens are: tokens and parent are compared, not their hashes.
  using Block = std::int64_t;
  static constexpr Block kNoTokens = 0;

  using Tokens = std::array<std::int32_t, formats::kPageSize>;
  using Hash = std::function<std::size_t(Block parent, const Tokens& tokens)>;

  struct Entry {
    Block block;
    std::int32_t page;
  };

  explicit PrefixCache(std::int64_t num_pages, Hash hash = default_hash);

  // tokens: one page of them.
  std::optional<Entry> find(Block parent, std::span<const std::int32_t> tokens) const;
  // Records that `page` holds these tokens after the parent's, unless another page is recorded for them.
  // Returns their block. A page is recorded once until it is forgotten.
  Block insert(Block parent, std::span<const std::int32_t> tokens, std::int32_t page);
  bool holds(std::int32_t page) const { return recorded_[static_cast<std::size_t>(page)] != nullptr; }
  // The page will be overwritten. Blocks that follow the page's own are not found any more.
  void forget(std::int32_t page);

  static std::size_t default_hash(Block parent, const Tokens& tokens);

 private:
  struct Key {
    Block parent;
    Tokens tokens;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    Hash hash;
    std::size_t operator()(const Key& key) const { return hash(key.parent, key.tokens); }
  };
  using Map = std::unordered_map<Key, Entry, KeyHash>;

  static Key key_of(Block parent, std::span<const std::int32_t> tokens);

  Map entries_;
  std::vector<const Map::value_type*> recorded_;  // of each page
  Block next_block_ = 1;
};

}  // namespace grille::engine
