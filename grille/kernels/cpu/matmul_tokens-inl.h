// Tokens as the inner loops read them: [token tile][k step][token of the tile][kStep columns], zero-padded to
// whole steps. After matmul_rows-inl.h.
#pragma once

namespace grille::kernels {
namespace {

template <typename C, typename X>
void pack_tile(const ConstMatrixView& x, std::int64_t first, std::int64_t tokens,
               typename C::Element* packed) {
  const typename C::Constants constants;
  const std::int64_t steps = step_count<C>(x.cols);
  for (std::int64_t t = 0; t < tokens; ++t) {
    const auto* row = reinterpret_cast<const X*>(x.row(first + t));
    typename C::Element* out = packed + t * C::kStep;
    for (std::int64_t step = 0; step < steps; ++step, out += tokens * C::kStep) {
      const X* in = row + step * C::kStep;
      const std::int64_t left = x.cols - step * C::kStep;
      X tail[C::kStep] = {};
      if (left < C::kStep) {
        std::memcpy(tail, in, static_cast<std::size_t>(left) * sizeof(X));
        in = tail;
      }
      typename C::In v[C::kVectors];
      C::decode(constants, in, v);
      for (int i = 0; i < C::kVectors; ++i) C::store(out + i * C::kLanes, v[i]);
    }
  }
}

template <typename C, typename X>
void pack_tiles(const ConstMatrixView& x, const MatmulPlan& plan, std::int64_t begin, std::int64_t end,
                void* packed) {
  const std::int64_t row_elements = step_count<C>(x.cols) * C::kStep;
  for (std::int64_t tile = begin; tile < end; ++tile) {
    const std::int64_t first = tile * plan.token_tile;
    pack_tile<C, X>(x, first, std::min<std::int64_t>(plan.token_tile, x.rows - first),
                    static_cast<typename C::Element*>(packed) + first * row_elements);
  }
}

template <typename C>
std::int64_t packed_size(const ConstMatrixView& x) {
  return x.rows * step_count<C>(x.cols) * C::kStep * static_cast<std::int64_t>(sizeof(typename C::Element));
}

// Tokens of any dtype for the float32 class.
inline void pack_float(const ConstMatrixView& x, const MatmulPlan& plan, std::int64_t begin, std::int64_t end,
                       void* packed) {
  with_element_type(
      x.dtype, [&](auto type) { pack_tiles<FloatCompute, decltype(type)>(x, plan, begin, end, packed); });
}

}  // namespace
}  // namespace grille::kernels
