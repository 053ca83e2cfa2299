#include "grille/checkpoint/gguf_blocks.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "grille/base/error.h"
#include "grille/base/float_bits.h"

namespace grille::checkpoint {
namespace {

using Block = const std::uint8_t*;
using Floats = std::array<float, kLargestGgufBlock>;

float half_at(Block p) {
  std::uint16_t bits;
  std::memcpy(&bits, p, sizeof bits);
  return float16_to_float(bits);
}

constexpr float kNoMinimum = -0.0f;  // x + -0 is x, also where x is -0

// 32 weights. Nibble j of the low half is weight j, of the high half weight j + 16; `high` holds a fifth bit
// for each weight (Q5), or zero.
void legacy_block(float d, float m, int subtract, std::uint32_t high, Block nibbles, Floats& out) {
  for (unsigned j = 0; j < 16; ++j) {
    const int low = static_cast<int>((nibbles[j] & 0xfu) | ((high >> j & 1u) << 4)) - subtract;
    const int upper = static_cast<int>((nibbles[j] >> 4) | ((high >> (j + 16) & 1u) << 4)) - subtract;
    out[j] = d * static_cast<float>(low) + m;
    out[j + 16] = d * static_cast<float>(upper) + m;
  }
}

std::uint32_t word_at(Block p) {
  std::uint32_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

// The 6-bit scale and minimum of sub-block 0..7 from the 12 bytes that Q4_K and Q5_K share: 0..3 lie in the
// low bits of bytes j and j + 4; 4..7 take a nibble of byte j + 4 and the top two bits of those.
struct ScaleAndMinimum {
  float scale, minimum;
};
ScaleAndMinimum k_scale(Block scales, int sub_block) {
  if (sub_block < 4) {
    return {static_cast<float>(scales[sub_block] & 63), static_cast<float>(scales[sub_block + 4] & 63)};
  }
  const int packed = scales[sub_block + 4];
  return {static_cast<float>((packed & 0xf) | ((scales[sub_block - 4] >> 6) << 4)),
          static_cast<float>((packed >> 4) | ((scales[sub_block] >> 6) << 4))};
}

// 256 weights in 8 sub-blocks of 32: fp16 d, fp16 dmin, 12 bytes of scales, for Q5_K 32 bytes of fifth bits
// (bit s of byte j: weight j of sub-block s), 128 bytes of nibbles (two sub-blocks share 32).
void k_block(Block block, Block fifth_bits, Block nibbles, Floats& out) {
  const float d = half_at(block);
  const float dmin = half_at(block + 2);
  for (int sub = 0; sub < 8; ++sub) {
    const auto [scale, minimum] = k_scale(block + 4, sub);
    const float sub_d = d * scale;
    const float sub_min = dmin * minimum;
    const Block quarter = nibbles + sub / 2 * 32;
    for (int j = 0; j < 32; ++j) {
      unsigned q = (quarter[j] >> (sub % 2 * 4)) & 0xfu;
      if (fifth_bits != nullptr) q |= (static_cast<unsigned>(fifth_bits[j]) >> sub & 1u) << 4;
      out[static_cast<std::size_t>(sub) * 32 + static_cast<std::size_t>(j)] =
          sub_d * static_cast<float>(q) - sub_min;
    }
  }
}

// 256 weights: 128 bytes of low nibbles, 64 of upper bit pairs, 16 int8 scales (one for 16 weights), fp16 d.
// Each half of 128 weights has four rows of 32: rows 0 and 1 are low nibbles, rows 2 and 3 high ones.
void q6_k_block(Block block, Floats& out) {
  const float d = half_at(block + 208);
  for (int half = 0; half < 2; ++half) {
    const Block low = block + half * 64;
    const Block pairs = block + 128 + half * 32;
    for (int row = 0; row < 4; ++row) {
      for (int j = 0; j < 32; ++j) {
        const int nibble = (low[row % 2 * 32 + j] >> (row / 2 * 4)) & 0xf;
        const int q = (nibble | (((pairs[j] >> (row * 2)) & 3) << 4)) - 32;
        const int scale = static_cast<std::int8_t>(block[192 + half * 8 + row * 2 + j / 16]);
        out[static_cast<std::size_t>(half) * 128 + static_cast<std::size_t>(row) * 32 +
            static_cast<std::size_t>(j)] = d * static_cast<float>(scale) * static_cast<float>(q);
      }
    }
  }
}

constexpr std::array<const char*, 40> kNames = {
    "F32",    "F16",      "Q4_0",     "Q4_1",     "Q4_2",  "Q4_3",  "Q5_0",    "Q5_1",    "Q8_0",    "Q8_1",
    "Q2_K",   "Q3_K",     "Q4_K",     "Q5_K",     "Q6_K",  "Q8_K",  "IQ2_XXS", "IQ2_XS",  "IQ3_XXS", "IQ1_S",
    "IQ4_NL", "IQ3_S",    "IQ2_S",    "IQ4_XS",   "I8",    "I16",   "I32",     "I64",     "F64",     "IQ1_M",
    "BF16",   "Q4_0_4_4", "Q4_0_4_8", "Q4_0_8_8", "TQ1_0", "TQ2_0", "type 36", "type 37", "type 38", "MXFP4"};

}  // namespace

std::optional<GgufTypeTraits> gguf_type_traits(std::uint32_t type) {
  switch (static_cast<GgufType>(type)) {
    case GgufType::kF32: return {{"F32", 1, 4}};
    case GgufType::kF16: return {{"F16", 1, 2}};
    case GgufType::kBF16: return {{"BF16", 1, 2}};
    case GgufType::kQ4_0: return {{"Q4_0", 32, 18}};
    case GgufType::kQ4_1: return {{"Q4_1", 32, 20}};
    case GgufType::kQ5_0: return {{"Q5_0", 32, 22}};
    case GgufType::kQ5_1: return {{"Q5_1", 32, 24}};
    case GgufType::kQ8_0: return {{"Q8_0", 32, 34}};
    case GgufType::kQ4_K: return {{"Q4_K", 256, 144}};
    case GgufType::kQ5_K: return {{"Q5_K", 256, 176}};
    case GgufType::kQ6_K: return {{"Q6_K", 256, 210}};
  }
  return std::nullopt;
}

std::string gguf_type_name(std::uint32_t type) {
  return type < kNames.size() ? std::string(kNames[type]) : fmt::format("type {}", type);
}

void dequantize_gguf_block(GgufType type, const std::byte* bytes, std::byte* out) {
  const Block block = reinterpret_cast<Block>(bytes);
  Floats weights;
  std::size_t count = 32;
  switch (type) {
    case GgufType::kQ4_0: legacy_block(half_at(block), kNoMinimum, 8, 0, block + 2, weights); break;
    case GgufType::kQ4_1: legacy_block(half_at(block), half_at(block + 2), 0, 0, block + 4, weights); break;
    case GgufType::kQ5_0:
      legacy_block(half_at(block), kNoMinimum, 16, word_at(block + 2), block + 6, weights);
      break;
    case GgufType::kQ5_1:
      legacy_block(half_at(block), half_at(block + 2), 0, word_at(block + 4), block + 8, weights);
      break;
    case GgufType::kQ8_0:
      for (unsigned j = 0; j < 32; ++j)
        weights[j] = half_at(block) * static_cast<float>(static_cast<std::int8_t>(block[2 + j]));
      break;
    case GgufType::kQ4_K:
      k_block(block, nullptr, block + 16, weights);
      count = 256;
      break;
    case GgufType::kQ5_K:
      k_block(block, block + 16, block + 48, weights);
      count = 256;
      break;
    case GgufType::kQ6_K:
      q6_k_block(block, weights);
      count = 256;
      break;
    default:
      fail(ErrorCode::kInternal, "gguf: {} is not block-quantized",
           gguf_type_name(static_cast<std::uint32_t>(type)));
  }
  std::memcpy(out, weights.data(), count * sizeof(float));
}

}  // namespace grille::checkpoint
