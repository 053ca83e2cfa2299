// The eight tile registers of Intel AMX: 16 rows of 64 bytes each (Intel SDM, volume 1, chapter 18).
#pragma once

namespace grille::kernels {
namespace {

// What matmul_tiles-inl.h needs of a machine with tiles. Written as assembly: the compiler's intrinsics take
// register numbers as text only, no template arguments.
struct AmxTiles {
  // Tiles may be used by this thread while one of these lives.
  class Session {
   public:
    Session() {
      struct alignas(64) {
        std::uint8_t palette = 1;
        std::uint8_t start_row = 0;
        std::uint8_t reserved[14] = {};
        std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
        std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
      } config;
      asm volatile("ldtilecfg %0" : : "m"(config));
    }
    ~Session() { asm volatile("tilerelease"); }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
  };

  template <int kTile>
  static void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  // Rows lie `stride` bytes apart.
  template <int kTile>
  static void load(const void* p, std::int64_t stride) {
    asm volatile("tileloadd (%1,%2,1), %%tmm%c0" : : "i"(kTile), "r"(p), "r"(stride) : "memory");
  }
  template <int kTile>
  static void store(void* p, std::int64_t stride) {
    asm volatile("tilestored %%tmm%c0, (%1,%2,1)" : : "i"(kTile), "r"(p), "r"(stride) : "memory");
  }
  // sums[i][j] += a[i][2 c] b[c][2 j] + a[i][2 c + 1] b[c][2 j + 1] over the 16 pairs c of bfloat16.
  template <int kSums, int kA, int kB>
  static void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kA), "i"(kB));
  }
};

}  // namespace
}  // namespace grille::kernels
