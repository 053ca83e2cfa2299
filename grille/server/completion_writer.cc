#include <algorithm>
#include <utility>

#include "grille/server/response_writer.h"

namespace grille::server {
namespace {

class CompletionWriter final : public ResponseWriter {
 public:
  CompletionWriter(const PreparedGeneration& prepared, AnswerHeader header, const text::Tokenizer& tokenizer)
      : request_(prepared.request),
        header_(std::move(header)),
        tokenizer_(tokenizer),
        offsets_(prepared.choices(), 0) {}

  Json answer(const std::vector<ChoiceDelta>& choices, const Usage& usage) override {
    Json list = Json::array();
    for (std::size_t i = 0; i < choices.size(); ++i) list.push_back(choice(i, choices[i]));
    Json result = envelope(std::move(list));
    result["usage"] = usage_json(usage);
    return result;
  }

  Json opening(std::size_t) override { return nullptr; }

  Json chunk(std::size_t index, const ChoiceDelta& delta) override {
    return envelope(Json::array({choice(index, delta)}));
  }

  Json usage_chunk(const Usage& usage) override {
    Json result = envelope(Json::array());
    result["usage"] = usage_json(usage);
    return result;
  }

 private:
  Json envelope(Json choices) const {
    return {{"id", header_.id},
            {"object", "text_completion"},
            {"created", header_.created},
            {"model", request_.model},
            {"choices", std::move(choices)}};
  }

  Json choice(std::size_t index, const ChoiceDelta& delta) {
    return {{"index", index},
            {"text", delta.text},
            {"logprobs", request_.logprobs ? logprobs(index, delta.logprobs) : Json()},
            {"finish_reason", delta.finished() ? Json(delta.finish_reason) : Json()},
            {"stop_reason", delta.stop_reason}};
  }

  // Offsets count characters from the beginning of the choice's text, over all chunks of a stream.
  Json logprobs(std::size_t index, const std::vector<LogprobEntry>& entries) {
    Json text_offset = Json::array();
    Json token_logprobs = Json::array();
    Json tokens = Json::array();
    Json top_logprobs = Json::array();
    for (const LogprobEntry& entry : entries) {
      std::string text = token_text(entry.token, request_.tokens_as_ids, tokenizer_);
      text_offset.push_back(offsets_[index]);
      offsets_[index] += count_characters(text);
      token_logprobs.push_back(entry.logprob ? Json(finite_logprob(*entry.logprob)) : Json());
      top_logprobs.push_back(top(entry, text));
      tokens.push_back(std::move(text));
    }
    return {{"text_offset", std::move(text_offset)},
            {"token_logprobs", std::move(token_logprobs)},
            {"tokens", std::move(tokens)},
            {"top_logprobs", std::move(top_logprobs)}};
  }

  // The token itself and the most probable ones. Different tokens may have the same text: the highest stays,
  // so that the token was the best one exactly if its log-probability is the largest here.
  Json top(const LogprobEntry& entry, const std::string& text) const {
    if (!entry.logprob) return nullptr;
    Json result = Json::object();
    result[text] = finite_logprob(*entry.logprob);
    for (const engine::TokenLogprob& other : entry.top) {
      const std::string other_text = token_text(other.token, request_.tokens_as_ids, tokenizer_);
      const double logprob = finite_logprob(other.logprob);
      const auto found = result.find(other_text);
      if (found == result.end()) {
        result[other_text] = logprob;
      } else if (found->get<double>() < logprob) {
        *found = logprob;
      }
    }
    return result;
  }

  const GenerationRequest& request_;
  const AnswerHeader header_;
  const text::Tokenizer& tokenizer_;
  std::vector<std::int64_t> offsets_;
};

}  // namespace

std::unique_ptr<ResponseWriter> completion_writer(const PreparedGeneration& prepared, AnswerHeader header,
                                                  const text::Tokenizer& tokenizer) {
  return std::make_unique<CompletionWriter>(prepared, std::move(header), tokenizer);
}

}  // namespace grille::server
