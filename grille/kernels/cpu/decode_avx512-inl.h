// How matmul decodes weights and multiplies them on AVX-512. After simd_avx512-inl.h, inside its region.
#pragma once

namespace grille::kernels {
namespace {

// A constant that stays in a register: the compiler would load it again wherever it is used.
inline __m512i in_register(__m512i v) {
  asm("" : "+v"(v));
  return v;
}
inline __m512i in_register(const void* p) { return in_register(_mm512_load_si512(p)); }

// The bits of a 2:4 mask, two in every nibble, and those of them that are their nibble's second.
//
// Spreading values over their columns is a permutation: column c of group g takes value 2 g or, where it is
// the second one kept, 2 g + 1, and zero where it is not kept. (vpexpand* would need no indices, but it is
// microcode on Zen 5: 5 cycles an instruction, 10 times as many as a permutation.)
struct KeptBits {
  std::uint64_t kept;
  std::uint64_t second;  // clears the lowest bit of each nibble; no nibble borrows from one that is kept
};
template <typename Word>
KeptBits load_kept(const std::uint8_t* p) {
  Word kept;
  std::memcpy(&kept, p, sizeof(kept));
  return {kept, kept & (kept - static_cast<Word>(0x1111111111111111))};
}

// Value index of the first one kept for each of 64 columns; vectors of wider lanes take a part of it.
struct FirstKeptIndex {
  alignas(64) std::uint8_t bytes[64];
  alignas(64) std::uint16_t words[64];
  alignas(64) std::uint32_t doublewords[32];
  constexpr FirstKeptIndex() : bytes{}, words{}, doublewords{} {
    for (unsigned column = 0; column < 64; ++column) {
      bytes[column] = static_cast<std::uint8_t>(column / 4 * 2);
      words[column] = static_cast<std::uint16_t>(column / 4 * 2);
      if (column < 32) doublewords[column] = column / 4 * 2;
    }
  }
};
constexpr FirstKeptIndex kFirstKept;

// `first`, `one`: kFirstKept's indices of the columns, and ones.
inline __m512i spread_bytes(KeptBits bits, __m512i first, __m512i one, __m512i values) {
  const __m512i index = _mm512_mask_add_epi8(first, bits.second, first, one);
  return _mm512_maskz_permutexvar_epi8(bits.kept, index, values);
}
// Columns 32 kHalf ... 32 kHalf + 31.
template <int kHalf>
__m512i spread_words(KeptBits bits, __m512i first, __m512i one, __m512i values) {
  const auto second = static_cast<__mmask32>(bits.second >> (32 * kHalf));
  const __m512i index = _mm512_mask_add_epi16(first, second, first, one);
  return _mm512_maskz_permutexvar_epi16(static_cast<__mmask32>(bits.kept >> (32 * kHalf)), index, values);
}
// Columns 16 kHalf ... 16 kHalf + 15.
template <int kHalf>
__m512 spread_floats(KeptBits bits, __m512 values) {
  const __m512i first = _mm512_load_si512(kFirstKept.doublewords + 16 * kHalf);
  const auto second = static_cast<__mmask16>(bits.second >> (16 * kHalf));
  const __m512i index = _mm512_mask_add_epi32(first, second, first, _mm512_set1_epi32(1));
  return _mm512_maskz_permutexvar_ps(static_cast<__mmask16>(bits.kept >> (16 * kHalf)), index, values);
}
inline __m256i load256(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }

struct FloatCompute {
  using Acc = __m512;
  using In = __m512;
  using Element = float;
  struct Constants {};
  static constexpr int kLanes = 16;
  static constexpr int kVectors = 2;
  static constexpr int kStep = kLanes * kVectors;
  static constexpr float kFloat8Unit = 256.0f;  // a decoded float8 is the value divided by this

  static Acc zero() { return _mm512_setzero_ps(); }
  static In load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, In v) { _mm512_storeu_ps(p, v); }
  static Acc dot(Acc acc, In w, In x) { return _mm512_fmadd_ps(w, x, acc); }
  static void sum4(Acc a, Acc b, Acc c, Acc d, float* out) { Simd::sum4(a, b, c, d, out); }

  // 32 elements of 16 bits.
  static void widen(BFloat16, __m512i bits, In* out) {
    out[0] = Simd::from_bfloat16(_mm512_castsi512_si256(bits));
    out[1] = Simd::from_bfloat16(_mm512_extracti64x4_epi64(bits, 1));
  }
  static void widen(Float16, __m512i bits, In* out) {
    out[0] = _mm512_cvtph_ps(_mm512_castsi512_si256(bits));
    out[1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(bits, 1));
  }
  // 32 float8 -> float16 bits of the value / 256 -> float. Exact: float8 has 4 exponent bits of bias 7,
  // float16 has 5 of bias 15; subnormals are kept.
  static void widen(Float8, __m256i bytes, In* out) {
    const __m512i shifted = _mm512_slli_epi16(_mm512_cvtepi8_epi16(bytes), 7);
    widen(Float16{}, _mm512_and_si512(shifted, _mm512_set1_epi16(static_cast<short>(0xbf80))), out);
  }

  static void decode(const Constants&, const float* w, In* out) {
    out[0] = _mm512_loadu_ps(w);
    out[1] = _mm512_loadu_ps(w + 16);
  }
  template <typename W>
  static void decode(const Constants&, const W* w, In* out) {
    widen(W{}, _mm512_loadu_si512(w), out);
  }
  static void decode(const Constants&, const Float8* w, In* out) { widen(Float8{}, load256(w), out); }

  static void decode_24(const Constants&, const float* w, const std::uint8_t* mask, In* out) {
    const KeptBits bits = load_kept<std::uint32_t>(mask);
    const __m512 values = _mm512_loadu_ps(w);
    out[0] = spread_floats<0>(bits, values);
    out[1] = spread_floats<1>(bits, values);
  }
  template <typename W>
  static void decode_24(const Constants&, const W* w, const std::uint8_t* mask, In* out) {
    const __m512i first = _mm512_load_si512(kFirstKept.words);
    const __m512i values = _mm512_castsi256_si512(load256(w));
    widen(W{}, spread_words<0>(load_kept<std::uint32_t>(mask), first, _mm512_set1_epi16(1), values), out);
  }
  static void decode_24(const Constants&, const Float8* w, const std::uint8_t* mask, In* out) {
    const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(w));
    const __m512i first = _mm512_load_si512(kFirstKept.bytes);
    const __m512i bytes = spread_bytes(load_kept<std::uint32_t>(mask), first, _mm512_set1_epi8(1),
                                       _mm512_castsi128_si512(values));
    widen(Float8{}, _mm512_castsi512_si256(bytes), out);
  }
};

// High and low byte of the bfloat16 of each float8 without its sign.
struct Float8ToBFloat16Table {
  alignas(64) std::uint8_t high[128];
  alignas(64) std::uint8_t low[128];
  constexpr Float8ToBFloat16Table() : high{}, low{} {
    for (unsigned code = 0; code < 128; ++code) {
      unsigned exponent = code >> 3;
      unsigned mantissa = code & 7;
      unsigned bits = 0;
      if (code == 127) {
        bits = 0x7fc0;
      } else if (exponent != 0) {
        bits = ((exponent + 120) << 7) | (mantissa << 4);
      } else if (mantissa != 0) {  // mantissa * 2^-9: shift the leading bit to the hidden place
        exponent = 121;
        while ((mantissa & 8) == 0) {
          mantissa <<= 1;
          --exponent;
        }
        bits = (exponent << 7) | ((mantissa & 7) << 4);
      }
      high[code] = static_cast<std::uint8_t>(bits >> 8);
      low[code] = static_cast<std::uint8_t>(bits & 0xff);
    }
  }
};
constexpr Float8ToBFloat16Table kFloat8Table;

// Pairs of bfloat16, columns of a step as they lie in memory: for bfloat16 weights.
struct PairCompute {
  using Acc = __m512;
  using In = __m512i;  // 32 bfloat16
  using Element = BFloat16;
  using Weight = BFloat16;
  static constexpr int kLanes = 32;
  static constexpr int kVectors = 2;
  static constexpr int kStep = kLanes * kVectors;
  static constexpr float kFloat8Unit = 1.0f;

  static Acc zero() { return _mm512_setzero_ps(); }
  static In load(const BFloat16* p) { return _mm512_loadu_si512(p); }
  static void store(BFloat16* p, In v) { _mm512_storeu_si512(p, v); }
  static Acc dot(Acc acc, In w, In x) { return _mm512_dpbf16_ps(acc, (__m512bh)w, (__m512bh)x); }
  static void sum4(Acc a, Acc b, Acc c, Acc d, float* out) { Simd::sum4(a, b, c, d, out); }

  // Constructors are written out: the compiler's own would not belong to the instruction-set region.
  struct Constants {
    __m512i first[2], one;
    Constants()
        : first{in_register(kFirstKept.words), in_register(kFirstKept.words + 32)},
          one(in_register(_mm512_set1_epi16(1))) {}
  };

  static void decode(const Constants&, const BFloat16* w, In* out) {
    out[0] = _mm512_loadu_si512(w);
    out[1] = _mm512_loadu_si512(w + 32);
  }
  static void decode_24(const Constants& c, const BFloat16* w, const std::uint8_t* mask, In* out) {
    const KeptBits bits = load_kept<std::uint64_t>(mask);
    const __m512i values = _mm512_loadu_si512(w);
    out[0] = spread_words<0>(bits, c.first[0], c.one, values);
    out[1] = spread_words<1>(bits, c.first[1], c.one, values);
  }
};

// float8 -> high and low byte of the bfloat16, right for normal numbers, as matrices over bits (GFNI): a byte
// of a matrix says which bits of the float8 make one of the result's, from the highest on.
constexpr std::uint64_t bit_matrix(std::array<int, 8> sources) {  // of result bits 7 ... 0; -1: none
  std::uint64_t matrix = 0;
  for (unsigned i = 0; i < 8; ++i) {
    if (sources[i] >= 0) matrix |= std::uint64_t{1} << (8 * i + static_cast<unsigned>(sources[i]));
  }
  return matrix;
}
// The exponent e becomes e + 120: the upper seven bits are e bit 3, four times its opposite, and e bits 2, 1.
constexpr std::uint64_t kHighByte = bit_matrix({7, 6, 6, 6, 6, 6, 5, 4});
constexpr int kHighByteFlips = 0x3c;
constexpr std::uint64_t kLowByte = bit_matrix({3, 2, 1, 0, -1, -1, -1, -1});

// The same for float8 weights, which become bfloat16, exactly. Columns of a step in the order in which bytes
// are unpacked: eight for the first vector, eight for the second, and so on, as 128-bit lanes have it.
struct Float8PairCompute : PairCompute {
  using Weight = Float8;

  struct Constants {
    __m512i first, one, high, low, exponent, mantissa;
    Constants()
        : first(in_register(kFirstKept.bytes)),
          one(in_register(_mm512_set1_epi8(1))),
          high(in_register(_mm512_set1_epi64(static_cast<long long>(kHighByte)))),
          low(in_register(_mm512_set1_epi64(static_cast<long long>(kLowByte)))),
          exponent(in_register(_mm512_set1_epi8(0x78))),
          mantissa(in_register(_mm512_set1_epi8(0x07))) {}
  };

  // 64 float8 -> 64 bfloat16 by two lookups that ignore the sign, then the sign, then interleave.
  static void widen_any(__m512i bytes, In* out) {
    const __m512i low = _mm512_permutex2var_epi8(_mm512_load_si512(kFloat8Table.low), bytes,
                                                 _mm512_load_si512(kFloat8Table.low + 64));
    const __m512i high = _mm512_permutex2var_epi8(_mm512_load_si512(kFloat8Table.high), bytes,
                                                  _mm512_load_si512(kFloat8Table.high + 64));
    const __m512i sign = _mm512_set1_epi8(static_cast<char>(0x80));
    interleave(low, _mm512_ternarylogic_epi64(high, bytes, sign, 0xf8), out);  // high | (bytes & sign)
  }
  // The same, faster where all are normal numbers or zero, as nearly all weights are (where one in a hundred
  // is zero, half of the vectors hold one: a branch on that would be guessed wrong). NaN becomes 480.
  static void widen(const Constants& c, __m512i bytes, In* out) {
    const __mmask64 normal = _mm512_test_epi8_mask(bytes, c.exponent);
    const __mmask64 fraction = _mm512_test_epi8_mask(bytes, c.mantissa);
    if (_ktestc_mask64_u8(normal, fraction) == 0) [[unlikely]]  // a fraction where no exponent is
      return widen_any(bytes, out);
    interleave(_mm512_maskz_gf2p8affine_epi64_epi8(normal, bytes, c.low, 0),
               _mm512_maskz_gf2p8affine_epi64_epi8(normal, bytes, c.high, kHighByteFlips), out);
  }

  // The same, faster still where none is zero either.
  static void widen_kept(const Constants& c, __m512i bytes, In* out) {
    if (_mm512_testn_epi8_mask(bytes, c.exponent) != 0) [[unlikely]]
      return widen(c, bytes, out);
    interleave(_mm512_gf2p8affine_epi64_epi8(bytes, c.low, 0),
               _mm512_gf2p8affine_epi64_epi8(bytes, c.high, kHighByteFlips), out);
  }

  static void decode(const Constants& c, const Float8* w, In* out) {
    widen(c, in_register(_mm512_loadu_si512(w)), out);  // or it would be loaded three times
  }
  static void decode_24(const Constants& c, const Float8* w, const std::uint8_t* mask, In* out) {
    const __m512i values = _mm512_castsi256_si512(load256(w));
    widen(c, spread_bytes(load_kept<std::uint64_t>(mask), c.first, c.one, values), out);
  }
  // Tokens.
  static void decode(const Constants&, const BFloat16* x, In* out) {
    const __m512i low = _mm512_loadu_si512(x);
    const __m512i high = _mm512_loadu_si512(x + 32);
    out[0] = _mm512_permutex2var_epi64(low, _mm512_set_epi64(13, 12, 9, 8, 5, 4, 1, 0), high);
    out[1] = _mm512_permutex2var_epi64(low, _mm512_set_epi64(15, 14, 11, 10, 7, 6, 3, 2), high);
  }

 private:
  static void interleave(__m512i low, __m512i high, In* out) {
    out[0] = _mm512_unpacklo_epi8(low, high);
    out[1] = _mm512_unpackhi_epi8(low, high);
  }
};

// Float8 tokens for bfloat16 weights, in the weights' order.
struct Float8TokensPairCompute : PairCompute {
  struct Constants : Float8PairCompute::Constants {
    __m512i order;
    Constants() : order(in_register(_mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0))) {}
  };
  static void decode(const Constants& c, const Float8* x, In* out) {
    Float8PairCompute::widen(c, _mm512_permutexvar_epi64(c.order, _mm512_loadu_si512(x)), out);
  }
};

// What a pair class decodes, split into floats of the even and of the odd columns: for CPUs that multiply
// floats faster than pairs. (On Sapphire Rapids vdpbf16ps starts every second cycle, vfmadd231ps twice a
// cycle: 32 and 64 products in two cycles.)
template <typename Pairs>
struct SplitCompute {
  using Acc = __m512;
  using In = __m512;
  using Element = float;
  using Weight = typename Pairs::Weight;
  using Constants = typename Pairs::Constants;
  static constexpr int kLanes = 16;
  static constexpr int kVectors = 2 * Pairs::kVectors;
  static constexpr int kStep = Pairs::kStep;
  static constexpr float kFloat8Unit = Pairs::kFloat8Unit;

  static Acc zero() { return _mm512_setzero_ps(); }
  static In load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, In v) { _mm512_storeu_ps(p, v); }
  static Acc dot(Acc acc, In w, In x) { return _mm512_fmadd_ps(w, x, acc); }
  static void sum4(Acc a, Acc b, Acc c, Acc d, float* out) { Simd::sum4(a, b, c, d, out); }

  template <typename X>
  static void decode(const Constants& c, const X* x, In* out) {
    typename Pairs::In v[Pairs::kVectors];
    Pairs::decode(c, x, v);
    split(v, out);
  }
  static void decode_24(const Constants& c, const Weight* w, const std::uint8_t* mask, In* out) {
    typename Pairs::In v[Pairs::kVectors];
    Pairs::decode_24(c, w, mask, v);
    split(v, out);
  }

 private:
  static void split(const typename Pairs::In* v, In* out) {
    for (int i = 0; i < Pairs::kVectors; ++i) {
      out[2 * i] = _mm512_castsi512_ps(_mm512_slli_epi32(v[i], 16));
      out[2 * i + 1] = _mm512_castsi512_ps(_mm512_and_si512(v[i], _mm512_set1_epi32(-65536)));
    }
  }
};

}  // namespace
}  // namespace grille::kernels
