#include "grille/text/tokenizer.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

#include "grille/base/error.h"
#include "grille/text/rust_call.h"
#include "grille/text/text_files.h"

namespace grille::text {

namespace {

using Ids = std::vector<std::int32_t>;

struct FreeTokenizer {
  void operator()(grille_text_tokenizer* handle) const { grille_text_tokenizer_free(handle); }
};
using Handle = std::unique_ptr<grille_text_tokenizer, FreeTokenizer>;

constexpr std::string_view kSubject = "tokenizer";

}  // namespace

struct Tokenizer::State {
  Handle handle;
  TokenizerConfig config;
  std::optional<std::int32_t> bos;
  std::optional<std::int32_t> eos;
  Ids eos_ids;
  std::int64_t tokens = 0;
  std::int64_t end_id = 0;
  // What the post-processor of tokenizer.json adds by itself.
  bool processor_adds_bos = false;
  bool processor_adds_eos = false;
  bool add_bos = false;
  bool add_eos = false;
  std::unordered_map<std::int32_t, std::uint8_t> fallback_bytes;

  Ids encode(std::string_view text, bool add_special_tokens) const {
    grille_text_ids ids{};
    grille_text_bytes error{};
    const auto status = grille_text_tokenizer_encode(handle.get(), text.data(), text.size(),
                                                     add_special_tokens, &ids, &error);
    check_status(status, error, kSubject);
    return take(ids);
  }
  std::optional<std::int32_t> token_to_id(std::string_view token) const {
    std::int64_t id = -1;
    grille_text_bytes error{};
    check_status(grille_text_tokenizer_token_to_id(handle.get(), token.data(), token.size(), &id, &error),
                 error, kSubject);
    if (id < 0) return std::nullopt;
    return static_cast<std::int32_t>(id);
  }
  std::optional<std::int32_t> special_id(const std::string& token, std::string_view what) const {
    if (token.empty()) return std::nullopt;
    const auto id = token_to_id(token);
    check(id.has_value(), ErrorCode::kCorruptData,
          "tokenizer: the {} token '{}' of tokenizer_config.json is not in tokenizer.json", what, token);
    return id;
  }
  std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens) const {
    for (const std::int32_t id : ids) {
      check(id >= 0, ErrorCode::kInvalidArgument, "tokenizer: cannot decode id {}", id);
    }
    grille_text_bytes text{};
    grille_text_bytes error{};
    const auto status =
        grille_text_tokenizer_decode(handle.get(), reinterpret_cast<const std::uint32_t*>(ids.data()),
                                     ids.size(), skip_special_tokens, &text, &error);
    check_status(status, error, kSubject);
    return take(text);
  }
  void find_special_tokens();
  void find_fallback_bytes();
};

void Tokenizer::State::find_special_tokens() {
  bos = special_id(config.bos_token, "BOS");
  eos = special_id(config.eos_token, "EOS");
  if (eos) eos_ids.push_back(*eos);
  for (const std::int32_t id : config.generation_eos_ids) {
    if (std::find(eos_ids.begin(), eos_ids.end(), id) == eos_ids.end()) eos_ids.push_back(id);
  }
  const Ids around_nothing = encode("", true);
  processor_adds_bos = bos && !around_nothing.empty() && around_nothing.front() == *bos;
  const std::size_t before_eos = processor_adds_bos ? 1 : 0;
  processor_adds_eos = eos && around_nothing.size() > before_eos && around_nothing.back() == *eos;
  add_bos = bos && config.add_bos_token.value_or(processor_adds_bos);
  add_eos = eos && config.add_eos_token.value_or(processor_adds_eos);
}

void Tokenizer::State::find_fallback_bytes() {
  // A vocabulary may hold the text "<0x41>" without meaning the byte: only the decoder knows.
  const auto probe = token_to_id("<0x41>");
  if (!probe || decode(std::span(&*probe, 1), false) != "A") return;
  for (int byte = 0; byte < 256; ++byte) {
    const auto id = token_to_id(fmt::format("<0x{:02X}>", byte));
    if (id) fallback_bytes.emplace(*id, static_cast<std::uint8_t>(byte));
  }
}

Tokenizer Tokenizer::from_json(std::string_view tokenizer_json, TokenizerConfig config) {
  auto state = std::make_shared<State>();
  grille_text_tokenizer* handle = nullptr;
  grille_text_bytes error{};
  const auto status =
      grille_text_tokenizer_new(tokenizer_json.data(), tokenizer_json.size(), &handle, &error);
  state->handle.reset(handle);
  check_status(status, error, "tokenizer.json");

  std::uint64_t tokens = 0;
  std::uint64_t end_id = 0;
  check_status(grille_text_tokenizer_size(handle, &tokens, &end_id, &error), error, kSubject);
  state->tokens = static_cast<std::int64_t>(tokens);
  state->end_id = static_cast<std::int64_t>(end_id);
  state->config = std::move(config);
  state->find_special_tokens();
  state->find_fallback_bytes();
  return Tokenizer(std::move(state));
}

Tokenizer Tokenizer::from_directory(const std::filesystem::path& directory) {
  const auto file = directory / "tokenizer.json";
  if (!std::filesystem::exists(file) && std::filesystem::exists(directory / "tokenizer.model")) {
    fail(ErrorCode::kUnsupported,
         "{}: holds tokenizer.model but no tokenizer.json: save it once with transformers' fast tokenizer",
         directory.string());
  }
  const std::string json = read_file(file);
  TokenizerConfig config = read_tokenizer_config(directory);
  try {
    return from_json(json, std::move(config));
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", directory.string(), error.what());
  }
}

Ids Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  Ids ids = state_->encode(text, add_special_tokens);
  if (!add_special_tokens) return ids;
  const State& s = *state_;
  if (s.add_bos && !s.processor_adds_bos) ids.insert(ids.begin(), *s.bos);
  if (!s.add_bos && s.processor_adds_bos) ids.erase(ids.begin());
  if (s.add_eos && !s.processor_adds_eos) ids.push_back(*s.eos);
  if (!s.add_eos && s.processor_adds_eos) ids.pop_back();
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special_tokens) const {
  return state_->decode(ids, skip_special_tokens);
}

std::optional<std::int32_t> Tokenizer::token_to_id(std::string_view token) const {
  return state_->token_to_id(token);
}

std::optional<std::string> Tokenizer::id_to_token(std::int32_t id) const {
  if (id < 0) return std::nullopt;
  grille_text_bytes token{};
  grille_text_bytes error{};
  int found = 0;
  const auto status = grille_text_tokenizer_id_to_token(state_->handle.get(), static_cast<std::uint32_t>(id),
                                                        &token, &found, &error);
  check_status(status, error, kSubject);
  std::string text = take(token);
  if (!found) return std::nullopt;
  return text;
}

bool Tokenizer::is_special(std::int32_t id) const {
  if (id < 0) return false;
  grille_text_bytes error{};
  int special = 0;
  const auto status = grille_text_tokenizer_is_special(state_->handle.get(), static_cast<std::uint32_t>(id),
                                                       &special, &error);
  check_status(status, error, kSubject);
  return special != 0;
}

std::int64_t Tokenizer::vocab_size() const { return state_->tokens; }
std::int64_t Tokenizer::end_id() const { return state_->end_id; }
std::optional<std::int32_t> Tokenizer::bos_id() const { return state_->bos; }
const Ids& Tokenizer::eos_ids() const { return state_->eos_ids; }
bool Tokenizer::adds_bos() const { return state_->add_bos; }
const TokenizerConfig& Tokenizer::config() const { return state_->config; }

std::string Tokenizer::chat_template(std::string_view name) const {
  const auto found = state_->config.chat_templates.find(name);
  return found == state_->config.chat_templates.end() ? std::string() : found->second;
}

std::optional<std::uint8_t> Tokenizer::fallback_byte(std::int32_t id) const {
  const auto found = state_->fallback_bytes.find(id);
  if (found == state_->fallback_bytes.end()) return std::nullopt;
  return found->second;
}

std::string Tokenizer::to_json() const {
  grille_text_bytes json{};
  grille_text_bytes error{};
  check_status(grille_text_tokenizer_to_json(state_->handle.get(), &json, &error), error, kSubject);
  return take(json);
}

}  // namespace grille::text
