#include "grille/benchmark/points.h"

#include <algorithm>
#include <charconv>

#include "grille/base/error.h"

namespace grille::benchmark {
namespace {

struct Model {
  std::string_view name;
  std::vector<LayerShape> layers;
};

const std::vector<Model>& models() {
  static const std::vector<Model> list = {
      {"llama-3-8b",
       {{"qkv", 4096, 6144}, {"o", 4096, 4096}, {"gate_up", 4096, 28672}, {"down", 14336, 4096}}},
      {"llama-3-70b",
       {{"qkv", 8192, 10240}, {"o", 8192, 8192}, {"gate_up", 8192, 57344}, {"down", 28672, 8192}}},
      {"qwen2.5-7b",
       {{"qkv", 3584, 4608}, {"o", 3584, 3584}, {"gate_up", 3584, 37888}, {"down", 18944, 3584}}},
  };
  return list;
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t comma = text.find(',');
    parts.push_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

// A whole positive number, or 0.
std::int64_t number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value > 0 ? value : 0;
}

}  // namespace

std::vector<LayerShape> model_layers(std::string_view model) {
  std::string known;
  for (const Model& m : models()) {
    if (m.name == model) return m.layers;
    known += (known.empty() ? "" : ", ") + std::string(m.name);
  }
  fail(ErrorCode::kInvalidArgument, "--model {}: there are {}", model, known);
}

std::vector<LayerShape> parse_shapes(std::string_view text) {
  constexpr std::int64_t kLargest = 1 << 20;
  std::vector<LayerShape> shapes;
  for (const std::string_view part : split(text)) {
    const std::size_t x = part.find('x');
    const std::int64_t k = x == std::string_view::npos ? 0 : number(part.substr(0, x));
    const std::int64_t n = x == std::string_view::npos ? 0 : number(part.substr(x + 1));
    check(k > 0 && n > 0 && k % 16 == 0 && n % 16 == 0 && k <= kLargest && n <= kLargest,
          ErrorCode::kInvalidArgument,
          "--shapes: expected KxN with multiples of 16 up to {}, such as 4096x6144, got '{}'", kLargest,
          part);
    shapes.push_back({std::string(part), k, n});
  }
  return shapes;
}

std::vector<std::int64_t> parse_token_counts(std::string_view text) {
  constexpr std::int64_t kLargest = 1 << 20;
  std::vector<std::int64_t> counts;
  for (const std::string_view part : split(text)) {
    const std::int64_t m = number(part);
    check(m > 0 && m <= kLargest, ErrorCode::kInvalidArgument,
          "--m: expected token counts from 1 to {}, such as 1,16,256, got '{}'", kLargest, part);
    counts.push_back(m);
  }
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

std::vector<std::string> parse_choice(std::string_view text, const std::vector<std::string>& known,
                                      std::string_view option) {
  if (text == "none") return {};
  if (text == "all") return known;
  const std::vector<std::string_view> wanted = split(text);
  std::string names;
  for (const std::string& name : known) names += (names.empty() ? "" : ", ") + name;
  for (const std::string_view name : wanted) {
    check(std::find(known.begin(), known.end(), name) != known.end(), ErrorCode::kInvalidArgument,
          "{}: '{}' is not one of all, none, {}", option, name, names);
  }
  std::vector<std::string> chosen;
  for (const std::string& name : known) {
    if (std::find(wanted.begin(), wanted.end(), name) != wanted.end()) chosen.push_back(name);
  }
  return chosen;
}

}  // namespace grille::benchmark
