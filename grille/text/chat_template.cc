#include "grille/text/chat_template.h"

#include <algorithm>
#include <utility>

#include "grille/base/error.h"
#include "grille/text/rust_call.h"

namespace grille::text {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxDepth = 100;

struct FreeTemplate {
  void operator()(grille_text_template* handle) const { grille_text_template_free(handle); }
};

// dump() recurses, so depth is looked at first, without recursing deeper than allowed.
void check_depth(const Json& value, int left) {
  check(left > 0, ErrorCode::kInvalidArgument, "chat template: messages are nested more than {} deep",
        kMaxDepth);
  if (!value.is_structured()) return;
  for (const Json& item : value) check_depth(item, left - 1);
}

std::string dump(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return local;
}

std::size_t write_time(void* context, const char* format, char* out, std::size_t capacity) {
  return std::strftime(out, capacity, format, static_cast<const std::tm*>(context));
}

}  // namespace

struct ChatTemplate::State {
  std::unique_ptr<grille_text_template, FreeTemplate> handle;
  std::string bos_token;
  std::string eos_token;
};

ChatTemplate::ChatTemplate(std::string_view source, std::string bos_token, std::string eos_token) {
  auto state = std::make_shared<State>();
  grille_text_template* handle = nullptr;
  grille_text_bytes error{};
  const auto status = grille_text_template_new(source.data(), source.size(), &handle, &error);
  state->handle.reset(handle);
  check_status(status, error, "chat template");
  state->bos_token = std::move(bos_token);
  state->eos_token = std::move(eos_token);
  state_ = std::move(state);
}

ChatTemplate ChatTemplate::of(const Tokenizer& tokenizer, std::string_view name) {
  const std::string source = tokenizer.chat_template(name);
  check(!source.empty(), ErrorCode::kUnsupported,
        "this model has no chat template ('{}'): use plain completion, or give it a chat_template.jinja",
        name);
  return ChatTemplate(source, tokenizer.config().bos_token, tokenizer.config().eos_token);
}

std::string ChatTemplate::render(const Json& messages, const ChatOptions& options) const {
  check(messages.is_array(), ErrorCode::kInvalidArgument, "chat template: messages must be a list");
  check_depth(messages, kMaxDepth);
  return render_object(dump({{"messages", messages}}), options);
}

std::string ChatTemplate::render_object(std::string_view conversation, const ChatOptions& options) const {
  check(options.variables.is_object(), ErrorCode::kInvalidArgument,
        "chat template: variables must be an object");
  check_depth(options.variables, kMaxDepth);
  // Objects are joined as text (the last of equal members counts): a tree of a large one would be slow.
  const std::size_t open = conversation.find('{');
  const std::size_t close = conversation.rfind('}');
  check(open != std::string_view::npos && close != std::string_view::npos && open < close,
        ErrorCode::kInvalidArgument, "chat template: a conversation must be a JSON object");
  const std::string defaults = dump({{"tools", nullptr},
                                     {"documents", nullptr},
                                     {"add_generation_prompt", options.add_generation_prompt},
                                     {"bos_token", state_->bos_token},
                                     {"eos_token", state_->eos_token}});
  std::string json = defaults.substr(0, defaults.size() - 1);
  const auto append = [&](std::string_view members) {
    if (members.find_first_not_of(" \t\r\n") != std::string_view::npos) json.append(",").append(members);
  };
  append(conversation.substr(open + 1, close - open - 1));
  const std::string given = dump(options.variables);
  append(std::string_view(given).substr(1, given.size() - 2));
  json += "}";

  std::tm now = options.now.value_or(local_time());
  grille_text_bytes text{};
  grille_text_bytes error{};
  const auto status = grille_text_template_render(state_->handle.get(), json.data(), json.size(), write_time,
                                                  &now, &text, &error);
  check_status(status, error, "chat template");
  return take(text);
}

}  // namespace grille::text
