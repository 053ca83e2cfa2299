#include "grille/kernels/pack_24_sm90.h"

#include <cmath>
#include <cstdint>
#include <cstring>

#include "grille/base/error.h"
#include "grille/kernels/cuda/pack_24_sm90.h"
#include "grille/kernels/weight_bits.h"

namespace grille::kernels {
namespace {

void check_source(const Sm90Source& w) {
  check(formats::is_sm90_dtype(w.dtype), ErrorCode::kInvalidArgument,
        "pack_24_sm90: expected bfloat16, float16, float8_e4m3fn or int8, got {}", dtype_name(w.dtype));
  check(w.rows >= 0 && w.cols >= 0 && w.cols % 4 == 0 && w.value_stride >= w.cols / 2 &&
            w.position_stride >= (w.cols + 7) / 8,
        ErrorCode::kInvalidArgument,
        "pack_24_sm90: expected [rows, cols] with cols a multiple of 4, got [{}, {}] with rows of {} values "
        "and {} "
        "position bytes",
        w.rows, w.cols, w.value_stride, w.position_stride);
}

// Values of the group that formats::pack_sm90 refused.
TwoFourViolation describe(const Sm90Source& w, const formats::Sm90Violation& seen) {
  TwoFourViolation violation;
  if (!seen.found()) return violation;
  violation.row = seen.row;
  violation.group = seen.group;
  violation.nibble = seen.nibble;
  const std::size_t size = dtype_size(w.dtype);
  for (std::size_t j = 0; j < 2; ++j) {
    std::uint32_t bits = 0;
    const auto index = static_cast<std::size_t>(seen.row * w.value_stride + 2 * seen.group) + j;
    std::memcpy(&bits, static_cast<const std::byte*>(w.values) + index * size, size);
    violation.values[j] = weight_value(weight_bits(w.dtype), bits);
  }
  return violation;
}

}  // namespace

Sm90Source sm90_source(const Pack24Sm90Args& args) {
  if (const auto* canonical = std::get_if<formats::TwoFourView>(&args.weight)) {
    return {
        canonical->values, canonical->metadata,     canonical->dtype,           canonical->rows,
        canonical->cols,   canonical->value_cols(), canonical->metadata_cols(), TwoFourPositions::kMetadata};
  }
  const auto& w = std::get<formats::TwoFourBitmaskView>(args.weight);
  return {w.values, w.mask,         w.dtype,       w.rows,
          w.cols,   w.value_stride, w.mask_stride, TwoFourPositions::kBitmask};
}

void pack_24_sm90(const Pack24Sm90Args& args) {
  const Sm90Source source = sm90_source(args);
  check_source(source);
  check(args.violation != nullptr, ErrorCode::kInvalidArgument,
        "pack_24_sm90: expected a place for the violation, got null");
  const bool empty = source.rows == 0 || source.cols == 0;
  check(empty || (source.values != nullptr && source.positions != nullptr && args.slabs != nullptr),
        ErrorCode::kInvalidArgument, "pack_24_sm90: expected data, got null");
  check(reinterpret_cast<std::uintptr_t>(args.slabs) % formats::kSm90Alignment == 0,
        ErrorCode::kInvalidArgument, "pack_24_sm90: the slabs at {} are not aligned to {} bytes", args.slabs,
        formats::kSm90Alignment);
  if (args.stream.on_cuda()) return pack_24_sm90_cuda(args);
  *args.violation = describe(
      source,
      std::visit([&](const auto& weight) { return formats::pack_sm90(weight, args.slabs); }, args.weight));
}

void check_packed_sm90(const TwoFourViolation& violation, std::string_view name) {
  if (!violation.found()) return;
  const bool legal = std::isfinite(violation.values[0]) && std::isfinite(violation.values[1]);
  if (legal) check_unpacked(violation, name);
  fail(ErrorCode::kCorruptData, "{}: row {}, group {}: kept weights {}, {}: every weight must be finite",
       name, violation.row, violation.group, violation.values[0], violation.values[1]);
}

}  // namespace grille::kernels
