// Answers in the two APIs' forms, whole or as chunks of a stream.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "grille/server/choice_stream.h"

namespace grille::server {

struct Usage {
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::int64_t cached_tokens = 0;  // of the prompts, that the prefix cache supplied
};

// What an answer says about itself.
struct AnswerHeader {
  std::string id;
  std::int64_t created = 0;  // seconds since 1970
};

// Not thread-safe: one answer's.
class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;
  // The whole answer; choices in order, each as one delta.
  virtual Json answer(const std::vector<ChoiceDelta>& choices, const Usage& usage) = 0;
  // What a stream shows of a choice before its first token; null: nothing.
  virtual Json opening(std::size_t index) = 0;
  virtual Json chunk(std::size_t index, const ChoiceDelta& delta) = 0;
  // The chunk without choices that ends a stream, for stream_options.include_usage.
  virtual Json usage_chunk(const Usage& usage) = 0;
};

// `prepared` and `tokenizer` must outlive it.
std::unique_ptr<ResponseWriter> completion_writer(const PreparedGeneration& prepared, AnswerHeader header,
                                                  const text::Tokenizer& tokenizer);
std::unique_ptr<ResponseWriter> chat_writer(const PreparedGeneration& prepared, AnswerHeader header,
                                            const text::Tokenizer& tokenizer);

Json usage_json(const Usage& usage);

// A token's text in log-probabilities, or "token_id:17".
std::string token_text(std::int32_t token, bool as_id, const text::Tokenizer& tokenizer);

// JSON has no infinities: a log-probability of -inf is written as -9999.
double finite_logprob(float logprob);

// Characters of UTF-8 text.
std::int64_t count_characters(std::string_view text);

std::string to_text(const Json& json);

}  // namespace grille::server
