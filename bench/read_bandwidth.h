// How fast this machine reads memory: the limit of everything that reads its weights once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace grille::bench {

// Bytes of the last-level cache, 32 MiB where the system does not say.
std::int64_t last_level_cache_bytes();

// Reads an array much larger than the caches with all threads of the process's OpenMP pool. The constructor
// tries one to sixteen streams a thread, with and without asking ahead, on small and on huge pages, and keeps
// the fastest way.
class ReadBandwidth {
 public:
  ReadBandwidth();

  // One pass: bytes a second.
  double measure() const;

 private:
  struct Way {
    bool huge = false;
    int streams = 1;
    std::int64_t ahead = 0;  // bytes; 0: left to the hardware
  };
  struct Free {
    void operator()(std::byte* memory) const;
  };

  double pass(const Way& way) const;

  std::int64_t bytes_;
  std::unique_ptr<std::byte[], Free> small_pages_, huge_pages_;
  Way best_;
};

}  // namespace grille::bench
