#include "grille/checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "grille/base/error.h"
#include "grille/checkpoint/json_file.h"
#include "grille/checkpoint/quote_name.h"

namespace grille::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kPiece = std::size_t{8} << 20;  // bytes mapped at a time while reading

bool is_plain_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         std::none_of(name.begin(), name.end(), [](char c) { return c == '/' || c == '\\' || c == '\0'; });
}

// weight_map of an index: tensor -> file name.
std::map<std::string, std::string> read_weight_map(const fs::path& index) {
  const std::string name = index.string();
  const json contents = read_json_file(index);
  const bool has_map =
      contents.is_object() && contents.contains("weight_map") && contents.at("weight_map").is_object();
  check(has_map, ErrorCode::kCorruptData, "{}: has no weight_map", name);
  std::map<std::string, std::string> result;
  for (const auto& [tensor, file] : contents.at("weight_map").items()) {
    if (!file.is_string() || !is_plain_file_name(file.get_ref<const std::string&>())) {
      fail(ErrorCode::kCorruptData, "{}: weight_map: {} is not in a file of this directory", name,
           quote_name(tensor));
    }
    result.emplace(tensor, file.get<std::string>());
  }
  return result;
}

}  // namespace

SafetensorsSource::SafetensorsSource(const fs::path& file_or_directory) : path_(file_or_directory) {
  std::error_code ignored;
  if (!fs::is_directory(path_, ignored)) {
    add_file(std::make_unique<MappedFile>(path_));
    return;
  }
  const fs::path single = path_ / "model.safetensors";
  const fs::path index = path_ / "model.safetensors.index.json";
  if (fs::exists(single, ignored)) {
    add_file(std::make_unique<MappedFile>(single));
    return;
  }
  check(fs::exists(index, ignored), ErrorCode::kNotFound,
        "{}: holds neither model.safetensors nor model.safetensors.index.json", path_.string());
  add_indexed_files(index);
}

SafetensorsSource::SafetensorsSource(std::span<const std::byte> memory, const std::string& name)
    : path_(name) {
  add_file(std::make_unique<MappedFile>(memory, name));
}

std::vector<std::string> SafetensorsSource::add_file(std::unique_ptr<MappedFile> file) {
  SafetensorsHeader header = parse_safetensors_header(file->bytes(), file->path().string());
  std::vector<std::string> names;
  for (auto& [name, entry] : header.tensors) {
    const auto other = places_.find(name);
    if (other != places_.end()) {
      fail(ErrorCode::kCorruptData, "{}: tensor {} is in {} too", file->path().string(), quote_name(name),
           other->second.file->path().filename().string());
    }
    names.push_back(name);
    places_.emplace(name, Place{file.get(), entry.offset});
    tensors_.emplace(name, std::move(entry.info));
  }
  metadata_.merge(header.metadata);
  files_.push_back(std::move(file));
  return names;
}

void SafetensorsSource::add_indexed_files(const fs::path& index) {
  const std::map<std::string, std::string> weight_map = read_weight_map(index);
  std::set<std::string> file_names;
  for (const auto& [tensor, file_name] : weight_map) file_names.insert(file_name);
  check(!file_names.empty(), ErrorCode::kCorruptData, "{}: weight_map is empty", index.string());
  for (const std::string& file_name : file_names) {
    for (const std::string& tensor : add_file(std::make_unique<MappedFile>(path_ / file_name))) {
      const auto indexed = weight_map.find(tensor);
      if (indexed == weight_map.end() || indexed->second != file_name) {
        fail(ErrorCode::kCorruptData, "{}: {} is in {}, but the index does not say so", index.string(),
             quote_name(tensor), quote_name(file_name));
      }
    }
  }
  for (const auto& [tensor, file_name] : weight_map) {
    if (places_.contains(tensor)) continue;
    fail(ErrorCode::kCorruptData, "{}: says that {} is in {}, but it is not", index.string(),
         quote_name(tensor), quote_name(file_name));
  }
}

void SafetensorsSource::read_rows(const std::string& name, std::int64_t begin, std::int64_t end,
                                  std::span<std::byte> out) const {
  const TensorInfo& tensor = check_read(name, begin, end, out.size());
  const Place& place = places_.at(name);
  const std::size_t first = place.offset + static_cast<std::size_t>(begin * tensor.row_bytes());
  for (std::size_t done = 0; done < out.size(); done += kPiece) {
    const std::size_t size = std::min(kPiece, out.size() - done);
    std::memcpy(out.data() + done, place.file->range(first + done, size).data(), size);
    place.file->release(first + done, size);
  }
}

std::string SafetensorsSource::locate(const std::string& name) const {
  const auto place = places_.find(name);
  const fs::path& path = place == places_.end() ? path_ : place->second.file->path();
  return fmt::format("{}: tensor {}", path.string(), quote_name(name));
}

std::int64_t SafetensorsSource::file_bytes() const {
  std::int64_t total = 0;
  for (const auto& file : files_) total += static_cast<std::int64_t>(file->bytes().size());
  return total;
}

}  // namespace grille::checkpoint
