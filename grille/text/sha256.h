// SHA-256 (FIPS 180-4), for the provenance of calibration data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace grille::text {

class Sha256 {
 public:
  void update(std::string_view bytes);
  // 64 lower-case hexadecimal digits. Call it once, at the end.
  std::string finish();

 private:
  void compress(const std::uint8_t* block);

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::uint8_t, 64> block_{};
  std::size_t filled_ = 0;
  std::uint64_t bytes_ = 0;
};

std::string sha256_hex(std::string_view bytes);

// Reads the file in pieces; about 250 MB/s. Throws Error{kNotFound}.
std::string sha256_of_file(const std::filesystem::path& file);

}  // namespace grille::text
