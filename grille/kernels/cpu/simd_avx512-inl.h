// Vector primitives for AVX-512 (F, BW, DQ, VL, VBMI, VBMI2, BF16). Included inside an instruction-set
// region.
#pragma once

namespace grille::kernels {
namespace {

struct Simd {
  static constexpr int kLanes = 16;
  using Vec = __m512;

  static Vec zero() { return _mm512_setzero_ps(); }
  static Vec set1(float v) { return _mm512_set1_ps(v); }
  static __m512 from_bfloat16(__m256i bits) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  }
  static Vec load(const float* p) { return _mm512_loadu_ps(p); }
  static Vec load(const BFloat16* p) {
    return from_bfloat16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static Vec load(const Float16* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static void store(float* p, Vec v) { _mm512_storeu_ps(p, v); }
  // Not vcvtneps2bf16, which flushes subnormals.
  static __m256i to_bfloat16(Vec v) {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    const __m512i fixed = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(fixed, 16));
  }
  static void store(BFloat16* p, Vec v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), to_bfloat16(v));
  }
  static void store(Float16* p, Vec v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }

  // Rounded to nearest even, saturated to +-448, -0 as +0. No NaN.
  static void store(Float8* p, Vec v) {
    const __m512 magnitude = min(abs(v), set1(448.0f));
    const __m512i bits = _mm512_castps_si512(magnitude);
    // From 2^-6 on: keep 3 of 23 mantissa bits, move the exponent's bias from 127 to 7.
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 20), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7ffff)));
    const __m512i normal = _mm512_sub_epi32(_mm512_srli_epi32(rounded, 20), _mm512_set1_epi32(120 << 3));
    // Below: a multiple of 2^-9, which adding 2^14 rounds to.
    const __m512i sum = _mm512_castps_si512(_mm512_add_ps(magnitude, set1(16384.0f)));
    const __m512i subnormal = _mm512_sub_epi32(sum, _mm512_castps_si512(set1(16384.0f)));
    const __mmask16 small = _mm512_cmp_ps_mask(magnitude, set1(0x1p-6f), _CMP_LT_OQ);
    const __m512i code = _mm512_mask_blend_epi32(small, normal, subnormal);
    const __mmask16 signed_lanes =
        _mm512_movepi32_mask(_mm512_castps_si512(v)) & _mm512_test_epi32_mask(code, code);
    const __m512i result = _mm512_mask_or_epi32(code, signed_lanes, code, _mm512_set1_epi32(0x80));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(result));
  }

  static Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
  static Vec sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
  static Vec mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
  static Vec div(Vec a, Vec b) { return _mm512_div_ps(a, b); }
  static Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
  static Vec max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
  static Vec min(Vec a, Vec b) { return _mm512_min_ps(a, b); }
  static Vec abs(Vec a) { return _mm512_abs_ps(a); }
  static Vec round(Vec a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  // a * 2^n for integral n.
  static Vec scale_by_power(Vec a, Vec n) { return _mm512_scalef_ps(a, n); }
  static float sum(Vec a) { return _mm512_reduce_add_ps(a); }
  static float largest(Vec a) { return _mm512_reduce_max_ps(a); }
  // out[i] = sum(v_i).
  static void sum4(Vec a, Vec b, Vec c, Vec d, float* out) {
    const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    const __m512 abcd = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(abcd), _mm512_extractf32x8_ps(abcd, 1));
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
  }
  // Rows <-> columns.
  static void transpose(Vec* rows) {
    Vec pairs[16], quads[16], halves[16];
    for (int i = 0; i < 16; i += 2) {
      pairs[i] = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
      pairs[i + 1] = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
      quads[i] = _mm512_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
      quads[i + 1] = _mm512_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
      quads[i + 2] = _mm512_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
      quads[i + 3] = _mm512_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
    }
    // quads[4 g + c], 128-bit lane l: column 4 l + c of rows 4 g ... 4 g + 3.
    for (int c = 0; c < 4; ++c) {
      halves[c] = _mm512_shuffle_f32x4(quads[c], quads[4 + c], 0x88);      // lanes 0, 2 of groups 0, 1
      halves[4 + c] = _mm512_shuffle_f32x4(quads[c], quads[4 + c], 0xdd);  // lanes 1, 3
      halves[8 + c] = _mm512_shuffle_f32x4(quads[8 + c], quads[12 + c], 0x88);
      halves[12 + c] = _mm512_shuffle_f32x4(quads[8 + c], quads[12 + c], 0xdd);
    }
    for (int c = 0; c < 4; ++c) {
      rows[c] = _mm512_shuffle_f32x4(halves[c], halves[8 + c], 0x88);
      rows[8 + c] = _mm512_shuffle_f32x4(halves[c], halves[8 + c], 0xdd);
      rows[4 + c] = _mm512_shuffle_f32x4(halves[4 + c], halves[12 + c], 0x88);
      rows[12 + c] = _mm512_shuffle_f32x4(halves[4 + c], halves[12 + c], 0xdd);
    }
  }
  static void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
  // Not into the first-level cache.
  static void prefetch_far(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }
};

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

inline __m512i spread_bytes(KeptBits bits, __m512i values) {
  const __m512i first = _mm512_load_si512(kFirstKept.bytes);
  const __m512i index = _mm512_mask_add_epi8(first, bits.second, first, _mm512_set1_epi8(1));
  return _mm512_maskz_permutexvar_epi8(bits.kept, index, values);
}
// Columns 32 kHalf ... 32 kHalf + 31.
template <int kHalf>
__m512i spread_words(KeptBits bits, __m512i values) {
  const __m512i first = _mm512_load_si512(kFirstKept.words + 32 * kHalf);
  const auto second = static_cast<__mmask32>(bits.second >> (32 * kHalf));
  const __m512i index = _mm512_mask_add_epi16(first, second, first, _mm512_set1_epi16(1));
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

  static void decode(const float* w, In* out) {
    out[0] = _mm512_loadu_ps(w);
    out[1] = _mm512_loadu_ps(w + 16);
  }
  template <typename W>
  static void decode(const W* w, In* out) {
    widen(W{}, _mm512_loadu_si512(w), out);
  }
  static void decode(const Float8* w, In* out) { widen(Float8{}, load256(w), out); }

  static void decode_24(const float* w, const std::uint8_t* mask, In* out) {
    const KeptBits bits = load_kept<std::uint32_t>(mask);
    const __m512 values = _mm512_loadu_ps(w);
    out[0] = spread_floats<0>(bits, values);
    out[1] = spread_floats<1>(bits, values);
  }
  template <typename W>
  static void decode_24(const W* w, const std::uint8_t* mask, In* out) {
    widen(W{}, spread_words<0>(load_kept<std::uint32_t>(mask), _mm512_castsi256_si512(load256(w))), out);
  }
  static void decode_24(const Float8* w, const std::uint8_t* mask, In* out) {
    const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(w));
    const __m512i bytes = spread_bytes(load_kept<std::uint32_t>(mask), _mm512_castsi128_si512(values));
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

struct PairCompute {
  using Acc = __m512;
  using In = __m512i;  // 32 bfloat16
  using Element = BFloat16;
  static constexpr int kLanes = 32;
  static constexpr int kVectors = 2;
  static constexpr int kStep = kLanes * kVectors;
  static constexpr float kFloat8Unit = 1.0f;

  static Acc zero() { return _mm512_setzero_ps(); }
  static In load(const BFloat16* p) { return _mm512_loadu_si512(p); }
  static void store(BFloat16* p, In v) { _mm512_storeu_si512(p, v); }
  static Acc dot(Acc acc, In w, In x) { return _mm512_dpbf16_ps(acc, (__m512bh)w, (__m512bh)x); }
  static void sum4(Acc a, Acc b, Acc c, Acc d, float* out) { Simd::sum4(a, b, c, d, out); }

  // 64 float8 -> 64 bfloat16, exact: two lookups that ignore the sign, then the sign, then interleave.
  static void widen(__m512i bytes, In* out) {
    // Unpacking works within 128-bit lanes, so first bring each lane's two halves together.
    const __m512i order = _mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0);
    bytes = _mm512_permutexvar_epi64(order, bytes);
    const __m512i low = _mm512_permutex2var_epi8(_mm512_load_si512(kFloat8Table.low), bytes,
                                                 _mm512_load_si512(kFloat8Table.low + 64));
    __m512i high = _mm512_permutex2var_epi8(_mm512_load_si512(kFloat8Table.high), bytes,
                                            _mm512_load_si512(kFloat8Table.high + 64));
    const __m512i sign = _mm512_set1_epi8(static_cast<char>(0x80));
    high = _mm512_ternarylogic_epi64(high, bytes, sign, 0xf8);  // high | (bytes & sign)
    out[0] = _mm512_unpacklo_epi8(low, high);
    out[1] = _mm512_unpackhi_epi8(low, high);
  }

  static void decode(const BFloat16* w, In* out) {
    out[0] = _mm512_loadu_si512(w);
    out[1] = _mm512_loadu_si512(w + 32);
  }
  static void decode(const Float8* w, In* out) { widen(_mm512_loadu_si512(w), out); }

  static void decode_24(const BFloat16* w, const std::uint8_t* mask, In* out) {
    const KeptBits bits = load_kept<std::uint64_t>(mask);
    const __m512i values = _mm512_loadu_si512(w);
    out[0] = spread_words<0>(bits, values);
    out[1] = spread_words<1>(bits, values);
  }
  static void decode_24(const Float8* w, const std::uint8_t* mask, In* out) {
    widen(spread_bytes(load_kept<std::uint64_t>(mask), _mm512_castsi256_si512(load256(w))), out);
  }
};

}  // namespace
}  // namespace grille::kernels
