// The JSON files beside tokenizer.json.
#include <nlohmann/json.hpp>

#include "grille/base/error.h"
#include "grille/text/bounded_json.h"
#include "grille/text/text_files.h"
#include "grille/text/tokenizer.h"

namespace grille::text {

namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

// A null Json when the file does not exist.
Json read_object(const fs::path& file) {
  if (!fs::exists(file)) return Json();
  Json object = parse_bounded(read_file(file));
  check(object.is_object(), ErrorCode::kCorruptData, "{}: not a JSON object", file.string());
  return object;
}

// "<s>" or {"content": "<s>", …}; "" for null or absent.
std::string special_token(const Json& object, const char* key, const fs::path& file) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return "";
  const Json& content = found->is_object() && found->contains("content") ? found->at("content") : *found;
  check(content.is_string(), ErrorCode::kCorruptData, "{}: {} is neither a string nor an object with content",
        file.string(), key);
  return content.get<std::string>();
}

std::optional<bool> flag(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_boolean()) return std::nullopt;
  return found->get<bool>();
}

void read_chat_templates(const Json& object, const fs::path& file, TokenizerConfig& config) {
  const auto found = object.find("chat_template");
  if (found == object.end() || found->is_null()) return;
  if (found->is_string()) {
    config.chat_templates["default"] = found->get<std::string>();
    return;
  }
  const auto is_named = [](const Json& entry) {
    return entry.is_object() && entry.contains("name") && entry["name"].is_string() &&
           entry.contains("template") && entry["template"].is_string();
  };
  check(found->is_array(), ErrorCode::kCorruptData, "{}: chat_template is neither a string nor a list",
        file.string());
  for (const Json& entry : *found) {
    check(is_named(entry), ErrorCode::kCorruptData, "{}: chat_template: an entry lacks name or template",
          file.string());
    config.chat_templates[entry["name"].get<std::string>()] = entry["template"].get<std::string>();
  }
}

void read_eos_ids(const Json& object, const fs::path& file, std::vector<std::int32_t>& ids) {
  const auto found = object.find("eos_token_id");
  if (found == object.end() || found->is_null()) return;
  const Json list = found->is_array() ? *found : Json::array({*found});
  for (const Json& id : list) {
    const bool is_id = id.is_number_integer() && id >= 0 && id <= std::numeric_limits<std::int32_t>::max();
    check(is_id, ErrorCode::kCorruptData, "{}: eos_token_id holds {}", file.string(),
          id.dump(-1, ' ', false, Json::error_handler_t::replace));
    ids.push_back(id.get<std::int32_t>());
  }
}

}  // namespace

TokenizerConfig read_tokenizer_config(const fs::path& directory) {
  TokenizerConfig config;
  // The later file wins, as in transformers.
  for (const char* name : {"special_tokens_map.json", "tokenizer_config.json"}) {
    const fs::path file = directory / name;
    const Json object = read_object(file);
    if (object.is_null()) continue;
    const auto read = [&](const char* key, std::string& token) {
      if (object.contains(key)) token = special_token(object, key, file);
    };
    read("bos_token", config.bos_token);
    read("eos_token", config.eos_token);
    config.add_bos_token = flag(object, "add_bos_token");
    config.add_eos_token = flag(object, "add_eos_token");
    read_chat_templates(object, file, config);
  }
  const fs::path jinja = directory / "chat_template.jinja";
  if (fs::exists(jinja)) config.chat_templates["default"] = read_file(jinja);

  // generation_config.json lists every id that ends a turn; config.json is what is left without it.
  const fs::path generation = directory / "generation_config.json";
  const fs::path source = fs::exists(generation) ? generation : directory / "config.json";
  const Json object = read_object(source);
  if (!object.is_null()) read_eos_ids(object, source, config.generation_eos_ids);
  return config;
}

}  // namespace grille::text
