// grille eval perplexity
#include <iostream>

#include "cli/model_options.h"
#include "grille/base/error.h"
#include "grille/evaluate/perplexity.h"
#include "grille/text/document_encoder.h"
#include "grille/text/text_files.h"

namespace grille::cli {
namespace {

constexpr std::int64_t kMostTokens = std::int64_t{1} << 40;

struct PerplexityCommand {
  ModelOptions model;
  std::string text;
  std::string text_format = "plain";
  std::string documents;
  std::int64_t context = 0;
  std::int64_t stride = 0;
  std::int64_t max_tokens = 0;
};

std::vector<std::int32_t> read_text(const PerplexityCommand& options, const text::Tokenizer& tokenizer) {
  std::string text = text::read_text_file(options.text);
  if (options.text_format == "hf-wikitext") text = text::join_hf_wikitext(text);
  std::vector<std::int32_t> ids = tokenizer.encode(text, /*add_special_tokens=*/true);
  if (options.max_tokens > 0 && static_cast<std::int64_t>(ids.size()) > options.max_tokens) {
    ids.resize(static_cast<std::size_t>(options.max_tokens));
  }
  return ids;
}

std::vector<std::vector<std::int32_t>> read_documents(const std::string& file,
                                                      const text::Tokenizer& tokenizer,
                                                      std::int64_t context) {
  text::DocumentEncoder encoder(tokenizer, context);
  std::vector<std::vector<std::int32_t>> documents;
  for (const text::Document& document : text::read_documents(file)) {
    documents.push_back(encoder.encode(document, file));
  }
  return documents;
}

nlohmann::json run(const PerplexityCommand& options, const CommandContext& context) {
  check(options.text.empty() != options.documents.empty(), ErrorCode::kInvalidArgument,
        "give one of --text FILE and --documents FILE.jsonl");
  check(options.documents.empty() ||
            (options.stride == 0 && options.max_tokens == 0 && options.text_format == "plain"),
        ErrorCode::kInvalidArgument,
        "--text-format, --stride and --max-tokens belong to --text; a document is scored whole and alone");
  const LoadedModel loaded = load_model(options.model, context);
  const text::Tokenizer tokenizer = models::load_tokenizer(loaded.files);
  evaluate::PerplexityOptions perplexity;
  perplexity.context = options.context > 0
                           ? options.context
                           : std::min<std::int64_t>(2048, loaded.decoder.config().max_positions);
  perplexity.stride = options.stride;
  const evaluate::PerplexityResult result =
      options.documents.empty()
          ? evaluate::perplexity(loaded.decoder, read_text(options, tokenizer), perplexity, context.progress)
          : evaluate::document_perplexity(loaded.decoder,
                                          read_documents(options.documents, tokenizer, perplexity.context),
                                          perplexity, context.progress);
  if (!context.options.json) {
    std::cout << fmt::format("perplexity {:.4f}", result.perplexity);
    if (result.standard_error) std::cout << fmt::format(" +- {:.4f}", *result.standard_error);
    std::cout << fmt::format(" ({} predictions in {} windows)\n", result.tokens, result.windows);
  }
  nlohmann::json object = {{"perplexity", result.perplexity}, {"stderr", nullptr},
                           {"tokens", result.tokens},         {"windows", result.windows},
                           {"nll_sum", result.nll_sum},       {"context", perplexity.context}};
  if (result.standard_error) object["stderr"] = *result.standard_error;
  return object;
}

}  // namespace

void add_eval(CLI::App& app) {
  CLI::App* eval = app.add_subcommand("eval", "Measure a model");
  eval->require_subcommand(1);
  add_eval_mmlu(*eval);
  auto options = std::make_shared<PerplexityCommand>();
  CLI::App* command =
      add_command(*eval, "perplexity", "Perplexity of a text",
                  "grille eval perplexity model/ --text wiki.test.raw --text-format hf-wikitext",
                  [options](const CommandContext& context) { return run(*options, context); },
                  RunsOn::kCpuOrCuda);
  add_model_options(*command, options->model);
  command->add_option("--text", options->text, "A text file, tokenized whole and cut into windows")
      ->check(CLI::ExistingFile);
  command
      ->add_option("--text-format", options->text_format,
                   "plain, or hf-wikitext: lines joined as the Hugging Face data set's rows")
      ->check(CLI::IsMember({"plain", "hf-wikitext"}))
      ->capture_default_str();
  command
      ->add_option("--documents", options->documents,
                   "A JSONL file, one document a line (\"text\" or \"messages\"), each scored alone")
      ->check(CLI::ExistingFile);
  command->add_option("--context", options->context, "Tokens a window (default: 2048 or the model's longest)")
      ->check(CLI::Range(std::int64_t{2}, kMostTokens));
  command
      ->add_option(
          "--stride", options->stride,
          "Start a window every so many tokens and score only new ones (default: windows do not overlap)")
      ->check(CLI::Range(std::int64_t{1}, kMostTokens));
  command->add_option("--max-tokens", options->max_tokens, "Keep only the first N tokens of the text")
      ->check(CLI::Range(std::int64_t{1}, kMostTokens));
}

}  // namespace grille::cli
