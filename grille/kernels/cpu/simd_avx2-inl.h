// Vector primitives for AVX2, FMA and F16C. Included inside an instruction-set region.
#pragma once

namespace grille::kernels {
namespace {

// For each byte of a 2:4 mask: which of four values goes to each of eight columns; 4 means zero.
struct ExpandTable {
  alignas(64) std::uint8_t index[256][8];
  constexpr ExpandTable() : index{} {
    for (unsigned mask = 0; mask < 256; ++mask) {
      unsigned next = 0;
      for (unsigned column = 0; column < 8; ++column) {
        const bool kept = ((mask >> column) & 1u) != 0 && next < 4;
        index[mask][column] = static_cast<std::uint8_t>(kept ? next++ : 4);
      }
    }
  }
};
constexpr ExpandTable kExpandTable;

struct Simd {
  static constexpr int kLanes = 8;
  using Vec = __m256;

  static Vec zero() { return _mm256_setzero_ps(); }
  static Vec set1(float v) { return _mm256_set1_ps(v); }
  static Vec load(const float* p) { return _mm256_loadu_ps(p); }
  static Vec load(const BFloat16* p) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  static Vec load(const Float16* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static void store(float* p, Vec v) { _mm256_storeu_ps(p, v); }
  static void store(BFloat16* p, Vec v) {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const __m256i high = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(high, high), 0x08);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
  }
  static void store(Float16* p, Vec v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }

  // Rounded to nearest even, saturated to +-448, -0 as +0. No NaN.
  static void store(Float8* p, Vec v) {
    const __m256 magnitude = min(abs(v), set1(448.0f));
    const __m256i bits = _mm256_castps_si256(magnitude);
    // From 2^-6 on: keep 3 of 23 mantissa bits, move the exponent's bias from 127 to 7.
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 20), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7ffff)));
    const __m256i normal = _mm256_sub_epi32(_mm256_srli_epi32(rounded, 20), _mm256_set1_epi32(120 << 3));
    // Below: a multiple of 2^-9, which adding 2^14 rounds to.
    const __m256i sum = _mm256_castps_si256(_mm256_add_ps(magnitude, set1(16384.0f)));
    const __m256i subnormal = _mm256_sub_epi32(sum, _mm256_castps_si256(set1(16384.0f)));
    const __m256i small = _mm256_castps_si256(_mm256_cmp_ps(magnitude, set1(0x1p-6f), _CMP_LT_OQ));
    const __m256i code = _mm256_blendv_epi8(normal, subnormal, small);
    const __m256i sign =
        _mm256_and_si256(_mm256_srli_epi32(_mm256_castps_si256(v), 24), _mm256_set1_epi32(0x80));
    const __m256i zero = _mm256_cmpeq_epi32(code, _mm256_setzero_si256());
    const __m256i result = _mm256_or_si256(code, _mm256_andnot_si256(zero, sign));
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packus_epi32(result, result), 0x08);
    const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm_setzero_si128());
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), bytes);
  }

  static Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
  static Vec sub(Vec a, Vec b) { return _mm256_sub_ps(a, b); }
  static Vec mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
  static Vec div(Vec a, Vec b) { return _mm256_div_ps(a, b); }
  static Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
  static Vec max(Vec a, Vec b) { return _mm256_max_ps(a, b); }
  static Vec min(Vec a, Vec b) { return _mm256_min_ps(a, b); }
  static Vec abs(Vec a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
  static Vec round(Vec a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  // a * 2^n for integral n in [-126, 127].
  static Vec scale_by_power(Vec a, Vec n) {
    const __m256i exponent =
        _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    return _mm256_mul_ps(a, _mm256_castsi256_ps(exponent));
  }
  static float sum(Vec a) {
    __m128 r = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    r = _mm_add_ps(r, _mm_movehl_ps(r, r));
    return _mm_cvtss_f32(_mm_add_ss(r, _mm_movehdup_ps(r)));
  }
  static float largest(Vec a) {
    __m128 r = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    r = _mm_max_ps(r, _mm_movehl_ps(r, r));
    return _mm_cvtss_f32(_mm_max_ss(r, _mm_movehdup_ps(r)));
  }
  // out[i] = sum(v_i).
  static void sum4(Vec a, Vec b, Vec c, Vec d, float* out) {
    const __m256 r = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(r), _mm256_extractf128_ps(r, 1)));
  }
  // Rows <-> columns.
  static void transpose(Vec* rows) {
    Vec pairs[8], quads[8];
    for (int i = 0; i < 8; i += 2) {
      pairs[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
      pairs[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
      quads[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
      quads[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
      quads[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
      quads[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
    }
    for (int i = 0; i < 4; ++i) {
      rows[i] = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x20);
      rows[i + 4] = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x31);
    }
  }
  // Into the second-level cache. Not by _mm_prefetch: GCC takes a function that does nothing else for one
  // without effects, and drops its calls.
  static void prefetch_far(const void* p) {
    asm volatile("prefetcht1 %0" : : "m"(*static_cast<const char*>(p)));
  }
};

// Sixteen float8 in the low bytes of 16-bit lanes, sign-extended -> float16 bits of the value / 256.
// Exact: float8 has 4 exponent bits of bias 7, float16 has 5 of bias 15; subnormals are kept.
inline __m128i half_bits_from_float8(__m128i sign_extended) {
  return _mm_and_si128(_mm_slli_epi16(sign_extended, 7), _mm_set1_epi16(static_cast<short>(0xbf80)));
}

struct FloatCompute {
  using Acc = __m256;
  using In = __m256;
  using Element = float;
  struct Constants {};
  static constexpr int kLanes = 8;
  static constexpr int kVectors = 2;
  static constexpr int kStep = kLanes * kVectors;
  static constexpr float kFloat8Unit = 256.0f;  // a decoded float8 is the value divided by this

  static Acc zero() { return _mm256_setzero_ps(); }
  static In load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, In v) { _mm256_storeu_ps(p, v); }
  static Acc dot(Acc acc, In w, In x) { return _mm256_fmadd_ps(w, x, acc); }
  static void sum4(Acc a, Acc b, Acc c, Acc d, float* out) { Simd::sum4(a, b, c, d, out); }

  template <typename W>
  static void decode(const Constants&, const W* w, In* out) {
    out[0] = Simd::load(w);
    out[1] = Simd::load(w + 8);
  }
  static void decode(const Constants&, const Float8* w, In* out) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(w));
    out[0] = _mm256_cvtph_ps(half_bits_from_float8(_mm_cvtepi8_epi16(bytes)));
    out[1] = _mm256_cvtph_ps(half_bits_from_float8(_mm_cvtepi8_epi16(_mm_srli_si128(bytes, 8))));
  }

  // The 4 values of 8 columns, before they are spread.
  static __m128 load4(const float* p) { return _mm_loadu_ps(p); }
  static __m128 load4(const BFloat16* p) {
    const __m128i bits = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return _mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), bits));
  }
  static __m128 load4(const Float16* p) {
    return _mm_cvtph_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  }
  static __m128 load4(const Float8* p) {
    return _mm_cvtph_ps(half_bits_from_float8(_mm_cvtepi8_epi16(_mm_loadu_si32(p))));
  }
  static In spread(__m128 values, std::uint8_t mask) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(kExpandTable.index[mask]));
    return _mm256_permutevar8x32_ps(_mm256_zextps128_ps256(values), _mm256_cvtepu8_epi32(bytes));
  }
  template <typename W>
  static void decode_24(const Constants&, const W* w, const std::uint8_t* mask, In* out) {
    out[0] = spread(load4(w), mask[0]);
    out[1] = spread(load4(w + 4), mask[1]);
  }
};

}  // namespace
}  // namespace grille::kernels
