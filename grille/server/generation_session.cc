#include "grille/server/generation_session.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include <spdlog/spdlog.h>

#include "grille/server/sse.h"

namespace grille::server {

namespace asio = boost::asio;

namespace {

std::string refusal_message(engine::Refusal refusal) {
  switch (refusal) {
    case engine::Refusal::kQueueFull: return "the queue is full; try again later";
    case engine::Refusal::kDraining: return "the server is shutting down";
    case engine::Refusal::kBroken: return "the engine has failed; restart the server";
  }
  return "refused";
}

std::unique_ptr<ResponseWriter> writer_for(const PreparedGeneration& prepared, const HttpRequest& request,
                                           const text::Tokenizer& tokenizer) {
  const auto now = static_cast<std::int64_t>(std::time(nullptr));
  if (prepared.chat) return chat_writer(prepared, {"chatcmpl-" + request.request_id, now}, tokenizer);
  return completion_writer(prepared, {"cmpl-" + request.request_id, now}, tokenizer);
}

double seconds(ChoiceTiming::Clock::duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

GenerationSession::GenerationSession(HttpConnection& connection, ServerContext& context,
                                     const HttpRequest& request, PreparedGeneration prepared,
                                     HttpHeaders headers)
    : connection_(connection),
      context_(context),
      request_(request),
      prepared_(std::move(prepared)),
      headers_(std::move(headers)) {
  writer_ = writer_for(prepared_, request_, context_.model.tokenizer);
  choices_.reserve(prepared_.choices());
  for (std::size_t i = 0; i < prepared_.choices(); ++i) choices_.emplace_back(prepared_, i, context_.model);
  outbox_ = std::make_shared<Outbox>(
      connection_.executor(), context_.options.max_pending_events * prepared_.choices(), [this] {
        spdlog::warn("{}: aborted: its client reads too slowly", request_.request_id);
        abort_all();
        gone_ = true;
        connection_.close();
        outbox_->wake();
      });
}

GenerationSession::~GenerationSession() {
  outbox_->close();
  connection_.unwatch();
  abort_all();
}

asio::awaitable<GenerationOutcome> GenerationSession::run() {
  submit();
  connection_.watch([this] {
    gone_ = true;
    abort_all();
    outbox_->wake();
  });
  bool written = co_await wait_for_acceptance();
  if (written) {
    if (prepared_.request.stream) {
      written = co_await write_stream();
    } else {
      written = co_await write_whole();
    }
  }
  const int status = written ? static_cast<int>(Status::kOk) : 499;
  co_return GenerationOutcome{status, usage(), written};
}

void GenerationSession::submit() {
  engine::Admission admission =
      context_.loop.submit(std::move(prepared_.requests),
                           [outbox = outbox_](std::size_t index, const engine::RequestEvent& event) {
                             outbox->push(index, event);
                           });
  if (const auto* refusal = std::get_if<engine::Refusal>(&admission))
    throw ApiError(Status::kUnavailable, refusal_message(*refusal));
  const auto& tickets = std::get<std::vector<engine::Ticket>>(admission);
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    choices_[i].ticket = tickets[i];
    choices_[i].timing.arrived = arrived_;
  }
}

// The engine says whether a request is valid before an answer begins.
asio::awaitable<bool> GenerationSession::wait_for_acceptance() {
  const auto waiting = [&] {
    return std::any_of(choices_.begin(), choices_.end(),
                       [](const Choice& choice) { return !choice.accepted; });
  };
  while (waiting()) {
    const Entries entries = co_await outbox_->take();
    if (gone_) co_return false;
    for (const Outbox::Entry& entry : entries) {
      Choice& choice = choices_[entry.index];
      // A first token may come along with the acceptance.
      choice.whole.append(take(entry));
      if (std::holds_alternative<engine::RequestAccepted>(entry.event)) choice.accepted = true;
    }
  }
  co_return true;
}

asio::awaitable<bool> GenerationSession::write_whole() {
  while (!finished()) {
    const Entries entries = co_await outbox_->take();
    if (gone_) co_return false;
    for (const Outbox::Entry& entry : entries) choices_[entry.index].whole.append(take(entry));
  }
  std::vector<ChoiceDelta> deltas;
  deltas.reserve(choices_.size());
  for (Choice& choice : choices_) deltas.push_back(std::move(choice.whole));
  HttpReply reply = json_reply(to_text(writer_->answer(deltas, usage())));
  reply.headers = headers_;
  reply.close = context_.draining;
  const bool written = co_await connection_.write(reply, request_);
  co_return written;
}

asio::awaitable<bool> GenerationSession::write_stream() {
  HttpReply head;
  head.content_type = "text/event-stream; charset=utf-8";
  head.headers = headers_;
  head.headers.emplace_back("Cache-Control", "no-cache");
  head.headers.emplace_back("X-Accel-Buffering", "no");  // nginx would collect the events
  head.close = context_.draining;
  bool written = co_await connection_.begin_stream(head, request_);
  if (!written) co_return false;
  std::string failure;
  try {
    written = co_await write_choices();
  } catch (const ApiError& error) {
    failure = error_body(error.status(), error.what(), error.param());
  } catch (const Error& error) {
    failure = error_body(status_of(error.code()), error.what());
  }
  if (!written) co_return false;
  std::string out;
  if (!failure.empty()) {
    out += sse_error(failure);
  } else if (prepared_.request.include_usage) {
    out += sse_event(writer_->usage_chunk(usage()));
  }
  out += sse_done();
  written = co_await connection_.write_stream(out);
  if (!written) co_return false;
  written = co_await connection_.end_stream();
  co_return written;
}

asio::awaitable<bool> GenerationSession::write_choices() {
  std::string out;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const Json opening = writer_->opening(i);
    if (!opening.is_null()) out += sse_event(opening);
    ChoiceDelta early = std::move(choices_[i].whole);
    if (!early.empty()) out += sse_event(writer_->chunk(i, early));
  }
  for (;;) {
    if (!out.empty()) {
      const bool written = co_await connection_.write_stream(out);
      if (!written || gone_) co_return false;
    }
    if (finished()) co_return true;
    out.clear();
    const Entries entries = co_await outbox_->take();
    if (gone_) co_return false;
    append_chunks(entries, out);
  }
}

void GenerationSession::append_chunks(const Entries& entries, std::string& out) {
  for (const Outbox::Entry& entry : entries) {
    const ChoiceDelta delta = take(entry);
    if (delta.empty()) continue;
    Json chunk = writer_->chunk(entry.index, delta);
    if (prepared_.request.continuous_usage) chunk["usage"] = usage_json(usage());
    out += sse_event(chunk);
  }
}

// What an event adds to its choice. Throws ApiError when the request failed.
ChoiceDelta GenerationSession::take(const Outbox::Entry& entry) {
  Choice& choice = choices_[entry.index];
  if (const auto* failure = std::get_if<engine::RequestFailure>(&entry.event)) {
    choice.engine_done = true;
    end_choice(choice, "error");
    throw ApiError(status_of(failure->code), failure->message);
  }
  const auto* event = std::get_if<engine::TokenEvent>(&entry.event);
  if (event == nullptr) return {};
  choice.engine_done = choice.engine_done || event->finish.has_value();
  if (choice.stream.finished()) return {};
  measure(choice, *event, entry);
  ChoiceDelta delta = choice.stream.push(*event);
  if (delta.finished()) {
    end_choice(choice, delta.finish_reason);
    if (!choice.engine_done) context_.loop.abort(choice.ticket);  // a stop string ended it
    choice.engine_done = true;
  }
  return delta;
}

void GenerationSession::measure(Choice& choice, const engine::TokenEvent& event, const Outbox::Entry& entry) {
  ChoiceTiming& timing = choice.timing;
  if (choice.stream.completion_tokens() == 0) {
    timing.first_token = entry.time;
    context_.metrics.count_prompt_tokens(static_cast<std::int64_t>(choice.stream.prompt().ids.size()));
    context_.metrics.observe_first_token(seconds(entry.time - timing.arrived));
    if (entry.index % static_cast<std::size_t>(prepared_.request.n) == 0)
      cached_tokens_ += event.cached_prompt_tokens;
  } else {
    context_.metrics.observe_next_token(seconds(entry.time - timing.last_token));
  }
  timing.last_token = entry.time;
}

void GenerationSession::end_choice(Choice& choice, const std::string& reason) {
  context_.metrics.observe_end(reason, choice.timing,
                               static_cast<std::int64_t>(choice.stream.prompt().ids.size()),
                               choice.stream.completion_tokens());
}

void GenerationSession::abort_all() {
  for (Choice& choice : choices_) {
    if (choice.engine_done || choice.ticket == 0) continue;
    context_.loop.abort(choice.ticket);
    choice.engine_done = true;
    end_choice(choice, "abort");
  }
}

bool GenerationSession::finished() const {
  return std::all_of(choices_.begin(), choices_.end(),
                     [](const Choice& choice) { return choice.stream.finished(); });
}

Usage GenerationSession::usage() const {
  Usage usage;
  for (const PreparedPrompt& prompt : prepared_.prompts)
    usage.prompt_tokens += static_cast<std::int64_t>(prompt.ids.size());
  for (const Choice& choice : choices_) usage.completion_tokens += choice.stream.completion_tokens();
  usage.cached_tokens = cached_tokens_;
  return usage;
}

}  // namespace grille::server
