#include "grille/kernels/add_gram.h"

#include <algorithm>
#include <cmath>

#include "grille/base/error.h"
#include "grille/base/parallel.h"
#include "grille/kernels/cpu/gram_kernels.h"
#include "grille/kernels/cpu/scratch.h"

namespace grille::kernels {
namespace {

constexpr std::int64_t kTokens = 1024;  // in work at once: their panels stay in the last-level cache

// Panels a <= b of the pairs (0, 0), (0, 1), (1, 1), (0, 2), ...
struct PanelPair {
  std::int64_t a = 0;
  std::int64_t b = 0;

  explicit PanelPair(std::int64_t index) {
    b = static_cast<std::int64_t>((std::sqrt(8.0 * static_cast<double>(index) + 1.0) - 1.0) / 2.0);
    a = index - b * (b + 1) / 2;
  }
  void next() {
    if (a++ == b) {
      a = 0;
      ++b;
    }
  }
};

const GramKernels& gram_kernels() {
#if defined(__x86_64__)
  if (active_isa() >= Isa::kAvx512) return gram_kernels_avx512();
  if (active_isa() == Isa::kAvx2) return gram_kernels_avx2();
#endif
  return gram_kernels_scalar();
}

}  // namespace

void add_gram(const ConstMatrixView& x, double* gram) {
  check(x.dtype == DType::kFloat32, ErrorCode::kInvalidArgument, "add_gram: x is {}, expected float32",
        dtype_name(x.dtype));
  const GramKernels& kernels = gram_kernels();
  const std::int64_t width = kernels.panel;
  const std::int64_t panels = (x.cols + width - 1) / width;
  static thread_local Scratch scratch;
  for (std::int64_t begin = 0; begin < x.rows; begin += kTokens) {
    const std::int64_t tokens = std::min(kTokens, x.rows - begin);
    double* packed = scratch.get_as<double>(static_cast<std::size_t>(panels * width * tokens));
    const auto columns = [&](std::int64_t panel) { return std::min(width, x.cols - panel * width); };
    parallel_for(panels, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t p = first; p < last; ++p) {
        const float* source = reinterpret_cast<const float*>(x.row(begin)) + p * width;
        kernels.pack(source, x.row_stride, tokens, columns(p), packed + p * width * tokens);
      }
    });
    parallel_for(panels * (panels + 1) / 2, 4, [&](std::int64_t first, std::int64_t last) {
      PanelPair pair(first);
      for (std::int64_t i = first; i < last; ++i, pair.next()) {
        kernels.multiply(packed + pair.a * width * tokens, packed + pair.b * width * tokens, tokens,
                         gram + pair.a * width * x.cols + pair.b * width, x.cols, columns(pair.a),
                         columns(pair.b));
      }
    });
  }
}

}  // namespace grille::kernels
