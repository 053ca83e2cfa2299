#include "grille/server/json_fields.h"

#include <cmath>
#include <limits>

#include "grille/text/bounded_json.h"

namespace grille::server {
namespace {

// A value in an error message: not longer than a line.
std::string shown(const Json& value) {
  if (value.is_array()) return fmt::format("a list of {}", value.size());
  if (value.is_object()) return "an object";
  if (value.is_string()) return "a string";
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

Json parse_body(std::string_view body) {
  Json value = text::parse_bounded_ordered(body);
  if (value.is_discarded()) {
    throw ApiError(
        Status::kBadRequest,
        fmt::format("body: expected one JSON object in UTF-8, at most 100 levels deep and {} members wide",
                    text::kMaxOrderedMembers));
  }
  if (!value.is_object()) {
    throw ApiError(Status::kBadRequest, "body: expected a JSON object, got " + shown(value));
  }
  return value;
}

JsonFields::JsonFields(const Json& object, std::string prefix)
    : object_(object), prefix_(std::move(prefix)) {}

const Json* JsonFields::find(const std::string& name) {
  known_.insert(name);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<bool> JsonFields::boolean(const std::string& name) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse(full(name), "expected true or false, got {}", shown(*value));
  return value->get<bool>();
}

std::int64_t as_integer(const Json& value, const std::string& name, std::int64_t low, std::int64_t high) {
  std::optional<std::int64_t> result;
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      result = static_cast<std::int64_t>(number);
  } else if (value.is_number_integer()) {
    result = value.get<std::int64_t>();
  } else if (value.is_number_float()) {
    const double number = value.get<double>();
    constexpr double kExact = 9007199254740992.0;  // 2^53
    if (std::floor(number) == number && std::abs(number) <= kExact)
      result = static_cast<std::int64_t>(number);
  }
  if (!result || *result < low || *result > high)
    refuse(name, "expected an integer from {} to {}, got {}", low, high, shown(value));
  return *result;
}

std::optional<std::int64_t> JsonFields::integer(const std::string& name, std::int64_t low,
                                                std::int64_t high) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  return as_integer(*value, full(name), low, high);
}

std::optional<double> JsonFields::number(const std::string& name, double low, double high) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!(number >= low && number <= high))
    refuse(full(name), "expected a number from {} to {}, got {}", low, high, shown(*value));
  return number;
}

std::optional<std::string> JsonFields::string(const std::string& name) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse(full(name), "expected a string, got {}", shown(*value));
  return value->get<std::string>();
}

const Json* JsonFields::object(const std::string& name) {
  const Json* value = find(name);
  if (value != nullptr && !value->is_object())
    refuse(full(name), "expected an object, got {}", shown(*value));
  return value;
}

const Json* JsonFields::array(const std::string& name) {
  const Json* value = find(name);
  if (value != nullptr && !value->is_array()) refuse(full(name), "expected a list, got {}", shown(*value));
  return value;
}

std::vector<std::int32_t> JsonFields::ids(const std::string& name, std::int64_t high) {
  std::vector<std::int32_t> result;
  const Json* list = array(name);
  if (list == nullptr) return result;
  result.reserve(list->size());
  for (const Json& id : *list)
    result.push_back(static_cast<std::int32_t>(as_integer(id, full(name), 0, high)));
  return result;
}

void JsonFields::ignore(std::initializer_list<const char*> names) {
  for (const char* name : names) known_.insert(name);
}

void JsonFields::unsupported(const std::string& name, const Json& neutral) {
  const Json* value = find(name);
  if (value == nullptr || *value == neutral) return;
  const bool says_nothing = (value->is_string() && value->get_ref<const std::string&>().empty()) ||
                            (value->is_structured() && value->empty());
  if (!says_nothing) refuse(full(name), "not supported by this server; leave it out");
}

std::vector<std::string> JsonFields::unknown() const {
  std::vector<std::string> names;
  for (const auto& item : object_.items()) {
    if (!known_.contains(item.key())) names.push_back(prefix_ + item.key());
  }
  return names;
}

}  // namespace grille::server
