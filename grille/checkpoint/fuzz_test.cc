// Parsers against mutated input: whatever the bytes, a grille::Error or a result, and nothing else. Meant to
// run under the address sanitizer (`make fuzz`). GRILLE_FUZZ_RUNS inputs a test; seeded, so that a failure
// repeats.
#include <unistd.h>

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "grille/base/error.h"
#include "grille/checkpoint/compressed_tensors.h"
#include "grille/checkpoint/gguf.h"
#include "grille/checkpoint/gguf_cases.h"
#include "grille/checkpoint/json_file.h"
#include "grille/checkpoint/name_pattern.h"
#include "grille/checkpoint/provenance.h"
#include "grille/checkpoint/safetensors.h"

namespace grille::checkpoint {
namespace {

constexpr unsigned kSlowestSeconds = 20;  // for one input; the alarm ends the process

std::int64_t fuzz_runs() {
  const char* text = std::getenv("GRILLE_FUZZ_RUNS");
  return text == nullptr ? 2000 : std::atoll(text);
}

class Mutator {
 public:
  explicit Mutator(std::vector<std::string> seeds) : seeds_(std::move(seeds)) {}

  std::string next() {
    std::string text = seeds_[below(seeds_.size())];
    for (std::size_t i = below(4) + 1; i > 0; --i) mutate(text);
    return text;
  }

 private:
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  template <typename T>
  void put_number(std::string& text) {
    static constexpr std::uint64_t kNumbers[] = {
        0,           1,          2,          3,          4,          7,          8,          31,
        32,          33,         255,        256,        65535,      0x7fffffff, 0x80000000, 0xffffffff,
        0x100000000, 1ull << 40, 1ull << 61, 1ull << 62, 1ull << 63, ~0ull};
    const T value = static_cast<T>(kNumbers[below(std::size(kNumbers))] + (below(4) == 0 ? below(64) : 0));
    if (text.size() < sizeof value) return;
    text.replace(below(text.size() - sizeof value + 1), sizeof value, reinterpret_cast<const char*>(&value),
                 sizeof value);
  }

  void mutate(std::string& text) {
    static const char* const kTokens[] = {"{",
                                          "}",
                                          "[",
                                          "]",
                                          "\"",
                                          ":",
                                          ",",
                                          "null",
                                          "true",
                                          "-1",
                                          "1e9",
                                          "0.5",
                                          "99999999999999999999",
                                          "\\u0000",
                                          "(",
                                          ")*",
                                          "|",
                                          "{1000}",
                                          "\xff"};
    switch (below(9)) {
      case 0:
        if (!text.empty()) text[below(text.size())] ^= static_cast<char>(1u << below(8));
        break;
      case 1:
        if (!text.empty()) text[below(text.size())] = static_cast<char>(random_());
        break;
      case 2: put_number<std::uint64_t>(text); break;
      case 3: put_number<std::uint32_t>(text); break;
      case 4: text.resize(below(text.size() + 1)); break;
      case 5: text.erase(below(text.size() + 1), below(16)); break;
      case 6: text.insert(below(text.size() + 1), kTokens[below(std::size(kTokens))]); break;
      case 7: {  // a piece again, somewhere else
        const std::string piece = text.substr(below(text.size() + 1), below(64));
        text.insert(below(text.size() + 1), piece);
        break;
      }
      case 8: {  // a piece of another seed
        const std::string& other = seeds_[below(seeds_.size())];
        text.insert(below(text.size() + 1), other, below(other.size() + 1), below(64));
        break;
      }
    }
  }

  std::vector<std::string> seeds_;
  std::mt19937_64 random_{0};
};

// Runs `parse` on mutated seeds. The seeds themselves must be accepted, and mutations must not all be refused
// or all be accepted, or else the test looks at nothing.
template <typename Parse>
void fuzz(const std::vector<std::string>& seeds, Parse&& parse) {
  for (const std::string& seed : seeds) ASSERT_NO_THROW(parse(seed));
  Mutator mutator(seeds);
  std::int64_t accepted = 0;
  const std::int64_t runs = fuzz_runs();
  for (std::int64_t i = 0; i < runs; ++i) {
    const std::string text = mutator.next();
    ::alarm(kSlowestSeconds);
    try {
      parse(text);
      ++accepted;
    } catch (const Error& error) {
      ASSERT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      ASSERT_NE(error.code(), ErrorCode::kInternal) << error.what();
    }
  }
  ::alarm(0);
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, runs);
}

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string safetensors_file(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data;
}

// Reads the file that the header describes and, where it can be, a linear layer in it.
void read_safetensors(const std::string& text) {
  const SafetensorsSource source(bytes_of(text), "f");
  CompressionConfig config;
  config.two_four = TwoFourGroup{ModuleTargets({"Linear"}), {}, 0.5};
  config.fp8_groups.push_back({"g", ModuleTargets({"Linear"}), Fp8Group::Scale::kChannel, true});
  for (const auto& [name, info] : source.tensors()) source.read_tensor(name);
  if (!linear_tensor_names(source, "m").empty()) read_linear(source, config, "m", 2, 8);
}

TEST(FuzzSafetensors, AnyBytesGiveAnErrorOrATensor) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"m.shape":{"dtype":"I64","shape":[2,1],"data_offsets":[0,16]},)"
      R"("m.weight_scale":{"dtype":"F32","shape":[2,1],"data_offsets":[16,24]},)"
      R"("m.compressed":{"dtype":"F8_E4M3","shape":[2,4],"data_offsets":[24,32]},)"
      R"("m.bitmask":{"dtype":"U8","shape":[2,1],"data_offsets":[32,34]}})";
  std::string data(34, '\0');
  data[0] = 2;
  data[8] = 8;
  data.replace(16, 8, std::string("\0\0\x80\x3f\0\0\x80\x3f", 8));
  data.replace(32, 2, "\xC9\x33");
  fuzz({safetensors_file(header, data),
        safetensors_file(R"({"t":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})",
                         std::string(16, '\1')),
        safetensors_file("{}", "")},
       read_safetensors);
}

TEST(FuzzSafetensors, AnyHeaderGivesAnErrorOrATensor) {  // the length always fits: more gets past it
  fuzz(
      {R"({"a":{"dtype":"BF16","shape":[2,2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[8],"data_offsets":[8,16]}})",
       R"({"a":{"dtype":"I64","shape":[],"data_offsets":[0,8]},"__metadata__":{"k":"v"},"b":{"dtype":"F64","shape":[1,1],"data_offsets":[8,16]}})"},
      [](const std::string& header) { read_safetensors(safetensors_file(header, std::string(16, '\1'))); });
}

TEST(FuzzGguf, AnyBytesGiveAnErrorOrTensors) {
  using Type = GgufValueType;
  const std::string small = GgufBytes()
                                .head(1, 2)
                                .array("tokens", Type::kString, 2)
                                .string("a")
                                .string("b")
                                .key("general.alignment", Type::kUInt32)
                                .number(8)
                                .tensor("t", {32, 2}, 2, 0)
                                .pad(8)
                                .raw(std::string(36, '\2'))
                                .text();
  fuzz({sample_gguf(), small}, [](const std::string& text) {
    const GgufSource source(bytes_of(text), "f");
    for (const auto& [name, info] : source.tensors()) source.read_tensor(name);
    for (const auto& [key, value] : source.metadata().values()) {
      if (!value.is_array && value.type == Type::kString) source.metadata().get_string(key);
      if (value.is_array && value.type == Type::kString) source.metadata().get_string_array(key);
      if (value.is_array && value.type != Type::kString && value.type != Type::kBool)
        source.metadata().get_float_array(key);
    }
  });
}

TEST(FuzzCompressionConfig, AnyTextGivesAnErrorOrAConfiguration) {
  CompressionConfig config;
  config.fp8_groups.push_back(
      {"group_0", ModuleTargets({"Linear", "re:.*mlp\\.(up|down)_proj$"}), Fp8Group::Scale::kChannel, true});
  config.fp8_ignore = ModuleTargets({"lm_head", "re:.*[a-z0-9]{2,3}x"});
  config.two_four = TwoFourGroup{ModuleTargets({"Linear"}), ModuleTargets({"lm_head"}), 0.5};
  Provenance provenance;
  provenance.steps.emplace_back().command = "prune";
  provenance.steps[0].layers = {{"a", 0.5, 0.1, 0.01}};
  const nlohmann::json whole = {{"quantization_config", to_json(config)}, {"grille", to_json(provenance)}};
  const nlohmann::json old = {{"sparsity_config", whole["quantization_config"]["sparsity_config"]}};
  fuzz({whole.dump(), old.dump()}, [](const std::string& text) {
    const nlohmann::json parsed = parse_json(text, "config.json");
    const CompressionConfig read = parse_compression_config(parsed);
    read.fp8_group("model.layers.0.mlp.up_proj");
    read.is_two_four("model.layers.0.mlp.up_proj");
    parse_provenance(parsed);
  });
}

TEST(FuzzNamePattern, AnyPatternGivesAnErrorOrAnAnswer) {
  fuzz({".*lm_head", "model\\.layers\\.(0|1|12)\\.[a-z_]+$", "(a{2,5}|b?c+)*[^x-z]", "^(?:q|k|v)_proj\\d*$"},
       [](const std::string& pattern) { NamePattern(pattern).matches("model.layers.12.self_attn.q_proj"); });
}

}  // namespace
}  // namespace grille::checkpoint
