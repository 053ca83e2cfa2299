#include <algorithm>
#include <cstring>
#include <limits>
#include <variant>

#include "grille/base/error.h"
#include "grille/checkpoint/gguf.h"
#include "grille/checkpoint/quote_name.h"

namespace grille::checkpoint {
namespace {

using Value = GgufMetadata::Value;
using Number = std::variant<std::monostate, std::uint64_t, std::int64_t, double>;

template <typename T>
T element(const Value& value, std::uint64_t index) {
  T result;
  std::memcpy(&result, value.bytes.data() + index * sizeof result, sizeof result);
  return result;
}

// Element `index` in the widest type of its kind; nothing if it is not a number.
Number number_at(const Value& value, std::uint64_t index) {
  switch (value.type) {
    case GgufValueType::kUInt8: return std::uint64_t{element<std::uint8_t>(value, index)};
    case GgufValueType::kUInt16: return std::uint64_t{element<std::uint16_t>(value, index)};
    case GgufValueType::kUInt32: return std::uint64_t{element<std::uint32_t>(value, index)};
    case GgufValueType::kUInt64: return element<std::uint64_t>(value, index);
    case GgufValueType::kInt8: return std::int64_t{element<std::int8_t>(value, index)};
    case GgufValueType::kInt16: return std::int64_t{element<std::int16_t>(value, index)};
    case GgufValueType::kInt32: return std::int64_t{element<std::int32_t>(value, index)};
    case GgufValueType::kInt64: return element<std::int64_t>(value, index);
    case GgufValueType::kFloat32: return double{element<float>(value, index)};
    case GgufValueType::kFloat64: return element<double>(value, index);
    default: return std::monostate{};
  }
}

std::optional<std::int64_t> as_int(const Number& number) {
  if (const auto* whole = std::get_if<std::int64_t>(&number)) return *whole;
  const auto* natural = std::get_if<std::uint64_t>(&number);
  if (natural == nullptr || *natural > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(*natural);
}

std::optional<double> as_float(const Number& number) {
  if (const auto* real = std::get_if<double>(&number)) return *real;
  if (const auto* whole = std::get_if<std::int64_t>(&number)) return static_cast<double>(*whole);
  if (const auto* natural = std::get_if<std::uint64_t>(&number)) return static_cast<double>(*natural);
  return std::nullopt;
}

// The string whose length is at `position`; moves past it. Lengths were checked when the file was opened; a
// file that has changed since gives garbage, not a read outside it.
std::string take_string(std::span<const std::byte> bytes, std::size_t& position) {
  std::uint64_t length;
  if (bytes.size() - position < sizeof length) return {};
  std::memcpy(&length, bytes.data() + position, sizeof length);
  length = std::min<std::uint64_t>(length, bytes.size() - position - sizeof length);
  std::string text(reinterpret_cast<const char*>(bytes.data()) + position + sizeof length, length);
  position += sizeof length + length;
  return text;
}

}  // namespace

const Value* GgufMetadata::find(const std::string& key, bool array) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return nullptr;
  if (found->second.is_array != array) fail_type(key, array ? "an array" : "a single value");
  return &found->second;
}

void GgufMetadata::fail_type(const std::string& key, const char* wanted) const {
  fail(ErrorCode::kCorruptData, "{}: metadata {} is not {}", file_, quote_name(key), wanted);
}

std::optional<std::string> GgufMetadata::get_string(const std::string& key) const {
  const Value* value = find(key, false);
  if (value == nullptr) return std::nullopt;
  if (value->type != GgufValueType::kString) fail_type(key, "a string");
  std::size_t position = 0;
  return take_string(value->bytes, position);
}

std::optional<std::uint64_t> GgufMetadata::get_uint(const std::string& key) const {
  const Value* value = find(key, false);
  if (value == nullptr) return std::nullopt;
  const Number number = number_at(*value, 0);
  if (const auto* natural = std::get_if<std::uint64_t>(&number)) return *natural;
  const auto* whole = std::get_if<std::int64_t>(&number);
  if (whole == nullptr || *whole < 0) fail_type(key, "a natural number");
  return static_cast<std::uint64_t>(*whole);
}

std::optional<std::int64_t> GgufMetadata::get_int(const std::string& key) const {
  const Value* value = find(key, false);
  if (value == nullptr) return std::nullopt;
  const std::optional<std::int64_t> number = as_int(number_at(*value, 0));
  if (!number) fail_type(key, "an integer");
  return number;
}

std::optional<double> GgufMetadata::get_float(const std::string& key) const {
  const Value* value = find(key, false);
  if (value == nullptr) return std::nullopt;
  const std::optional<double> number = as_float(number_at(*value, 0));
  if (!number) fail_type(key, "a number");
  return number;
}

std::optional<bool> GgufMetadata::get_bool(const std::string& key) const {
  const Value* value = find(key, false);
  if (value == nullptr) return std::nullopt;
  if (value->type != GgufValueType::kBool) fail_type(key, "true or false");
  return element<std::uint8_t>(*value, 0) != 0;
}

std::optional<std::vector<std::string>> GgufMetadata::get_string_array(const std::string& key) const {
  const Value* value = find(key, true);
  if (value == nullptr) return std::nullopt;
  if (value->type != GgufValueType::kString) fail_type(key, "an array of strings");
  std::vector<std::string> result;
  result.reserve(value->count);
  for (std::size_t position = 0; result.size() < value->count;)
    result.push_back(take_string(value->bytes, position));
  return result;
}

std::optional<std::vector<std::int64_t>> GgufMetadata::get_int_array(const std::string& key) const {
  const Value* value = find(key, true);
  if (value == nullptr) return std::nullopt;
  std::vector<std::int64_t> result;
  result.reserve(value->count);
  for (std::uint64_t i = 0; i < value->count; ++i) {
    const std::optional<std::int64_t> number = as_int(number_at(*value, i));
    if (!number) fail_type(key, "an array of integers");
    result.push_back(*number);
  }
  return result;
}

std::optional<std::vector<double>> GgufMetadata::get_float_array(const std::string& key) const {
  const Value* value = find(key, true);
  if (value == nullptr) return std::nullopt;
  std::vector<double> result;
  result.reserve(value->count);
  for (std::uint64_t i = 0; i < value->count; ++i) {
    const std::optional<double> number = as_float(number_at(*value, i));
    if (!number) fail_type(key, "an array of numbers");
    result.push_back(*number);
  }
  return result;
}

}  // namespace grille::checkpoint
