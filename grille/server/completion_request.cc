#include <limits>
#include <utility>

#include "grille/engine/engine.h"
#include "grille/server/generation_request.h"

namespace grille::server {
namespace {

std::vector<std::int32_t> read_ids(const Json& list, std::int64_t vocab_size) {
  std::vector<std::int32_t> ids;
  ids.reserve(list.size());
  for (const Json& id : list)
    ids.push_back(static_cast<std::int32_t>(as_integer(id, "prompt: a token id", 0, vocab_size - 1)));
  return ids;
}

// A string, a list of strings, a list of ids, or a list of lists of ids.
std::vector<PromptInput> read_prompts(JsonFields& fields, std::int64_t vocab_size) {
  const Json* prompt = fields.find("prompt");
  if (prompt == nullptr) refuse("prompt", "missing; give a string, token ids, or a list of either");
  std::vector<PromptInput> prompts;
  if (prompt->is_string()) {
    prompts.emplace_back(prompt->get<std::string>());
    return prompts;
  }
  if (!prompt->is_array() || prompt->empty())
    refuse("prompt", "expected a string, token ids, or a list of either that is not empty");
  if (prompt->front().is_number()) {
    prompts.emplace_back(read_ids(*prompt, vocab_size));
    return prompts;
  }
  for (const Json& entry : *prompt) {
    if (entry.is_string()) {
      prompts.emplace_back(entry.get<std::string>());
    } else if (entry.is_array()) {
      prompts.emplace_back(read_ids(entry, vocab_size));
    } else {
      refuse("prompt", "a list holds neither strings nor lists of token ids");
    }
  }
  return prompts;
}

}  // namespace

CompletionRequest parse_completion(const Json& body, const ServedModel& model,
                                   const GenerationLimits& limits) {
  JsonFields fields(body);
  CompletionRequest request;
  request.generation = read_generation(fields, model);
  GenerationRequest& generation = request.generation;
  request.prompts = read_prompts(fields, model.vocab_size);
  request.echo = fields.boolean("echo").value_or(false);
  const auto logprobs = fields.integer("logprobs", 0, engine::kMaxTopLogprobs);
  generation.logprobs = logprobs.has_value();
  generation.top_logprobs = logprobs.value_or(0);
  generation.max_tokens =
      fields.integer("max_tokens", 0, std::numeric_limits<std::int64_t>::max()).value_or(16);
  if (*generation.max_tokens == 0 && !request.echo)
    refuse("max_tokens", "expected at least 1 (0 only with echo: true)");
  generation.add_special_tokens = fields.boolean("add_special_tokens").value_or(true);
  const auto choices = static_cast<std::int64_t>(request.prompts.size()) * generation.n;
  if (choices > limits.max_choices)
    refuse("n", "{} prompts times n {} are {} choices; the most is {}", request.prompts.size(), generation.n,
           choices, limits.max_choices);
  const auto best_of = fields.integer("best_of", 1, std::numeric_limits<std::int64_t>::max());
  if (best_of && *best_of != generation.n) refuse("best_of", "not supported by this server; leave it out");
  fields.unsupported("suffix");
  fields.unsupported("prompt_embeds");
  for (std::string& name : fields.unknown()) generation.unknown_fields.push_back(std::move(name));
  return request;
}

}  // namespace grille::server
