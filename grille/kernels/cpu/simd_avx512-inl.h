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
  // Into the second-level cache. Not by _mm_prefetch: GCC takes a function that does nothing else for one
  // without effects, and drops its calls.
  static void prefetch_far(const void* p) {
    asm volatile("prefetcht1 %0" : : "m"(*static_cast<const char*>(p)));
  }
};

}  // namespace
}  // namespace grille::kernels
