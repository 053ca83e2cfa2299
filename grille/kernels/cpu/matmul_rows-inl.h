// Weight rows as they are stored, a step at a time. After a simd_*-inl.h, inside its region.
#pragma once

namespace grille::kernels {
namespace {

template <typename C>
std::int64_t step_count(std::int64_t k) {
  return (k + C::kStep - 1) / C::kStep;
}

// A run of whole steps of some rows, which lie one stride apart: addresses of 4 rows then take 3 registers.
template <typename W>
struct RowSegment {
  const W* values = nullptr;
  std::int64_t value_stride = 0;  // elements
  const std::uint8_t* mask = nullptr;
  std::int64_t mask_stride = 0;
  std::int64_t steps = 0;
};

// Rows of a stored weight, from one on. Their last, partial step is copied out and padded with zeros.
template <typename C, typename W, bool kTwoFour>
class StoredRows {
 public:
  using Segment = RowSegment<W>;
  static constexpr std::int64_t kStepValues = kTwoFour ? C::kStep / 2 : C::kStep;
  static constexpr std::int64_t kStepMask = kTwoFour ? C::kStep / 8 : 0;

  // kRowGroup rows, or one, which then stands for the whole group.
  StoredRows(const MatmulJob& job, std::int64_t row, std::int64_t rows) {
    const std::int64_t left = job.k % C::kStep;
    main_.values = reinterpret_cast<const W*>(job.values + row * job.value_row_bytes);
    main_.value_stride = rows > 1 ? job.value_row_bytes / static_cast<std::int64_t>(sizeof(W)) : 0;
    if constexpr (kTwoFour) {
      main_.mask = job.mask + row * job.mask_row_bytes;
      main_.mask_stride = rows > 1 ? job.mask_row_bytes : 0;
    }
    main_.steps = job.k / C::kStep;
    if (left > 0) copy_tail(rows, left);
  }

  // The whole steps among [begin, end), and the partial one if it is there.
  Segment whole(std::int64_t begin, std::int64_t end) const {
    Segment part = main_;
    part.values += begin * kStepValues;
    if constexpr (kTwoFour) part.mask += begin * kStepMask;
    part.steps = std::min(end, main_.steps) - begin;
    return part;
  }
  bool has_tail(std::int64_t end) const { return end > main_.steps; }
  const Segment& tail() const { return tail_; }

  static void load(const typename C::Constants& constants, const Segment& s, std::int64_t row,
                   std::int64_t step, typename C::In* out) {
    const W* values = s.values + row * s.value_stride + step * kStepValues;
    if constexpr (kTwoFour) {
      C::decode_24(constants, values, s.mask + row * s.mask_stride + step * kStepMask, out);
    } else {
      C::decode(constants, values, out);
    }
  }

  // Asks for as much as this step of 4 rows takes, `groups` row groups further on, in the order in which it
  // lies in memory: the hardware follows a long stream, where it would see each row end before it knew its
  // pattern. Into the second-level cache, which can have more requests under way: measured on Zen 4 with 2
  // threads and rows of 1152 bytes, 44 GB/s; 31 into the first level; 21 in the order of use.
  static void prefetch(const Segment& s, std::int64_t step, std::int64_t groups) {
    ask<kStepValues* static_cast<std::int64_t>(sizeof(W))>(
        s.values, s.value_stride * static_cast<std::int64_t>(sizeof(W)), step, groups);
    if constexpr (kTwoFour) ask<kStepMask>(s.mask, s.mask_stride, step, groups);
  }

 private:
  static constexpr std::int64_t kLine = 64;  // bytes of a cache line

  // kBytes: of a row and step.
  template <std::int64_t kBytes>
  static void ask(const void* rows, std::int64_t stride, std::int64_t step, std::int64_t groups) {
    constexpr std::int64_t kGroupBytes = kRowGroup * kBytes;
    const std::byte* next =
        static_cast<const std::byte*>(rows) + kRowGroup * groups * stride + step * kGroupBytes;
    if (kGroupBytes < kLine && step * kGroupBytes % kLine != 0) return;
    for (std::int64_t at = 0; at < kGroupBytes; at += kLine) Simd::prefetch_far(next + at);
  }

  void copy_tail(std::int64_t rows, std::int64_t left) {
    tail_ = {values_[0], rows > 1 ? kStepValues : 0, kTwoFour ? mask_[0] : nullptr, rows > 1 ? kStepMask : 0,
             1};
    const std::int64_t count = kTwoFour ? left / 2 : left;
    for (std::int64_t r = 0; r < rows; ++r) {
      const W* values = main_.values + r * main_.value_stride + main_.steps * kStepValues;
      std::memset(values_[r], 0, sizeof(values_[r]));
      std::memcpy(values_[r], values, static_cast<std::size_t>(count) * sizeof(W));
      if constexpr (kTwoFour) {
        const std::uint8_t* mask = main_.mask + r * main_.mask_stride + main_.steps * kStepMask;
        std::memset(mask_[r], 0, sizeof(mask_[r]));
        std::memcpy(mask_[r], mask, static_cast<std::size_t>((left + 7) / 8));
        if (left % 8 != 0) mask_[r][left / 8] &= 0x0f;  // the group past the last column
      }
    }
  }

  Segment main_;
  Segment tail_;
  alignas(64) W values_[kRowGroup][kStepValues];
  std::uint8_t mask_[kRowGroup][C::kStep / 8];
};

}  // namespace
}  // namespace grille::kernels
