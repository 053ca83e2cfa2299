// Text to token ids and back, by the Hugging Face tokenizer of a model.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace grille::text {

// What tokenizer.json does not say: tokenizer_config.json, special_tokens_map.json, chat_template.jinja
// and generation_config.json. Empty strings: the model has no such token.
struct TokenizerConfig {
  std::string bos_token;
  std::string eos_token;
  // Absent: as the post-processor of tokenizer.json does.
  std::optional<bool> add_bos_token;
  std::optional<bool> add_eos_token;
  std::vector<std::int32_t> generation_eos_ids;
  std::map<std::string, std::string, std::less<>> chat_templates;  // by name; the usual one is "default"
};

// Reads the files of a Hugging Face model directory that exist. Throws Error{kCorruptData} naming the
// file when one is not what it should be.
TokenizerConfig read_tokenizer_config(const std::filesystem::path& directory);

// Immutable; cheap to copy (copies share one table), safe to use from several threads.
class Tokenizer {
 public:
  // Truncation and padding stored in the file are switched off. Throws Error{kCorruptData}.
  static Tokenizer from_json(std::string_view tokenizer_json, TokenizerConfig config = {});

  // tokenizer.json and the files of read_tokenizer_config. Throws Error{kNotFound} without
  // tokenizer.json.
  static Tokenizer from_directory(const std::filesystem::path& directory);

  // Special tokens in the text are parsed, as Hugging Face does. add_special_tokens: BOS and the like
  // where the model puts them. Linear in the text (about 2 MB/s). Throws Error{kInvalidArgument} for
  // text that is not UTF-8.
  std::vector<std::int32_t> encode(std::string_view text, bool add_special_tokens = true) const;

  // UTF-8; bytes that are none become U+FFFD. Ids without a token are left out. Throws
  // Error{kInvalidArgument} for a negative id.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens = false) const;

  std::optional<std::int32_t> token_to_id(std::string_view token) const;
  std::optional<std::string> id_to_token(std::int32_t id) const;
  bool is_special(std::int32_t id) const;

  // Tokens, the added ones included.
  std::int64_t vocab_size() const;
  // The largest id + 1: larger than vocab_size() where ids have gaps. A model needs at least as many
  // rows in its embedding.
  std::int64_t end_id() const;

  std::optional<std::int32_t> bos_id() const;
  // Ids that end a generation: the tokenizer's EOS first, then those of generation_config.json.
  const std::vector<std::int32_t>& eos_ids() const;
  // Whether encode(…, true) puts the BOS in front.
  bool adds_bos() const;
  const TokenizerConfig& config() const;

  // "" when the model has no template of that name.
  std::string chat_template(std::string_view name = "default") const;

  // The byte of a byte-fallback token (<0x0A>), for vocabularies that have them.
  std::optional<std::uint8_t> fallback_byte(std::int32_t id) const;

  // A tokenizer.json that from_json and transformers read.
  std::string to_json() const;

 private:
  struct State;
  explicit Tokenizer(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace grille::text
