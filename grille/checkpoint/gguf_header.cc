#include <algorithm>
#include <cstring>
#include <utility>

#include "grille/base/error.h"
#include "grille/checkpoint/gguf.h"
#include "grille/checkpoint/quote_name.h"

namespace grille::checkpoint {
namespace {

constexpr std::uint64_t kLongestKey = 65535;  // the specification's limit
constexpr std::uint64_t kLargestAlignment = 1 << 20;
constexpr std::uint32_t kMostDimensions = 4;
constexpr std::uint64_t kDefaultAlignment = 32;

// Bytes of a fixed-size value; 0 for strings, arrays and unknown types.
std::size_t value_size(std::uint32_t type) {
  switch (static_cast<GgufValueType>(type)) {
    case GgufValueType::kUInt8:
    case GgufValueType::kInt8:
    case GgufValueType::kBool: return 1;
    case GgufValueType::kUInt16:
    case GgufValueType::kInt16: return 2;
    case GgufValueType::kUInt32:
    case GgufValueType::kInt32:
    case GgufValueType::kFloat32: return 4;
    case GgufValueType::kUInt64:
    case GgufValueType::kInt64:
    case GgufValueType::kFloat64: return 8;
    default: return 0;
  }
}

// Walks the file front to back. Nothing is believed before it is compared with the bytes that are left.
class HeaderReader {
 public:
  HeaderReader(std::span<const std::byte> file, const std::string& name) : file_(file), name_(name) {}

  GgufHeader read() {
    check(file_.size() >= 4 && std::memcmp(file_.data(), "GGUF", 4) == 0, ErrorCode::kCorruptData,
          "{}: does not begin with GGUF: not a GGUF file", name_);
    position_ = 4;
    GgufHeader header{take<std::uint32_t>("version"), GgufMetadata(name_), {}};
    check(header.version == 2 || header.version == 3, ErrorCode::kUnsupported,
          "{}: GGUF version {}{}, expected 2 or 3", name_, header.version,
          (header.version & 0xffffu) == 0 ? " (a big-endian file)" : "");
    const auto tensor_count = take<std::uint64_t>("tensor count");
    const auto value_count = take<std::uint64_t>("metadata count");
    // A value takes at least 13 bytes (key length, type, one byte), a tensor 24.
    check(value_count <= left() / 13 && tensor_count <= left() / 24, ErrorCode::kCorruptData,
          "{}: claims {} metadata values and {} tensors in {} bytes", name_, value_count, tensor_count,
          file_.size());
    for (std::uint64_t i = 0; i < value_count; ++i) read_value(header.metadata);
    const auto parts = header.metadata.get_uint("split.count").value_or(1);
    check(parts <= 1, ErrorCode::kUnsupported,
          "{}: one of {} parts: join them first with `llama-gguf-split --merge`", name_, parts);
    std::vector<TensorRecord> records;
    for (std::uint64_t i = 0; i < tensor_count; ++i) records.push_back(read_tensor());
    place(records, header);
    return header;
  }

 private:
  struct TensorRecord {
    std::string name;
    std::uint64_t offset;  // from the start of the data
    GgufHeader::Entry entry;
  };

  std::size_t left() const { return file_.size() - position_; }

  std::span<const std::byte> take_bytes(std::uint64_t count, std::string_view what) {
    if (count > left()) {
      fail(ErrorCode::kCorruptData,
           "{}: ends at byte {}, in the middle of {} at byte {}: truncated or corrupt", name_, file_.size(),
           quote_name(what), position_);
    }
    const auto bytes = file_.subspan(position_, count);
    position_ += count;
    return bytes;
  }

  template <typename T>
  T take(std::string_view what) {
    T value;
    std::memcpy(&value, take_bytes(sizeof value, what).data(), sizeof value);
    return value;
  }

  std::string take_name(std::string_view what) {
    const auto length = take<std::uint64_t>(what);
    check(length > 0 && length <= kLongestKey, ErrorCode::kCorruptData, "{}: {} of {} bytes at byte {}",
          name_, what, length, position_);
    const auto bytes = take_bytes(length, what);
    std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (!is_utf8(text))
      fail(ErrorCode::kCorruptData, "{}: {} {} is not UTF-8", name_, what, quote_name(text));
    return text;
  }

  void skip_strings(std::uint64_t count, const std::string& key) {
    for (std::uint64_t i = 0; i < count; ++i) take_bytes(take<std::uint64_t>(key), key);
  }

  void read_value(GgufMetadata& metadata) {
    std::string key = take_name("a metadata key");
    if (metadata.has(key))
      fail(ErrorCode::kCorruptData, "{}: metadata key {} appears twice", name_, quote_name(key));
    auto type = take<std::uint32_t>(key);
    GgufMetadata::Value value{};
    if (type == static_cast<std::uint32_t>(GgufValueType::kArray)) {
      value.is_array = true;
      type = take<std::uint32_t>(key);
      value.count = take<std::uint64_t>(key);
    }
    value.type = static_cast<GgufValueType>(type);
    const std::size_t size = value_size(type);
    const std::size_t begin = position_;
    if (size > 0) {
      check(value.count <= left() / size, ErrorCode::kCorruptData,
            "{}: {} claims {} values of {} bytes, {} are left", name_, quote_name(key), value.count, size,
            left());
      take_bytes(value.count * size, key);
    } else if (value.type == GgufValueType::kString) {
      check(value.count <= left() / 8, ErrorCode::kCorruptData, "{}: {} claims {} strings in {} bytes", name_,
            quote_name(key), value.count, left());
      skip_strings(value.count, key);
    } else {
      fail(value.type == GgufValueType::kArray ? ErrorCode::kUnsupported : ErrorCode::kCorruptData,
           "{}: metadata {} has {}", name_, quote_name(key),
           value.type == GgufValueType::kArray ? "an array of arrays"
                                               : fmt::format("the unknown type {}", type));
    }
    value.bytes = file_.subspan(begin, position_ - begin);
    metadata.add(std::move(key), value);
  }

  TensorRecord read_tensor() {
    TensorRecord record{take_name("a tensor's name"), 0, {}};
    const auto fail_tensor = [&](ErrorCode code, const std::string& what) {
      fail(code, "{}: tensor {} {}", name_, quote_name(record.name), what);
    };
    const auto dimensions = take<std::uint32_t>("a tensor's dimensions");
    if (dimensions > kMostDimensions)
      fail_tensor(ErrorCode::kCorruptData, fmt::format("has {} dimensions", dimensions));
    std::vector<std::int64_t> shape(dimensions);
    for (std::uint32_t i = 0; i < dimensions; ++i)
      shape[dimensions - 1 - i] = take<std::int64_t>("a tensor's dimensions");
    const auto type = take<std::uint32_t>("a tensor's type");
    record.offset = take<std::uint64_t>("a tensor's offset");

    const auto traits = gguf_type_traits(type);
    if (!traits)
      fail_tensor(ErrorCode::kUnsupported,
                  fmt::format("is {}, which is not supported", gguf_type_name(type)));
    record.entry.type = static_cast<GgufType>(type);
    const DType dtype = record.entry.type == GgufType::kF16    ? DType::kFloat16
                        : record.entry.type == GgufType::kBF16 ? DType::kBFloat16
                                                               : DType::kFloat32;
    const std::optional<TensorInfo> info = make_tensor_info(dtype, shape);
    if (!info)
      fail_tensor(ErrorCode::kCorruptData, fmt::format("has the impossible shape {}", shape_text(shape)));
    const std::int64_t cols = shape.empty() ? 1 : shape.back();
    if (cols % traits->block_weights != 0) {
      fail_tensor(ErrorCode::kCorruptData, fmt::format("has rows of {} weights; {} comes in blocks of {}",
                                                       cols, traits->name, traits->block_weights));
    }
    record.entry.info = *info;
    record.entry.bytes = static_cast<std::size_t>(info->bytes / static_cast<std::int64_t>(dtype_size(dtype)) /
                                                  traits->block_weights * traits->block_bytes);
    return record;
  }

  // Turns relative offsets into places in the file, and looks for overlaps.
  void place(std::vector<TensorRecord>& records, GgufHeader& header) const {
    const std::uint64_t alignment = header.metadata.get_uint("general.alignment").value_or(kDefaultAlignment);
    check(alignment > 0 && alignment <= kLargestAlignment && (alignment & (alignment - 1)) == 0,
          ErrorCode::kCorruptData, "{}: general.alignment is {}, expected a power of two", name_, alignment);
    const std::uint64_t data_begin = (position_ + alignment - 1) / alignment * alignment;
    std::sort(records.begin(), records.end(), [](const TensorRecord& a, const TensorRecord& b) {
      return std::pair(a.offset, a.entry.bytes) < std::pair(b.offset, b.entry.bytes);
    });
    std::uint64_t end = data_begin;
    for (TensorRecord& record : records) {
      if (record.offset % alignment != 0) {
        fail(ErrorCode::kCorruptData, "{}: tensor {} has offset {}, not a multiple of {}", name_,
             quote_name(record.name), record.offset, alignment);
      }
      const bool inside = data_begin <= file_.size() && record.offset <= file_.size() - data_begin &&
                          record.entry.bytes <= file_.size() - data_begin - record.offset;
      if (!inside) {
        fail(ErrorCode::kCorruptData,
             "{}: tensor {} ({} bytes at offset {}) passes the end of the file: truncated?", name_,
             quote_name(record.name), record.entry.bytes, record.offset);
      }
      record.entry.offset = data_begin + record.offset;
      if (record.entry.offset < end) {
        fail(ErrorCode::kCorruptData, "{}: tensor {} overlaps the one before it", name_,
             quote_name(record.name));
      }
      end = record.entry.offset + record.entry.bytes;
      const bool fresh = header.tensors.emplace(record.name, std::move(record.entry)).second;
      if (!fresh)
        fail(ErrorCode::kCorruptData, "{}: tensor {} appears twice", name_, quote_name(record.name));
    }
  }

  std::span<const std::byte> file_;
  const std::string& name_;
  std::size_t position_ = 0;
};

}  // namespace

GgufHeader parse_gguf_header(std::span<const std::byte> file, const std::string& name) {
  return HeaderReader(file, name).read();
}

}  // namespace grille::checkpoint
