#include "bench/read_bandwidth.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>

#include <sys/mman.h>
#include <unistd.h>

#include "grille/base/cpu_features.h"
#include "grille/base/parallel.h"
#include "grille/kernels/cpu/isa_region.h"

namespace grille::bench {
namespace {

constexpr std::int64_t kHugePage = 2 << 20;
constexpr std::int64_t kChunk = 256;  // bytes that a stream reads before it is the next one's turn

std::byte* allocate(std::int64_t bytes, int advice) {
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kHugePage, static_cast<std::size_t>(bytes)));
  if (memory == nullptr) throw std::bad_alloc();
  madvise(memory, static_cast<std::size_t>(bytes), advice);
  parallel_for(bytes / kHugePage, 1, [&](std::int64_t begin, std::int64_t end) {
    std::memset(memory + begin * kHugePage, 1, static_cast<std::size_t>((end - begin) * kHugePage));
  });
  return memory;
}

// Sums what `streams` streams of `length` bytes hold, so that no load can be left out.
using ReadStreams = std::uint64_t (*)(const std::byte* data, std::int64_t length, int streams,
                                      std::int64_t ahead);

std::uint64_t read_streams(const std::byte* data, std::int64_t length, int streams, std::int64_t) {
  std::uint64_t sums[8] = {};
  for (std::int64_t at = 0; at + kChunk <= length; at += kChunk) {
    for (int s = 0; s < streams; ++s) {
      std::uint64_t words[kChunk / 8];
      std::memcpy(words, data + s * length + at, kChunk);
      for (std::size_t i = 0; i < kChunk / 8; ++i) sums[i % 8] += words[i];
    }
  }
  std::uint64_t total = 0;
  for (std::uint64_t sum : sums) total += sum;
  return total;
}

#if defined(__x86_64__)
GRILLE_BEGIN_AVX512

std::uint64_t read_streams_avx512(const std::byte* data, std::int64_t length, int streams,
                                  std::int64_t ahead) {
  __m512i sums[4] = {};
  for (std::int64_t at = 0; at + kChunk <= length; at += kChunk) {
    for (int s = 0; s < streams; ++s) {
      const std::byte* p = data + s * length + at;
      for (int i = 0; i < 4; ++i) {
        if (ahead > 0) _mm_prefetch(reinterpret_cast<const char*>(p + ahead + 64 * i), _MM_HINT_T0);
        sums[i] = _mm512_add_epi64(sums[i], _mm512_load_si512(p + 64 * i));
      }
    }
  }
  return static_cast<std::uint64_t>(_mm512_reduce_add_epi64(
      _mm512_add_epi64(_mm512_add_epi64(sums[0], sums[1]), _mm512_add_epi64(sums[2], sums[3]))));
}

GRILLE_END_ISA
#endif

ReadStreams reader() {
#if defined(__x86_64__)
  if (active_isa() >= Isa::kAvx512) return read_streams_avx512;
#endif
  return read_streams;
}

}  // namespace

std::int64_t last_level_cache_bytes() {
  // One core's. (sysconf adds up all caches of that level where AMD's processors have several.)
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index3/size");
  std::int64_t kibibytes = 0;
  if (file >> kibibytes && kibibytes > 0) return kibibytes << 10;
  const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return bytes > 0 ? bytes : 32 << 20;
}

void ReadBandwidth::Free::operator()(std::byte* memory) const { std::free(memory); }

ReadBandwidth::ReadBandwidth()
    : bytes_(std::max<std::int64_t>(6 * last_level_cache_bytes(), 256 << 20) / kHugePage * kHugePage),
      small_pages_(allocate(bytes_, MADV_NOHUGEPAGE)),
      huge_pages_(allocate(bytes_, MADV_HUGEPAGE)) {
  double fastest = 0.0;
  for (const bool huge : {false, true}) {
    for (const int streams : {1, 2, 4, 8}) {
      for (const std::int64_t ahead : {0, 1024, 4096}) {
        const Way way = {huge, streams, ahead};
        double speed = 0.0;
        for (int repeat = 0; repeat < 3; ++repeat) speed = std::max(speed, pass(way));
        if (speed > fastest) best_ = way;
        fastest = std::max(fastest, speed);
      }
    }
  }
}

double ReadBandwidth::measure() const { return pass(best_); }

double ReadBandwidth::pass(const Way& way) const {
  const std::byte* data = way.huge ? huge_pages_.get() : small_pages_.get();
  const ReadStreams read = reader();
  const std::int64_t parts = num_threads();
  const std::int64_t length = bytes_ / parts / way.streams / kChunk * kChunk;
  std::atomic<std::uint64_t> sink = 0;
  const auto start = std::chrono::steady_clock::now();
  parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      sink += read(data + part * length * way.streams, length, way.streams, way.ahead);
    }
  });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return static_cast<double>(length * way.streams * parts) / seconds.count();
}

}  // namespace grille::bench
