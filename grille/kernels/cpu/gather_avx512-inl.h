// One token and 2:4 weights of bfloat16 or float8 on AVX-512: the token's columns are gathered to where the
// weights kept lie, instead of the weights being spread over the columns, so that half as many values are
// multiplied and no masks are moved; for more tokens the gathering would be done again for each. After
// matmul-inl.h.
#pragma once

namespace grille::kernels {
namespace {

// Columns kept in a group of 4, by its nibble of the mask: the first in the low half, the second in the high.
struct KeptColumns {
  alignas(64) std::uint32_t of[16];
  constexpr KeptColumns() : of{} {
    for (unsigned nibble = 0; nibble < 16; ++nibble) {
      unsigned found = 0;
      for (unsigned column = 0; column < 4; ++column) {
        if ((nibble >> column & 1) != 0 && found < 2) of[nibble] |= column << (16 * found++);
      }
    }
  }
};
constexpr KeptColumns kKeptColumns;

// Two rows share a vector: the lower half holds 16 weights kept of one, which belong to 8 groups, the upper
// half those of the other. A step of 64 columns takes two vectors. first_column[g]: of the first vector's
// group g; the second one's is `apart` further on.
struct GatherOrder {
  // For vpmultishiftqb: bits of the mask that go to a doubleword's first and third byte, for both vectors.
  alignas(64) std::uint8_t fields[64];
  alignas(64) std::uint16_t columns[32];  // where a group's columns lie in the token's vector
  constexpr GatherOrder(std::array<std::uint8_t, 8> first_column, std::uint8_t apart,
                        std::array<std::uint8_t, 8> place)
      : fields{}, columns{} {
    for (unsigned lane = 0; lane < 16; ++lane) {
      const unsigned group = lane % 8;
      fields[4 * lane] = first_column[group];
      fields[4 * lane + 2] = static_cast<std::uint8_t>(first_column[group] + apart);
      columns[2 * lane] = columns[2 * lane + 1] = place[group];
    }
  }
};

// 32 bytes of each of two rows.
inline __m512i load_pair(const void* lower, const void* upper) {
  return in_register(_mm512_inserti64x4(_mm512_castsi256_si512(load256(lower)), load256(upper), 1));
}

// As they are stored: the first vector has columns 0 to 31, the second one the others.
struct BFloat16Gather {
  using C = PairCompute;
  using W = BFloat16;
  static constexpr GatherOrder kOrder = {{0, 4, 8, 12, 16, 20, 24, 28}, 32, {0, 4, 8, 12, 16, 20, 24, 28}};

  static void tokens(__m512i first, __m512i second, __m512i* out) {
    out[0] = first;
    out[1] = second;
  }
  static void weights(const C::Constants&, const W* lower, const W* upper, __m512i* out) {
    for (int v = 0; v < 2; ++v) out[v] = load_pair(lower + 16 * v, upper + 16 * v);
  }
};

// Widening leaves the groups of a step in the order 0 to 3, 8 to 11 (first vector), 4 to 7, 12 to 15
// (second). The token lies in that order, too.
struct Float8Gather {
  using C = Float8PairCompute;
  using W = Float8;
  static constexpr GatherOrder kOrder = {{0, 4, 8, 12, 32, 36, 40, 44}, 16, {0, 4, 16, 20, 8, 12, 24, 28}};

  // Columns 0 to 15 and 32 to 47; the others.
  static void tokens(__m512i first, __m512i second, __m512i* out) {
    out[0] = _mm512_shuffle_i64x2(first, second, 0x88);
    out[1] = _mm512_shuffle_i64x2(first, second, 0xdd);
  }
  static void weights(const C::Constants& c, const W* lower, const W* upper, __m512i* out) {
    C::widen_kept(c, load_pair(lower, upper), out);  // zeros are seldom kept
  }
};

template <typename Gather>
struct GatheredSums {
  using C = typename Gather::C;
  using Rows = StoredRows<C, typename Gather::W, true>;

  struct Constants : C::Constants {
    __m512i fields, columns, kept;
    Constants()
        : fields(in_register(Gather::kOrder.fields)),
          columns(in_register(Gather::kOrder.columns)),
          kept(in_register(kKeptColumns.of)) {}
  };

  __m512 sum[2][2] = {};  // [pair of rows][vector]

  void add(const Constants& c, const typename Rows::Segment& s, std::int64_t groups_ahead,
           const BFloat16* x) {
    for (std::int64_t step = 0; step < s.steps; ++step, x += C::kStep) {
      if (groups_ahead > 0) Rows::prefetch(s, step, groups_ahead);
      __m512i tokens[2];
      Gather::tokens(C::load(x), C::load(x + C::kLanes), tokens);
      for (int pair = 0; pair < 2; ++pair) {
        const auto* values = s.values + 2 * pair * s.value_stride + step * Rows::kStepValues;
        const std::uint8_t* mask = s.mask + 2 * pair * s.mask_stride + step * Rows::kStepMask;
        __m512i w[2];
        Gather::weights(c, values, values + s.value_stride, w);
        const __m512i nibbles =
            _mm512_multishift_epi64_epi8(c.fields, load_masks(mask, mask + s.mask_stride));
        for (int v = 0; v < 2; ++v) {
          const __m512i kept =
              _mm512_permutexvar_epi32(v == 0 ? nibbles : _mm512_srli_epi32(nibbles, 16), c.kept);
          const __m512i x_kept = _mm512_permutexvar_epi16(_mm512_add_epi16(kept, c.columns), tokens[v]);
          sum[pair][v] = C::dot(sum[pair][v], w[v], x_kept);
        }
      }
    }
  }

  void store(float* out, bool more) const {
    for (int pair = 0; pair < 2; ++pair) {
      const __m512 both = _mm512_add_ps(sum[pair][0], sum[pair][1]);
      for (int r = 0; r < 2; ++r) {
        const __m256 row = r == 0 ? _mm512_castps512_ps256(both) : _mm512_extractf32x8_ps(both, 1);
        const float total = _mm512_reduce_add_ps(_mm512_zextps256_ps512(row));
        out[2 * pair + r] = more ? out[2 * pair + r] + total : total;
      }
    }
  }

 private:
  static __m512i load_masks(const std::uint8_t* lower, const std::uint8_t* upper) {
    long long words[2];
    std::memcpy(&words[0], lower, sizeof(words[0]));
    std::memcpy(&words[1], upper, sizeof(words[1]));
    return _mm512_mask_set1_epi64(_mm512_set1_epi64(words[0]), 0xf0, words[1]);
  }
};

template <>
struct StreamedSums<PairCompute, 1, StoredRows<PairCompute, BFloat16, true>> : GatheredSums<BFloat16Gather> {
};
template <>
struct StreamedSums<Float8PairCompute, 1, StoredRows<Float8PairCompute, Float8, true>>
    : GatheredSums<Float8Gather> {};

}  // namespace
}  // namespace grille::kernels
