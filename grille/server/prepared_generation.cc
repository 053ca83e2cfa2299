#include "grille/server/prepared_generation.h"

#include <algorithm>
#include <random>
#include <utility>

namespace grille::server {
namespace {

using Ids = std::vector<std::int32_t>;

std::uint64_t random_seed() {
  thread_local std::mt19937_64 generator{std::random_device{}()};
  return generator();
}

void truncate(Ids& ids, const GenerationRequest& request, const ServedModel& model) {
  if (!request.truncate_prompt_tokens) return;
  std::int64_t keep = *request.truncate_prompt_tokens;
  const std::int64_t output = std::max<std::int64_t>(1, request.max_tokens.value_or(1));
  if (keep == -1) keep = std::max<std::int64_t>(1, model.max_positions - output);
  const auto size = static_cast<std::int64_t>(ids.size());
  if (size > keep) ids.erase(ids.begin(), ids.begin() + (size - keep));
}

// How many tokens a prompt of `length` may be answered with.
std::int64_t output_tokens(std::int64_t length, const GenerationRequest& request, const ServedModel& model,
                           const GenerationLimits& limits) {
  if (length == 0) refuse("prompt", "it has no tokens; give some text");
  const std::int64_t room = model.max_positions - length;
  const std::int64_t most = limits.max_tokens > 0 ? limits.max_tokens : model.max_positions;
  const std::int64_t wanted = std::max<std::int64_t>(1, request.max_tokens.value_or(std::min(room, most)));
  if (wanted > room) {
    refuse("max_tokens",
           "this model's maximum context length is {} tokens; the request has {} in the prompt and asks for "
           "{} more",
           model.max_positions, length, wanted);
  }
  if (wanted > most)
    refuse("max_tokens", "{} asked for; this server gives at most {} a request", wanted, most);
  if (request.min_tokens > wanted)
    refuse("min_tokens", "{} is more than max_tokens {}", request.min_tokens, wanted);
  return wanted;
}

void add_requests(PreparedGeneration& prepared, const ServedModel& model, const GenerationLimits& limits) {
  const GenerationRequest& request = prepared.request;
  for (const PreparedPrompt& prompt : prepared.prompts) {
    engine::Request asked;
    asked.prompt = prompt.ids;
    asked.max_tokens = output_tokens(static_cast<std::int64_t>(prompt.ids.size()), request, model, limits);
    asked.min_tokens = request.min_tokens;
    asked.stop_tokens = request.stop_token_ids;
    if (!request.ignore_eos) {
      const Ids& eos = model.tokenizer.eos_ids();
      asked.stop_tokens.insert(asked.stop_tokens.end(), eos.begin(), eos.end());
    }
    asked.sampling = request.sampling;
    asked.top_logprobs = request.logprobs ? request.top_logprobs : 0;
    asked.prompt_logprobs = prepared.echo && request.logprobs;
    for (std::int64_t i = 0; i < request.n; ++i) {
      // Choices differ, and are the same again with the same seed.
      asked.sampling.seed = request.seed ? *request.seed + static_cast<std::uint64_t>(i) : random_seed();
      prepared.requests.push_back(asked);
    }
  }
}

}  // namespace

Ids encode_text(std::string_view text, bool add_special_tokens, const ServedModel& model) {
  try {
    return model.tokenizer.encode(text, add_special_tokens);
  } catch (const Error& error) {
    throw ApiError(status_of(error.code()), error.what(), "prompt");
  }
}

std::string render_chat(const Json& messages, const Json& variables, bool add_generation_prompt,
                        const ServedModel& model) {
  if (!model.chat_template) {
    throw ApiError(Status::kBadRequest, "this model has no chat template; use /v1/completions", "messages");
  }
  text::ChatOptions options;
  options.add_generation_prompt = add_generation_prompt;
  options.variables = variables;
  try {
    return model.chat_template->render(messages, options);
  } catch (const Error& error) {
    throw ApiError(status_of(error.code()), error.what(), "messages");
  }
}

PreparedGeneration prepare_completion(CompletionRequest request, const ServedModel& model,
                                      const GenerationLimits& limits) {
  PreparedGeneration prepared;
  prepared.request = std::move(request.generation);
  prepared.echo = request.echo;
  prepared.prompt_only = *prepared.request.max_tokens == 0;
  for (PromptInput& input : request.prompts) {
    PreparedPrompt prompt;
    if (auto* ids = std::get_if<Ids>(&input)) {
      prompt.ids = std::move(*ids);
    } else {
      prompt.text = std::move(std::get<std::string>(input));
      prompt.ids = encode_text(prompt.text, prepared.request.add_special_tokens, model);
    }
    const std::size_t length = prompt.ids.size();
    truncate(prompt.ids, prepared.request, model);
    const bool text_is_known = !prompt.text.empty() && prompt.ids.size() == length;
    if (!prepared.echo) prompt.text.clear();
    if (prepared.echo && !text_is_known) prompt.text = model.tokenizer.decode(prompt.ids);
    prepared.prompts.push_back(std::move(prompt));
  }
  add_requests(prepared, model, limits);
  return prepared;
}

PreparedGeneration prepare_chat(ChatRequest request, const ServedModel& model,
                                const GenerationLimits& limits) {
  PreparedGeneration prepared;
  prepared.chat = true;
  prepared.request = std::move(request.generation);
  const std::string text =
      render_chat(request.messages, request.variables, request.add_generation_prompt, model);
  PreparedPrompt prompt;
  prompt.ids = encode_text(text, prepared.request.add_special_tokens, model);
  truncate(prompt.ids, prepared.request, model);
  prepared.prompts.push_back(std::move(prompt));
  add_requests(prepared, model, limits);
  return prepared;
}

}  // namespace grille::server
