// The points of a linear benchmark: layer shapes and token counts, from presets or from text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace grille::benchmark {

// y [m, n] = x [m, k] W^T with W [n, k].
struct LayerShape {
  std::string name;  // "qkv", ... in a model; "KxN" in a list
  std::int64_t k = 0;
  std::int64_t n = 0;

  bool operator==(const LayerShape&) const = default;
};

// What a decoder block of a model runs, in order: qkv, o, gate_up, down (q, k, v and gate, up fused).
// Throws Error{kInvalidArgument}, naming the models there are.
std::vector<LayerShape> model_layers(std::string_view model);

// "4096x6144,14336x4096": K x N each, both multiples of 16, which the libraries need for 8-bit types.
std::vector<LayerShape> parse_shapes(std::string_view text);

// "1,16,32": at least 1 each, at most 2^20. Sorted, each once.
std::vector<std::int64_t> parse_token_counts(std::string_view text);

// A comma-separated choice out of `known`, in the order of `known`. "all": every one; "none": an empty list.
// `option` is named in the error.
std::vector<std::string> parse_choice(std::string_view text, const std::vector<std::string>& known,
                                      std::string_view option);

}  // namespace grille::benchmark
