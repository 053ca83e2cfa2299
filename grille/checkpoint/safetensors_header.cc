#include <algorithm>
#include <bit>
#include <cstring>

#include "grille/base/error.h"
#include "grille/checkpoint/json_file.h"
#include "grille/checkpoint/quote_name.h"
#include "grille/checkpoint/safetensors.h"
#include "grille/checkpoint/safetensors_dtype.h"

namespace grille::checkpoint {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little,
              "tensors are little-endian on disk and used as they are");

constexpr std::size_t kLongestHeader = 100'000'000;  // as the reference reader
constexpr std::size_t kMostDimensions = 16;

// Collects the header's members as the parser meets them, so that the JSON tree never grows.
class HeaderReader {
 public:
  HeaderReader(std::size_t data_begin, std::size_t data_size, const std::string& name)
      : data_begin_(data_begin), data_size_(data_size), name_(name) {}

  bool member(const std::string& key, json& value) {
    if (key == "__metadata__") {
      for (auto& [metadata_key, text] : value.items()) {
        if (!text.is_string()) fail_in(key, "holds something else than strings");
        header_.metadata.emplace(metadata_key, text.get<std::string>());
      }
    } else {
      add_tensor(key, value);
    }
    return false;  // it has been used: drop it
  }

  SafetensorsHeader finish() {
    std::vector<std::pair<std::size_t, const std::string*>> order;
    for (const auto& [tensor, entry] : header_.tensors) order.emplace_back(entry.offset, &tensor);
    // Among tensors that begin together the empty ones come first.
    std::sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
      return std::pair(a.first, header_.tensors.at(*a.second).info.bytes) <
             std::pair(b.first, header_.tensors.at(*b.second).info.bytes);
    });
    std::size_t end = data_begin_;
    for (const auto& [offset, tensor] : order) {
      if (offset < end)
        fail_in(*tensor, fmt::format("begins at byte {}, inside the tensor before it", offset));
      if (offset > end)
        fail_in(*tensor, fmt::format("begins at byte {}, but the one before it ends at {}", offset, end));
      end = offset + static_cast<std::size_t>(header_.tensors.at(*tensor).info.bytes);
    }
    check(end == data_begin_ + data_size_, ErrorCode::kCorruptData,
          "{}: {} bytes long, but its tensors end at byte {}", name_, data_begin_ + data_size_, end);
    return std::move(header_);
  }

 private:
  [[noreturn]] void fail_in(const std::string& tensor, const std::string& what) const {
    fail(ErrorCode::kCorruptData, "{}: {} {}", name_, quote_name(tensor), what);
  }

  void add_tensor(const std::string& tensor, const json& value) {
    if (value.size() != 3 || !value.contains("dtype") || !value.contains("shape") ||
        !value.contains("data_offsets")) {
      fail_in(tensor, "needs dtype, shape and data_offsets, and nothing else");
    }
    const json& dtype_text = value.at("dtype");
    if (!dtype_text.is_string()) fail_in(tensor, "has a dtype that is not a string");
    const auto dtype = dtype_from_safetensors(dtype_text.get_ref<const std::string&>());
    if (!dtype) {
      fail(ErrorCode::kUnsupported, "{}: {} has dtype {}, which is not supported", name_, quote_name(tensor),
           quote_name(dtype_text.get_ref<const std::string&>()));
    }
    const std::vector<std::int64_t> shape = integers(tensor, "shape", value.at("shape"));
    const std::vector<std::int64_t> offsets = integers(tensor, "data_offsets", value.at("data_offsets"));
    if (offsets.size() != 2) fail_in(tensor, "needs two data_offsets");
    const std::optional<TensorInfo> info = make_tensor_info(*dtype, shape);
    if (!info) fail_in(tensor, fmt::format("has the impossible shape {}", shape_text(shape)));
    if (offsets[0] > offsets[1] || static_cast<std::size_t>(offsets[1]) > data_size_) {
      fail_in(tensor, fmt::format("has data_offsets {} to {} in a file with {} bytes of data", offsets[0],
                                  offsets[1], data_size_));
    }
    if (offsets[1] - offsets[0] != info->bytes) {
      fail_in(tensor, fmt::format("is {} {}, which takes {} bytes, but has {}", safetensors_name(*dtype),
                                  shape_text(shape), info->bytes, offsets[1] - offsets[0]));
    }
    header_.tensors.emplace(
        tensor, SafetensorsHeader::Entry{*info, data_begin_ + static_cast<std::size_t>(offsets[0])});
  }

  std::vector<std::int64_t> integers(const std::string& tensor, const char* what, const json& value) const {
    if (!value.is_array() || value.size() > kMostDimensions) {
      fail_in(tensor,
              fmt::format("has a {} that is not an array of at most {} numbers", what, kMostDimensions));
    }
    std::vector<std::int64_t> result;
    for (const json& number : value) {
      // Offsets and sizes past 2^62 fit no file.
      if (!number.is_number_unsigned() || number.get<std::uint64_t>() >> 62 != 0) {
        fail_in(tensor, fmt::format("has a {} with something else than a possible size", what));
      }
      result.push_back(number.get<std::int64_t>());
    }
    return result;
  }

  std::size_t data_begin_;
  std::size_t data_size_;
  const std::string& name_;
  SafetensorsHeader header_;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, const std::string& name) {
  std::uint64_t length = 0;
  check(file.size() >= sizeof length, ErrorCode::kCorruptData,
        "{}: {} bytes are too few for a safetensors file", name, file.size());
  std::memcpy(&length, file.data(), sizeof length);
  check(length >= 2 && length <= kLongestHeader && length <= file.size() - sizeof length,
        ErrorCode::kCorruptData,
        "{}: claims a header of {} bytes in a file of {}: truncated, or not a safetensors file", name, length,
        file.size());
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + sizeof length, length);
  const std::size_t data_begin = sizeof length + length;
  check(text.front() == '{', ErrorCode::kCorruptData, "{}: the header is not a JSON object", name);
  HeaderReader reader(data_begin, file.size() - data_begin, name);
  const JsonLimits limits{.depth = 3, .bytes = kLongestHeader};
  const json rest = parse_json(text, name, limits, [&](int depth, const std::string& key, json& value) {
    check(depth == 1, ErrorCode::kCorruptData, "{}: header: an object inside a tensor's entry", name);
    return reader.member(key, value);
  });
  check(rest.empty(), ErrorCode::kCorruptData, "{}: header: a member that is not an object", name);
  return reader.finish();
}

}  // namespace grille::checkpoint
