#include "grille/checkpoint/gguf.h"

#include <algorithm>
#include <cstring>

#include "grille/base/error.h"
#include "grille/base/parallel.h"
#include "grille/checkpoint/quote_name.h"

namespace grille::checkpoint {
namespace {

constexpr std::int64_t kPiece = 8 << 20;    // bytes of the file in memory at a time
constexpr std::int64_t kGrain = 16 * 1024;  // weights a thread takes at least

std::map<std::string, TensorInfo> infos_of(const GgufHeader& header) {
  std::map<std::string, TensorInfo> result;
  for (const auto& [name, entry] : header.tensors) result.emplace(name, entry.info);
  return result;
}

}  // namespace

GgufSource::GgufSource(const std::filesystem::path& path)
    : file_(path), header_(parse_gguf_header(file_.bytes(), path.string())), tensors_(infos_of(header_)) {}

GgufSource::GgufSource(std::span<const std::byte> memory, const std::string& name)
    : file_(memory, name), header_(parse_gguf_header(memory, name)), tensors_(infos_of(header_)) {}

GgufType GgufSource::stored_type(const std::string& name) const {
  info(name);
  return header_.tensors.at(name).type;
}

void GgufSource::read_rows(const std::string& name, std::int64_t begin, std::int64_t end,
                           std::span<std::byte> out) const {
  const TensorInfo& tensor = check_read(name, begin, end, out.size());
  const GgufHeader::Entry& entry = header_.tensors.at(name);
  const GgufTypeTraits traits = *gguf_type_traits(static_cast<std::uint32_t>(entry.type));
  const std::int64_t element = static_cast<std::int64_t>(dtype_size(tensor.dtype));
  const std::int64_t out_block = traits.block_weights * element;
  const std::int64_t blocks = static_cast<std::int64_t>(out.size()) / out_block;
  const std::int64_t first = begin * tensor.row_bytes() / out_block;
  const std::int64_t piece = std::max<std::int64_t>(kPiece / traits.block_bytes, 1);
  for (std::int64_t done = 0; done < blocks; done += piece) {
    const std::int64_t count = std::min(piece, blocks - done);
    const std::size_t offset = entry.offset + static_cast<std::size_t>((first + done) * traits.block_bytes);
    const auto from = file_.range(offset, static_cast<std::size_t>(count * traits.block_bytes));
    std::byte* to = out.data() + done * out_block;
    if (traits.block_weights == 1) {
      std::memcpy(to, from.data(), from.size());
    } else {
      parallel_for(count, kGrain / traits.block_weights, [&](std::int64_t low, std::int64_t high) {
        for (std::int64_t i = low; i < high; ++i) {
          dequantize_gguf_block(entry.type, from.data() + i * traits.block_bytes, to + i * out_block);
        }
      });
    }
    file_.release(offset, from.size());
  }
}

std::string GgufSource::locate(const std::string& name) const {
  return fmt::format("{}: tensor {}", file_.path().string(), quote_name(name));
}

}  // namespace grille::checkpoint
