#include "grille/server/generation_request.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "grille/engine/engine.h"

namespace grille::server {
namespace {

constexpr std::int64_t kMaxInt = std::numeric_limits<std::int64_t>::max();
// Every new piece of text is searched for each stop string.
constexpr std::size_t kMaxStops = 64;
constexpr std::size_t kMaxStopBytes = 1024;

void add_stop(const Json& value, std::vector<std::string>& stops) {
  if (!value.is_string()) refuse("stop", "expected a string or a list of strings");
  std::string text = value.get<std::string>();
  if (text.empty()) refuse("stop", "an empty string would stop at once; leave it out");
  if (text.size() > kMaxStopBytes)
    refuse("stop", "a string of {} bytes; the most is {}", text.size(), kMaxStopBytes);
  stops.push_back(std::move(text));
}

std::vector<std::string> read_stop(JsonFields& fields) {
  std::vector<std::string> stops;
  const Json* value = fields.find("stop");
  if (value == nullptr) return stops;
  if (!value->is_array()) {
    add_stop(*value, stops);
    return stops;
  }
  if (value->size() > kMaxStops) refuse("stop", "{} strings; the most is {}", value->size(), kMaxStops);
  for (const Json& entry : *value) add_stop(entry, stops);
  return stops;
}

// {"17": -100, ...}: token id -> what is added to its logit.
void read_logit_bias(JsonFields& fields, const ServedModel& model, engine::SamplingOptions& sampling) {
  const Json* bias = fields.object("logit_bias");
  if (bias == nullptr) return;
  for (const auto& item : bias->items()) {
    const std::string& key = item.key();
    const bool digits =
        !key.empty() && key.size() < 10 && key.find_first_not_of("0123456789") == std::string::npos;
    const std::int64_t id = digits ? std::stoll(key) : -1;
    if (id < 0 || id >= model.vocab_size)
      refuse("logit_bias", "a key is not a token id from 0 to {}", model.vocab_size - 1);
    const double value = item.value().is_number() ? item.value().get<double>() : std::nan("");
    if (!(value >= -100 && value <= 100))
      refuse("logit_bias", "token {}: expected a number from -100 to 100", id);
    sampling.logit_bias.emplace_back(static_cast<std::int32_t>(id), static_cast<float>(value));
  }
}

engine::SamplingOptions read_sampling(JsonFields& fields, const ServedModel& model) {
  const SamplingDefaults& defaults = model.defaults;
  engine::SamplingOptions sampling;
  sampling.temperature = fields.number("temperature", 0, 100).value_or(defaults.temperature);
  sampling.top_p = fields.number("top_p", 0, 1).value_or(defaults.top_p);
  sampling.top_k = fields.integer("top_k", -1, kMaxInt).value_or(defaults.top_k);
  if (sampling.top_k == -1) sampling.top_k = 0;
  sampling.min_p = fields.number("min_p", 0, 1).value_or(defaults.min_p);
  sampling.repetition_penalty =
      fields.number("repetition_penalty", 0, 100).value_or(defaults.repetition_penalty);
  sampling.frequency_penalty = fields.number("frequency_penalty", -2, 2).value_or(0);
  sampling.presence_penalty = fields.number("presence_penalty", -2, 2).value_or(0);
  read_logit_bias(fields, model, sampling);
  try {
    engine::check_sampling(sampling);
  } catch (const Error& error) {
    throw ApiError(Status::kBadRequest, error.what());
  }
  return sampling;
}

void read_stream(JsonFields& fields, GenerationRequest& request) {
  request.stream = fields.boolean("stream").value_or(false);
  const Json* options = fields.object("stream_options");
  if (options == nullptr) return;
  if (!request.stream) refuse("stream_options", "only allowed together with stream: true");
  JsonFields inner(*options, "stream_options.");
  request.include_usage = inner.boolean("include_usage").value_or(false);
  request.continuous_usage = request.include_usage && inner.boolean("continuous_usage_stats").value_or(false);
  inner.ignore({"include_obfuscation", "continuous_usage_stats"});
  for (std::string& name : inner.unknown()) request.unknown_fields.push_back(std::move(name));
}

// What vLLM or OpenAI know in both APIs and we do not do; what changes nothing passes.
void check_unsupported(JsonFields& fields) {
  for (const char* name : {"structured_outputs", "guided_json", "guided_regex", "guided_choice",
                           "guided_grammar", "logits_processors", "bad_words", "allowed_token_ids",
                           "prompt_logprobs", "cache_salt", "kv_transfer_params", "vllm_xargs"}) {
    fields.unsupported(name);
  }
  fields.unsupported("use_beam_search", false);
  fields.unsupported("return_token_ids", false);
  fields.unsupported("spaces_between_special_tokens", true);
  fields.unsupported("priority", 0);
  const Json* penalty = fields.find("length_penalty");
  if (penalty != nullptr && *penalty != 1)
    refuse("length_penalty", "only for beam search, which is not supported");
  const Json* format = fields.object("response_format");
  if (format != nullptr && format->value("type", Json()) != "text")
    refuse("response_format", "only {{\"type\": \"text\"}} is supported by this server");
  fields.ignore({"user", "request_id", "metadata", "service_tier", "safety_identifier", "prompt_cache_key"});
}

}  // namespace

std::string read_model(JsonFields& fields, const ServedModel& model) {
  const std::string name = fields.string("model").value_or(model.names.front());
  if (std::find(model.names.begin(), model.names.end(), name) == model.names.end())
    throw ApiError(Status::kNotFound, fmt::format("The model `{}` does not exist.", name), "model");
  return name;
}

GenerationRequest read_generation(JsonFields& fields, const ServedModel& model) {
  GenerationRequest request;
  request.model = read_model(fields, model);
  request.sampling = read_sampling(fields, model);
  const auto seed = fields.integer("seed", std::numeric_limits<std::int64_t>::min(), kMaxInt);
  if (seed) request.seed = static_cast<std::uint64_t>(*seed);
  request.n = fields.integer("n", 1, 1 << 20).value_or(1);
  request.min_tokens = fields.integer("min_tokens", 0, kMaxInt).value_or(0);
  request.stop = read_stop(fields);
  request.stop_token_ids = fields.ids("stop_token_ids", model.vocab_size - 1);
  request.include_stop = fields.boolean("include_stop_str_in_output").value_or(false);
  request.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  request.skip_special_tokens = fields.boolean("skip_special_tokens").value_or(true);
  request.tokens_as_ids = fields.boolean("return_tokens_as_token_ids").value_or(false);
  request.truncate_prompt_tokens = fields.integer("truncate_prompt_tokens", -1, kMaxInt);
  if (request.truncate_prompt_tokens == 0) refuse("truncate_prompt_tokens", "expected at least 1, or -1");
  read_stream(fields, request);
  check_unsupported(fields);
  return request;
}

}  // namespace grille::server
