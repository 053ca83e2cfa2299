// Vector primitives in plain C++: four floats, which compilers map to the baseline's registers.
#pragma once

namespace grille::kernels {
namespace {

struct Simd {
  static constexpr int kLanes = 4;
  struct Vec {
    float lane[kLanes];
  };

  template <typename F>
  static Vec map(F&& f) {
    Vec r;
    for (int i = 0; i < kLanes; ++i) r.lane[i] = f(i);
    return r;
  }

  static Vec zero() { return Vec{}; }
  static Vec set1(float v) {
    return map([&](int) { return v; });
  }
  static Vec load(const float* p) {
    return map([&](int i) { return p[i]; });
  }
  static Vec load(const BFloat16* p) {
    return map([&](int i) { return bfloat16_to_float(p[i].bits); });
  }
  static Vec load(const Float16* p) {
    return map([&](int i) { return float16_to_float(p[i].bits); });
  }
  static void store(float* p, Vec v) { std::memcpy(p, v.lane, sizeof(v.lane)); }
  static void store(BFloat16* p, Vec v) {
    for (int i = 0; i < kLanes; ++i) p[i].bits = float_to_bfloat16(v.lane[i]);
  }
  static void store(Float16* p, Vec v) {
    for (int i = 0; i < kLanes; ++i) p[i].bits = float_to_float16(v.lane[i]);
  }

  // Rounded to nearest even, saturated to +-448, -0 as +0.
  static void store(Float8* p, Vec v) {
    for (int i = 0; i < kLanes; ++i) p[i].bits = formats::float_to_fp8(v.lane[i]);
  }

  static Vec add(Vec a, Vec b) {
    return map([&](int i) { return a.lane[i] + b.lane[i]; });
  }
  static Vec sub(Vec a, Vec b) {
    return map([&](int i) { return a.lane[i] - b.lane[i]; });
  }
  static Vec mul(Vec a, Vec b) {
    return map([&](int i) { return a.lane[i] * b.lane[i]; });
  }
  static Vec div(Vec a, Vec b) {
    return map([&](int i) { return a.lane[i] / b.lane[i]; });
  }
  static Vec fma(Vec a, Vec b, Vec c) {
    return map([&](int i) { return a.lane[i] * b.lane[i] + c.lane[i]; });
  }
  static Vec max(Vec a, Vec b) {
    return map([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  static Vec min(Vec a, Vec b) {
    return map([&](int i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  static Vec abs(Vec a) {
    return map([&](int i) { return std::fabs(a.lane[i]); });
  }
  static Vec round(Vec a) {
    return map([&](int i) { return std::nearbyint(a.lane[i]); });
  }
  // a * 2^n for integral n in [-126, 127].
  static Vec scale_by_power(Vec a, Vec n) {
    return map([&](int i) {
      return a.lane[i] * std::bit_cast<float>((static_cast<std::int32_t>(n.lane[i]) + 127) << 23);
    });
  }
  static float sum(Vec a) { return (a.lane[0] + a.lane[1]) + (a.lane[2] + a.lane[3]); }
  static float largest(Vec a) {
    return std::max(std::max(a.lane[0], a.lane[1]), std::max(a.lane[2], a.lane[3]));
  }
  // out[i] = sum(v_i).
  static void sum4(Vec a, Vec b, Vec c, Vec d, float* out) {
    out[0] = sum(a);
    out[1] = sum(b);
    out[2] = sum(c);
    out[3] = sum(d);
  }
  // Rows <-> columns.
  static void transpose(Vec* rows) {
    for (int i = 0; i < kLanes; ++i) {
      for (int j = 0; j < i; ++j) std::swap(rows[i].lane[j], rows[j].lane[i]);
    }
  }
  static void prefetch_far(const void*) {}
};

// How matmul decodes weights: kStep columns at a time into kVectors vectors.
struct FloatCompute {
  using Acc = Simd::Vec;
  using In = Simd::Vec;
  using Element = float;
  struct Constants {};
  static constexpr int kLanes = Simd::kLanes;
  static constexpr int kVectors = 2;
  static constexpr int kStep = kLanes * kVectors;
  static constexpr float kFloat8Unit = 1.0f;  // a decoded float8 is the value divided by this

  static Acc zero() { return Simd::zero(); }
  static In load(const float* p) { return Simd::load(p); }
  static void store(float* p, In v) { Simd::store(p, v); }
  static Acc dot(Acc acc, In w, In x) { return Simd::fma(w, x, acc); }
  static void sum4(Acc a, Acc b, Acc c, Acc d, float* out) { Simd::sum4(a, b, c, d, out); }

  static float decode_one(float v) { return v; }
  static float decode_one(BFloat16 v) { return bfloat16_to_float(v.bits); }
  static float decode_one(Float16 v) { return float16_to_float(v.bits); }
  static float decode_one(Float8 v) { return formats::fp8_to_float(v.bits); }

  template <typename W>
  static void decode(const Constants&, const W* w, In* out) {
    for (int i = 0; i < kStep; ++i) out[i / kLanes].lane[i % kLanes] = decode_one(w[i]);
  }
  template <typename W>
  static void decode_24(const Constants&, const W* w, const std::uint8_t* mask, In* out) {
    const unsigned bits = *mask;
    int next = 0;
    for (int i = 0; i < kStep; ++i) {
      const bool kept = ((bits >> i) & 1u) != 0 && next < kStep / 2;
      out[i / kLanes].lane[i % kLanes] = kept ? decode_one(w[next]) : 0.0f;
      next += kept;
    }
  }
};

}  // namespace
}  // namespace grille::kernels
