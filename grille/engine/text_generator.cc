#include "grille/engine/text_generator.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "grille/base/error.h"
#include "grille/base/interrupt.h"
#include "grille/text/chat_template.h"
#include "grille/text/detokenizer.h"

namespace grille::engine {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Length of the longest suffix of `text` that is a proper prefix of `stop`.
std::size_t partial_match(std::string_view text, std::string_view stop) {
  for (std::size_t length = std::min(text.size(), stop.size() - 1); length > 0; --length) {
    if (text.substr(text.size() - length) == stop.substr(0, length)) return length;
  }
  return 0;
}

// Aborts the request when the caller leaves early, so that its cache is freed.
struct AbortGuard {
  Engine& engine;
  RequestId request;
  ~AbortGuard() { engine.abort(request); }
};

}  // namespace

std::string StopMatcher::push(std::string_view text) {
  if (stopped()) return {};
  held_.append(text);
  std::size_t first = std::string::npos;
  for (std::size_t i = 0; i < stops_.size(); ++i) {
    const std::size_t place = held_.find(stops_[i]);
    if (place < first) {
      first = place;
      matched_ = i;
    }
  }
  std::size_t safe = held_.size();
  if (stopped()) {
    safe = first;
  } else {
    for (const std::string& stop : stops_) safe = std::min(safe, held_.size() - partial_match(held_, stop));
  }
  std::string ready = held_.substr(0, safe);
  held_.erase(0, safe);
  return ready;
}

std::string StopMatcher::flush() {
  if (stopped()) return {};
  return std::exchange(held_, {});
}

Generation generate(Engine& engine, const text::Tokenizer& tokenizer, const std::vector<std::int32_t>& prompt,
                    const GenerationOptions& options, const TextCallback& on_text) {
  Generation result;
  result.prompt_tokens = static_cast<std::int64_t>(prompt.size());
  for (const std::string& stop : options.stop) {
    check(!stop.empty(), ErrorCode::kInvalidArgument,
          "stop: an empty string would stop at once; leave it out");
  }
  const auto begin = std::chrono::steady_clock::now();
  Request submitted;
  submitted.prompt = prompt;
  submitted.max_tokens = options.max_tokens;
  submitted.stop_tokens = tokenizer.eos_ids();
  submitted.sampling = options.sampling;
  const RequestId request = engine.submit(std::move(submitted));
  const AbortGuard guard{engine, request};

  text::Detokenizer detokenizer(tokenizer);
  StopMatcher matcher(options.stop);
  const auto show = [&](const std::string& piece) {
    result.text += piece;
    if (on_text && !piece.empty()) on_text(piece);
  };
  bool finished = false;
  auto first_token = begin;
  while (!finished) {
    throw_if_interrupted();
    for (const TokenEvent& event : engine.step()) {
      if (event.request != request) continue;
      if (event.error) throw Error(*event.error);
      if (result.token_ids.empty()) {
        first_token = std::chrono::steady_clock::now();
        result.prompt_seconds = seconds_since(begin);
      }
      result.token_ids.push_back(event.token);
      const bool stop_token = event.finish == FinishReason::kStop;
      if (!stop_token) show(matcher.push(detokenizer.push(event.token)));
      if (event.finish && !stop_token) show(matcher.push(detokenizer.flush()));
      finished = event.finish.has_value() || matcher.stopped();
      if (finished) result.finish_reason = stop_token || matcher.stopped() ? "stop" : "length";
    }
  }
  show(matcher.flush());
  result.decode_seconds = seconds_since(first_token);
  return result;
}

std::vector<std::int32_t> encode_prompt(const text::Tokenizer& tokenizer, const std::string& prompt) {
  return tokenizer.encode(prompt, /*add_special_tokens=*/true);
}

std::vector<std::int32_t> encode_chat(const text::Tokenizer& tokenizer,
                                      const nlohmann::ordered_json& messages) {
  // The template writes the special tokens itself.
  return tokenizer.encode(text::ChatTemplate::of(tokenizer).render(messages), /*add_special_tokens=*/false);
}

}  // namespace grille::engine
