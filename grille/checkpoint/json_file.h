// Reading JSON that may be hostile.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace grille::checkpoint {

struct JsonLimits {
  int depth = 64;                              // nested arrays and objects
  std::size_t bytes = std::size_t{256} << 20;  // of the text
};

// Sees each finished object at depth `depth` (1: a member of the outermost object) and its key. If it
// returns false, the object is dropped: memory stays small however large the text is.
using JsonMember = std::function<bool(int depth, const std::string& key, nlohmann::json& value)>;

// Throws Error{kCorruptData} that starts with `name` on bad syntax, bad UTF-8, a repeated key, and where a
// limit is passed.
nlohmann::json parse_json(std::string_view text, const std::string& name, const JsonLimits& limits = {},
                          const JsonMember& member = {});

// Also throws Error{kNotFound} for a missing file.
nlohmann::json read_json_file(const std::filesystem::path& path, const JsonLimits& limits = {});

}  // namespace grille::checkpoint
