// Operations on single rows, once for all instruction sets. After exp-inl.h and partial-inl.h.
#pragma once

namespace grille::kernels {
namespace {

float largest_magnitude(DType dtype, const void* data, std::int64_t count) {
  Simd::Vec largest = Simd::zero();
  Simd::Vec poison = Simd::zero();  // infinity * 0 and NaN * 0 are NaN, and stay in a sum
  with_float_type(dtype, [&](auto type) {
    const auto* x = static_cast<const decltype(type)*>(data);
    for_each_vector(count, [&](auto load, auto) {
      const Simd::Vec v = load(x);
      largest = Simd::max(largest, Simd::abs(v));
      poison = Simd::fma(v, Simd::zero(), poison);
    });
  });
  return Simd::largest(largest) + Simd::sum(poison);
}

std::int64_t round_to_fp8(DType dtype, const void* data, std::int64_t count, float scale,
                          std::uint8_t* codes) {
  const Simd::Vec divisor = Simd::set1(scale);
  auto* q = reinterpret_cast<Float8*>(codes);
  Simd::Vec largest = Simd::zero();
  with_float_type(dtype, [&](auto type) {
    const auto* x = static_cast<const decltype(type)*>(data);
    for_each_vector(count, [&](auto load, auto store) {
      const Simd::Vec v = Simd::div(load(x), divisor);
      largest = Simd::max(largest, Simd::abs(v));
      store(q, v);
    });
  });
  constexpr float kLargestRounded = 464.0f;  // halfway to the next step after 448
  if (Simd::largest(largest) <= kLargestRounded) return 0;
  std::int64_t saturated = 0;
  with_float_type(dtype, [&](auto type) {
    const auto* x = static_cast<const decltype(type)*>(data);
    for_each_vector(count, [&](auto load, auto) {
      float lanes[Simd::kLanes];
      Simd::store(lanes, Simd::abs(Simd::div(load(x), divisor)));
      for (float lane : lanes) saturated += lane > kLargestRounded;
    });
  });
  return saturated;
}

// v rounded to T.
template <typename T>
Simd::Vec rounded(Simd::Vec v) {
  T lanes[Simd::kLanes];
  Simd::store(lanes, v);
  return Simd::load(lanes);
}

void rms_norm(DType dtype, const void* in, const float* weight, float eps, std::int64_t count, void* out) {
  with_float_type(dtype, [&](auto type) {
    using T = decltype(type);
    const auto* x = static_cast<const T*>(in);
    auto* y = static_cast<T*>(out);
    Simd::Vec squares = Simd::zero();
    for_each_vector(count, [&](auto load, auto) {
      const Simd::Vec v = load(x);
      squares = Simd::fma(v, v, squares);
    });
    const float mean = Simd::sum(squares) / static_cast<float>(count);
    const Simd::Vec factor = Simd::set1(1.0f / std::sqrt(mean + eps));
    for_each_vector(count, [&](auto load, auto store) {
      store(y, Simd::mul(load(weight), rounded<T>(Simd::mul(load(x), factor))));
    });
  });
}

void silu_mul(DType dtype, const void* gates, const void* ups, std::int64_t count, void* out) {
  const Simd::Vec one = Simd::set1(1.0f);
  with_float_type(dtype, [&](auto type) {
    using T = decltype(type);
    const auto* gate = static_cast<const T*>(gates);
    const auto* up = static_cast<const T*>(ups);
    for_each_vector(count, [&](auto load, auto store) {
      const Simd::Vec g = load(gate);
      const Simd::Vec silu = Simd::div(g, Simd::add(one, exp(Simd::sub(Simd::zero(), g))));
      store(static_cast<T*>(out), Simd::mul(silu, load(up)));
    });
  });
}

void rope(DType dtype, void* data, std::int64_t half, const float* cos, const float* sin) {
  with_float_type(dtype, [&](auto type) {
    auto* first = static_cast<decltype(type)*>(data);
    auto* second = first + half;
    for_each_vector(half, [&](auto load, auto store) {
      const Simd::Vec a = load(first), b = load(second), c = load(cos), s = load(sin);
      store(first, Simd::sub(Simd::mul(a, c), Simd::mul(b, s)));
      store(second, Simd::fma(a, s, Simd::mul(b, c)));
    });
  });
}

void convert(DType from, const void* in, std::int64_t count, DType to, void* out) {
  with_float_type(from, [&](auto x_type) {
    with_float_type(to, [&](auto y_type) {
      const auto* x = static_cast<const decltype(x_type)*>(in);
      auto* y = static_cast<decltype(y_type)*>(out);
      for_each_vector(count, [&](auto load, auto store) { store(y, load(x)); });
    });
  });
}

// Values of which the largest is looked for, or exponentials are summed, in fp32 lanes at a time.
constexpr std::int64_t kBlock = 64 * Simd::kLanes;

// NaN if one of the `count` values is NaN.
float largest_value(const float* x, std::int64_t count) {
  float largest = x[0];
  bool nan = false;
  std::int64_t i = 0;
  if (count >= Simd::kLanes) {
    const Simd::Vec lowest = Simd::set1(std::numeric_limits<float>::lowest());
    Simd::Vec top = Simd::load(x);
    Simd::Vec poison = Simd::zero();  // NaN * 0 stays in a sum; -infinity is raised first
    for (; i + Simd::kLanes <= count; i += Simd::kLanes) {
      const Simd::Vec v = Simd::load(x + i);
      top = Simd::max(top, v);
      poison = Simd::fma(Simd::max(lowest, v), Simd::zero(), poison);  // max(a, NaN) is NaN
    }
    largest = Simd::largest(top);
    const float sum = Simd::sum(poison);
    nan = sum != sum && largest < std::numeric_limits<float>::infinity();
  }
  for (; i < count; ++i) {
    largest = std::max(largest, x[i]);
    nan = nan || x[i] != x[i];
  }
  return nan ? std::numeric_limits<float>::quiet_NaN() : largest;
}

std::int64_t argmax(const float* x, std::int64_t count) {
  std::int64_t best = 0;  // the block
  float largest = -std::numeric_limits<float>::infinity();
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const float top = largest_value(x + begin, std::min(kBlock, count - begin));
    if (top != top) return -1;
    if (top > largest) best = begin;
    largest = std::max(largest, top);
  }
  return std::find(x + best, x + count, largest) - x;
}

double sum_exp(const float* x, std::int64_t count, float shift) {
  const Simd::Vec shifts = Simd::set1(shift);
  double total = 0.0;
  std::int64_t i = 0;
  while (i + Simd::kLanes <= count) {
    const std::int64_t end = std::min(i + kBlock, count);
    Simd::Vec sum = Simd::zero();
    for (; i + Simd::kLanes <= end; i += Simd::kLanes)
      sum = Simd::add(sum, exp(Simd::sub(Simd::load(x + i), shifts)));
    total += static_cast<double>(Simd::sum(sum));
  }
  for (; i < count; ++i) total += std::exp(static_cast<double>(x[i]) - static_cast<double>(shift));
  return total;
}

constexpr RowKernels kRowKernels = {largest_magnitude, round_to_fp8, rms_norm, silu_mul, rope,
                                    convert,           argmax,       sum_exp};

}  // namespace
}  // namespace grille::kernels
