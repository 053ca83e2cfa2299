#include "cli/evaluation_text.h"

#include "grille/text/text_files.h"

namespace grille::cli {

void add_evaluation_text(CLI::App& command, EvaluationText& options, const std::string& description) {
  command.add_option("--text", options.file, description)->check(CLI::ExistingFile);
  command
      .add_option("--text-format", options.format,
                  "plain, or hf-wikitext: lines joined as the Hugging Face data set's rows")
      ->check(CLI::IsMember({"plain", "hf-wikitext"}))
      ->capture_default_str();
  command.add_option("--max-tokens", options.max_tokens, "Keep only the first N tokens of the text")
      ->check(CLI::Range(std::int64_t{1}, kMostTokens));
}

std::vector<std::int32_t> read_evaluation_text(const EvaluationText& options,
                                               const text::Tokenizer& tokenizer) {
  std::string text = text::read_text_file(options.file);
  if (options.format == "hf-wikitext") text = text::join_hf_wikitext(text);
  std::vector<std::int32_t> ids = tokenizer.encode(text, /*add_special_tokens=*/true);
  if (options.max_tokens > 0 && static_cast<std::int64_t>(ids.size()) > options.max_tokens) {
    ids.resize(static_cast<std::size_t>(options.max_tokens));
  }
  return ids;
}

}  // namespace grille::cli
