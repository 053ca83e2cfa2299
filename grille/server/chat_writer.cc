#include <utility>

#include "grille/server/response_writer.h"

namespace grille::server {
namespace {

class ChatWriter final : public ResponseWriter {
 public:
  ChatWriter(const PreparedGeneration& prepared, AnswerHeader header, const text::Tokenizer& tokenizer)
      : request_(prepared.request), header_(std::move(header)), tokenizer_(tokenizer) {}

  Json answer(const std::vector<ChoiceDelta>& choices, const Usage& usage) override {
    Json list = Json::array();
    for (std::size_t i = 0; i < choices.size(); ++i)
      list.push_back(choice(i, "message", {{"role", "assistant"}, {"content", choices[i].text}}, choices[i]));
    Json result = envelope("chat.completion", std::move(list));
    result["usage"] = usage_json(usage);
    return result;
  }

  Json opening(std::size_t index) override {
    return chunk_of(index, {{"role", "assistant"}, {"content", ""}}, {});
  }

  Json chunk(std::size_t index, const ChoiceDelta& delta) override {
    return chunk_of(index, {{"content", delta.text}}, delta);
  }

  Json usage_chunk(const Usage& usage) override {
    Json result = envelope("chat.completion.chunk", Json::array());
    result["usage"] = usage_json(usage);
    return result;
  }

 private:
  Json envelope(const char* object, Json choices) const {
    return {{"id", header_.id},
            {"object", object},
            {"created", header_.created},
            {"model", request_.model},
            {"choices", std::move(choices)}};
  }

  Json chunk_of(std::size_t index, Json content, const ChoiceDelta& delta) const {
    return envelope("chat.completion.chunk",
                    Json::array({choice(index, "delta", std::move(content), delta)}));
  }

  Json choice(std::size_t index, const char* content_name, Json content, const ChoiceDelta& delta) const {
    const bool show = request_.logprobs && !delta.logprobs.empty();
    return {{"index", index},
            {content_name, std::move(content)},
            {"logprobs", show ? logprobs(delta.logprobs) : Json()},
            {"finish_reason", delta.finished() ? Json(delta.finish_reason) : Json()},
            {"stop_reason", delta.stop_reason}};
  }

  Json token(std::int32_t id, float logprob) const {
    std::string text = token_text(id, request_.tokens_as_ids, tokenizer_);
    Json bytes = Json::array();
    for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
    return {{"token", std::move(text)}, {"logprob", finite_logprob(logprob)}, {"bytes", std::move(bytes)}};
  }

  Json logprobs(const std::vector<LogprobEntry>& entries) const {
    Json content = Json::array();
    for (const LogprobEntry& entry : entries) {
      Json shown = token(entry.token, entry.logprob.value_or(0.0f));
      Json top = Json::array();
      for (const engine::TokenLogprob& other : entry.top) top.push_back(token(other.token, other.logprob));
      shown["top_logprobs"] = std::move(top);
      content.push_back(std::move(shown));
    }
    return {{"content", std::move(content)}};
  }

  const GenerationRequest& request_;
  const AnswerHeader header_;
  const text::Tokenizer& tokenizer_;
};

}  // namespace

std::unique_ptr<ResponseWriter> chat_writer(const PreparedGeneration& prepared, AnswerHeader header,
                                            const text::Tokenizer& tokenizer) {
  return std::make_unique<ChatWriter>(prepared, std::move(header), tokenizer);
}

}  // namespace grille::server
