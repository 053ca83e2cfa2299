#include <algorithm>
#include <limits>
#include <utility>

#include "grille/engine/engine.h"
#include "grille/server/generation_request.h"

namespace grille::server {
namespace {

// A content as a string: parts of text are joined by newlines.
Json content_text(const Json& content) {
  if (content.is_string() || content.is_null()) return content;
  if (!content.is_array()) refuse("messages", "content: expected a string or a list of parts");
  std::string text;
  for (const Json& part : content) {
    const bool is_text = part.is_object() && part.contains("text") && part["text"].is_string() &&
                         part.value("type", Json("text")) == "text";
    if (!is_text) refuse("messages", "content: only parts of type text are supported");
    if (&part != &content.front()) text += "\n";
    text += part["text"].get_ref<const std::string&>();
  }
  return text;
}

void read_template_options(JsonFields& fields, ChatRequest& request) {
  request.variables = Json::object();
  const Json* variables = fields.object("chat_template_kwargs");
  if (variables != nullptr) request.variables = *variables;
  request.add_generation_prompt = fields.boolean("add_generation_prompt").value_or(true);
  for (const char* name : {"tools", "functions", "documents", "chat_template", "reasoning_effort", "audio",
                           "prediction", "web_search_options", "mm_processor_kwargs", "verbosity"}) {
    fields.unsupported(name);
  }
  fields.unsupported("tool_choice", "none");
  fields.unsupported("function_call", "none");
  fields.unsupported("continue_final_message", false);
  fields.unsupported("echo", false);
  fields.unsupported("store", false);
  fields.unsupported("modalities", Json::array({"text"}));
  fields.ignore({"parallel_tool_calls", "include_reasoning"});
}

}  // namespace

Json read_messages(JsonFields& fields) {
  const Json* messages = fields.array("messages");
  if (messages == nullptr || messages->empty()) refuse("messages", "expected a list that is not empty");
  Json result = Json::array();
  for (const Json& message : *messages) {
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string())
      refuse("messages", "expected objects with a role");
    for (const char* name : {"tool_calls", "function_call", "audio"}) {
      if (message.contains(name) && !message[name].is_null() && !message[name].empty())
        refuse("messages", "{} is not supported by this server", name);
    }
    Json copy = message;
    copy["content"] = content_text(message.contains("content") ? message["content"] : Json());
    if (copy["content"].is_null()) refuse("messages", "a message has no content");
    result.push_back(std::move(copy));
  }
  return result;
}

ChatRequest parse_chat(const Json& body, const ServedModel& model, const GenerationLimits& limits) {
  JsonFields fields(body);
  ChatRequest request;
  request.generation = read_generation(fields, model);
  GenerationRequest& generation = request.generation;
  request.messages = read_messages(fields);
  read_template_options(fields, request);
  generation.logprobs = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, engine::kMaxTopLogprobs);
  if (top.value_or(0) > 0 && !generation.logprobs)
    refuse("top_logprobs", "only allowed together with logprobs: true");
  generation.top_logprobs = top.value_or(0);
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  generation.max_tokens = fields.integer("max_completion_tokens", 1, kMax);
  const auto older_name = fields.integer("max_tokens", 1, kMax);
  if (!generation.max_tokens) generation.max_tokens = older_name;
  // The template writes the special tokens itself.
  generation.add_special_tokens = fields.boolean("add_special_tokens").value_or(false);
  if (generation.n > limits.max_choices)
    refuse("n", "{} choices; the most is {}", generation.n, limits.max_choices);
  for (std::string& name : fields.unknown()) generation.unknown_fields.push_back(std::move(name));
  return request;
}

}  // namespace grille::server
