// The block-quantized element types of GGUF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace grille::checkpoint {

// Numbers are the file's (ggml_type).
enum class GgufType : std::uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kBF16 = 30,
};

struct GgufTypeTraits {
  const char* name;
  std::int64_t block_weights;  // weights a block: 1, 32 or 256
  std::int64_t block_bytes;
};

// Nothing for a type that is not read.
std::optional<GgufTypeTraits> gguf_type_traits(std::uint32_t type);
// "IQ2_XS" for a type that exists but is not read, else "type 99".
std::string gguf_type_name(std::uint32_t type);

constexpr std::int64_t kLargestGgufBlock = 256;

// Writes the block_weights weights of one block of a quantized type as float32, bit for bit as ggml does.
// `out` need not be aligned.
void dequantize_gguf_block(GgufType type, const std::byte* block, std::byte* out);

}  // namespace grille::checkpoint
