// One completion or chat request from admission to the last byte of its answer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "grille/server/http_connection.h"
#include "grille/server/outbox.h"
#include "grille/server/prepared_generation.h"
#include "grille/server/response_writer.h"
#include "grille/server/server_context.h"

namespace grille::server {

// What the log says of a request.
struct GenerationOutcome {
  int status = 0;  // 499: the client left, or did not read, before the end
  Usage usage;
  bool keep_connection = false;
};

class GenerationSession {
 public:
  // `headers`: for the answer, beside its own.
  GenerationSession(HttpConnection& connection, ServerContext& context, const HttpRequest& request,
                    PreparedGeneration prepared, HttpHeaders headers);
  // Aborts what has not ended.
  ~GenerationSession();
  GenerationSession(const GenerationSession&) = delete;
  GenerationSession& operator=(const GenerationSession&) = delete;

  // Throws ApiError while no byte of an answer is written.
  boost::asio::awaitable<GenerationOutcome> run();

 private:
  using Entries = std::vector<Outbox::Entry>;
  struct Choice {
    Choice(const PreparedGeneration& prepared, std::size_t index, const ServedModel& model)
        : stream(prepared, index, model) {}
    ChoiceStream stream;
    ChoiceTiming timing;
    ChoiceDelta whole;  // of an answer that is not streamed
    engine::Ticket ticket = 0;
    bool accepted = false;
    bool engine_done = false;  // the engine has ended it
  };

  void submit();
  boost::asio::awaitable<bool> wait_for_acceptance();
  boost::asio::awaitable<bool> write_whole();
  boost::asio::awaitable<bool> write_stream();
  boost::asio::awaitable<bool> write_choices();
  void append_chunks(const Entries& entries, std::string& out);
  ChoiceDelta take(const Outbox::Entry& entry);
  void measure(Choice& choice, const engine::TokenEvent& event, const Outbox::Entry& entry);
  void end_choice(Choice& choice, const std::string& reason);
  void abort_all();
  bool finished() const;
  Usage usage() const;

  HttpConnection& connection_;
  ServerContext& context_;
  const HttpRequest& request_;
  PreparedGeneration prepared_;
  HttpHeaders headers_;
  std::unique_ptr<ResponseWriter> writer_;
  std::vector<Choice> choices_;
  std::shared_ptr<Outbox> outbox_;
  ChoiceTiming::Clock::time_point arrived_ = ChoiceTiming::Clock::now();
  std::int64_t cached_tokens_ = 0;
  bool gone_ = false;  // nobody reads any more
};

}  // namespace grille::server
