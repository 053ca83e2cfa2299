#include "grille/checkpoint/safetensors_writer.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "grille/base/error.h"
#include "grille/checkpoint/quote_name.h"
#include "grille/checkpoint/safetensors_dtype.h"

namespace grille::checkpoint {
namespace {

struct Layout {
  std::string header;                 // length, JSON and padding
  std::vector<TensorInfo> infos;      // as the given tensors
  std::vector<std::uint64_t> begins;  // from the end of the header
  std::uint64_t data_bytes = 0;
};

std::string json_string(const std::string& text) {
  check(is_utf8(text), ErrorCode::kInvalidArgument, "safetensors: the name {} is not UTF-8",
        quote_name(text));
  return nlohmann::json(text).dump();
}

Layout lay_out(const std::vector<TensorSpec>& tensors, std::map<std::string, std::string> metadata) {
  Layout layout;
  for (const TensorSpec& tensor : tensors) {
    const std::optional<TensorInfo> info = make_tensor_info(tensor.dtype, tensor.shape);
    if (!info || tensor.name == "__metadata__") {
      fail(ErrorCode::kInvalidArgument, "safetensors: cannot store {} {}", quote_name(tensor.name),
           shape_text(tensor.shape));
    }
    layout.infos.push_back(*info);
  }
  std::vector<std::size_t> order(tensors.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const std::size_t size_a = dtype_size(tensors[a].dtype);
    const std::size_t size_b = dtype_size(tensors[b].dtype);
    return size_a != size_b ? size_a > size_b : tensors[a].name < tensors[b].name;
  });

  metadata.emplace("format", "pt");
  std::string text = "{\"__metadata__\":{";
  for (const auto& [key, value] : metadata) {
    text += fmt::format("{}{}:{}", text.back() == '{' ? "" : ",", json_string(key), json_string(value));
  }
  text += "}";
  layout.begins.resize(tensors.size());
  for (const std::size_t i : order) {
    const std::uint64_t end = layout.data_bytes + static_cast<std::uint64_t>(layout.infos[i].bytes);
    std::string shape = shape_text(tensors[i].shape);
    std::erase(shape, ' ');
    text += fmt::format(",{}:{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}}",
                        json_string(tensors[i].name), safetensors_name(tensors[i].dtype), shape,
                        layout.data_bytes, end);
    layout.begins[i] = std::exchange(layout.data_bytes, end);
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  layout.header.assign(reinterpret_cast<const char*>(&length), sizeof length);
  layout.header += text;
  return layout;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path,
                                     const std::vector<TensorSpec>& tensors,
                                     std::map<std::string, std::string> metadata) {
  const Layout layout = lay_out(tensors, std::move(metadata));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const bool fresh =
        entries_.emplace(tensors[i].name, Entry{layout.infos[i], layout.header.size() + layout.begins[i], 0})
            .second;
    if (!fresh) {
      fail(ErrorCode::kInvalidArgument, "{}: tensor {} is given twice", path.string(),
           quote_name(tensors[i].name));
    }
  }
  file_bytes_ = static_cast<std::int64_t>(layout.header.size() + layout.data_bytes);
  file_ = std::make_unique<OutputFile>(path, static_cast<std::uint64_t>(file_bytes_));
  file_->write_at(0, std::as_bytes(std::span(layout.header)));
}

void SafetensorsWriter::write(const std::string& name, std::span<const std::byte> bytes) {
  const auto entry = entries_.find(name);
  write_rows(name, 0, entry == entries_.end() ? 0 : entry->second.info.rows(), bytes);
}

void SafetensorsWriter::write_rows(const std::string& name, std::int64_t begin, std::int64_t end,
                                   std::span<const std::byte> bytes) {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    fail(ErrorCode::kInvalidArgument, "{}: tensor {} was not announced", file_->path().string(),
         quote_name(name));
  }
  Entry& entry = found->second;
  const std::int64_t row_bytes = entry.info.row_bytes();
  check(0 <= begin && begin <= end && end <= entry.info.rows() &&
            bytes.size() == static_cast<std::size_t>((end - begin) * row_bytes),
        ErrorCode::kInvalidArgument, "{}: {} bytes for rows {} to {} of a tensor {}", file_->path().string(),
        bytes.size(), begin, end, shape_text(entry.info.shape));
  file_->write_at(entry.offset + static_cast<std::uint64_t>(begin * row_bytes), bytes);
  entry.written += static_cast<std::int64_t>(bytes.size());
}

void SafetensorsWriter::finish() {
  for (const auto& [name, entry] : entries_) {
    if (entry.written == entry.info.bytes) continue;
    fail(ErrorCode::kInternal, "{}: {} of {} bytes of tensor {} were written", file_->path().string(),
         entry.written, entry.info.bytes, quote_name(name));
  }
  file_->finish();
}

std::int64_t SafetensorsWriter::size_of(const std::vector<TensorSpec>& tensors,
                                        std::map<std::string, std::string> metadata) {
  const Layout layout = lay_out(tensors, std::move(metadata));
  return static_cast<std::int64_t>(layout.header.size() + layout.data_bytes);
}

}  // namespace grille::checkpoint
