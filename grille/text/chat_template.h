// A model's chat template (Jinja): messages to the prompt it was trained on.
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "grille/text/tokenizer.h"

namespace grille::text {

struct ChatOptions {
  bool add_generation_prompt = true;
  // More variables: tools, documents, date_string, enable_thinking, … An object; it wins over the others.
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  // What strftime_now tells; absent: the local time.
  std::optional<std::tm> now;
};

// As transformers renders it: trim_blocks, lstrip_blocks, raise_exception, strftime_now, tojson like
// json.dumps, Python's methods, break and continue, `{% generation %}` without effect. Values print as
// Python prints them (True, None).
//
// A template is a file from a stranger: steps, recursion, memory and size are bounded. Immutable; safe
// to use from several threads.
class ChatTemplate {
 public:
  // Throws Error{kCorruptData} with the template's line when it does not compile.
  ChatTemplate(std::string_view source, std::string bos_token, std::string eos_token);

  // The template that the model's files name. Throws Error{kUnsupported} when there is none.
  static ChatTemplate of(const Tokenizer& tokenizer, std::string_view name = "default");

  // A conversation as one JSON object, {"messages": […], "tools": […], …}, taken as it is: every member
  // is a variable. For lines of files, whose objects may be large. Throws as the other render.
  std::string render_object(std::string_view conversation, const ChatOptions& options = {}) const;

  // `messages`: a list of {"role", "content", …}. Key order matters to templates that print an object:
  // parse requests as ordered_json. Throws Error{kInvalidArgument}: "chat template: line 3: …", or the
  // template's own words when it calls raise_exception.
  std::string render(const nlohmann::ordered_json& messages, const ChatOptions& options = {}) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace grille::text
