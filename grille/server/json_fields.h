// The fields of a request's JSON object, read with their types and ranges.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "grille/server/api_error.h"

namespace grille::server {

using Json = nlohmann::ordered_json;

// A body as an object. Throws ApiError when it is no JSON, no object, too deep or too wide.
Json parse_body(std::string_view body);

// Reading a field marks it as known. A field that is null counts as absent. What has the wrong type or is out
// of its range is an ApiError that names it.
class JsonFields {
 public:
  // `object` must outlive this. `prefix` goes before names in messages ("stream_options.").
  explicit JsonFields(const Json& object, std::string prefix = "");

  const Json* find(const std::string& name);  // nullptr: absent
  std::optional<bool> boolean(const std::string& name);
  std::optional<std::int64_t> integer(const std::string& name, std::int64_t low, std::int64_t high);
  std::optional<double> number(const std::string& name, double low, double high);
  std::optional<std::string> string(const std::string& name);
  const Json* object(const std::string& name);
  const Json* array(const std::string& name);
  // A list of integers in [low, high].
  std::vector<std::int32_t> ids(const std::string& name, std::int64_t high);

  // Fields that are known and change nothing here.
  void ignore(std::initializer_list<const char*> names);
  // A field that is known and not supported: only `neutral`, null and emptiness pass.
  void unsupported(const std::string& name, const Json& neutral = nullptr);

  // Names that nobody asked for.
  std::vector<std::string> unknown() const;

 private:
  std::string full(const std::string& name) const { return prefix_ + name; }

  const Json& object_;
  std::string prefix_;
  std::set<std::string, std::less<>> known_;
};

// `value` as an integer in [low, high]; 3.0 is one, 3.5, true and "3" are not. `name` is for the message.
std::int64_t as_integer(const Json& value, const std::string& name, std::int64_t low, std::int64_t high);

}  // namespace grille::server
