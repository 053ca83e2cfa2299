#include "grille/server/http_session.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include <spdlog/spdlog.h>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "grille/server/endpoints.h"

namespace grille::server {

namespace asio = boost::asio;
using asio::use_awaitable;

namespace {

// On a worker thread: what may take long.
asio::awaitable<PreparedGeneration> prepare(Route route, const std::string& body,
                                            const ServerContext& context) {
  const GenerationLimits& limits = context.options.generation;
  const Json json = parse_body(body);
  if (route == Route::kChatCompletions) {
    co_return prepare_chat(parse_chat(json, context.model, limits), context.model, limits);
  }
  co_return prepare_completion(parse_completion(json, context.model, limits), context.model, limits);
}

asio::awaitable<HttpReply> endpoint(const RouteMatch& match, const HttpRequest& request,
                                    const ServerContext& context) {
  co_return answer_endpoint(match, request, context);
}

// Names of fields are shown only as far as they look like names.
void log_unknown(const PreparedGeneration& prepared, const std::string& request_id) {
  std::string names;
  constexpr std::size_t kShown = 8;
  const auto& unknown = prepared.request.unknown_fields;
  for (std::size_t i = 0; i < std::min(unknown.size(), kShown); ++i) {
    std::string name = unknown[i].substr(0, 40);
    std::replace_if(
        name.begin(), name.end(),
        [](unsigned char c) { return std::isalnum(c) == 0 && c != '_' && c != '.' && c != '-'; }, '?');
    names += (names.empty() ? "" : ", ") + name;
  }
  if (!names.empty()) spdlog::warn("{}: unknown fields ignored: {}", request_id, names);
}

// Throws ApiError unless the request may go to its route.
void check_request(const RouteMatch& match, const HttpRequest& request, const ServerContext& context) {
  if (match.route == Route::kNone) throw ApiError(Status::kNotFound, "no such path");
  if (!match.open && !context.keys.allows(request.authorization))
    throw ApiError(Status::kUnauthorized, "a valid API key is needed");
  const bool fits =
      match.post ? request.method == "POST" : request.method == "GET" || request.method == "HEAD";
  if (!fits) throw ApiError(Status::kMethodNotAllowed, match.post ? "expected POST" : "expected GET or HEAD");
  // A web page elsewhere can send other types without asking first.
  if (match.post && !is_json(request.content_type))
    throw ApiError(Status::kUnsupportedMediaType, "expected Content-Type: application/json");
}

HttpReply preflight_reply(const RouteMatch& match) {
  HttpReply reply;
  reply.status = Status::kNoContent;
  reply.headers = {{"Access-Control-Allow-Methods", match.post ? "POST" : "GET, HEAD"},
                   {"Access-Control-Allow-Headers", "Authorization, Content-Type, X-Request-Id"},
                   {"Access-Control-Max-Age", "600"}};
  return reply;
}

}  // namespace

HttpSession::HttpSession(asio::ip::tcp::socket socket, ServerContext& context)
    : context_(context), connection_(std::move(socket), context.options) {}

void HttpSession::close_if_idle() {
  asio::post(connection_.executor(), [self = shared_from_this()] {
    if (self->connection_.idle()) self->connection_.close();
  });
}

asio::awaitable<void> HttpSession::run() {
  for (bool go_on = true; go_on && !context_.draining;) {
    HttpConnection::Next next = co_await connection_.read();
    if (auto* request = std::get_if<HttpRequest>(&next)) {
      go_on = co_await handle(*request);
      continue;
    }
    if (const auto* refusal = std::get_if<HttpReply>(&next)) {
      HttpRequest nothing;
      nothing.request_id = request_id_from("");
      spdlog::info("{}: a request that cannot be read: {}", nothing.request_id,
                   static_cast<int>(refusal->status));
      context_.metrics.count_response("other", static_cast<int>(refusal->status));
      go_on = co_await connection_.write(*refusal, nothing);
      if (go_on) break;
    }
    connection_.close();
    co_return;
  }
  co_await connection_.linger();
}

asio::awaitable<bool> HttpSession::handle(const HttpRequest& request) {
  const auto begin = std::chrono::steady_clock::now();
  const RouteMatch match = match_route(request.target);
  std::optional<ApiError> error;
  Handled handled;
  try {
    handled = co_await respond(match, request);
  } catch (const ApiError& refused) {
    error = refused;
  } catch (const Error& failed) {
    error.emplace(status_of(failed.code()), failed.what());
  } catch (const std::exception& failed) {
    spdlog::error("{}: {}", request.request_id, failed.what());
    error.emplace(Status::kInternal, "internal error; the server's log has more");
  }
  if (error) {
    HttpReply reply = error_reply(*error);
    if (error->status() == Status::kMethodNotAllowed)
      reply.headers.emplace_back("Allow", match.post ? "POST" : "GET, HEAD");
    handled = co_await send(std::move(reply), request);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  context_.metrics.count_response(match.name, handled.status);
  const auto level = match.post || handled.status >= 400 ? spdlog::level::info : spdlog::level::debug;
  spdlog::log(level, "{}: {} {} {} in {:.3f} s, {} + {} tokens", request.request_id,
              match.post ? "POST" : "GET", match.name, handled.status, seconds, handled.usage.prompt_tokens,
              handled.usage.completion_tokens);
  co_return handled.keep&& request.keep_alive && !context_.draining;
}

asio::awaitable<HttpSession::Handled> HttpSession::respond(const RouteMatch& match,
                                                           const HttpRequest& request) {
  const bool preflight = request.method == "OPTIONS" && match.route != Route::kNone &&
                         !request.origin.empty() && !context_.options.allowed_origins.empty();
  if (preflight) {
    Handled handled = co_await send(preflight_reply(match), request);
    co_return handled;
  }
  check_request(match, request, context_);
  if (match.route == Route::kCompletions || match.route == Route::kChatCompletions) {
    Handled handled = co_await generate(match, request);
    co_return handled;
  }
  HttpReply reply;
  if (match.post) {
    reply = co_await asio::co_spawn(context_.workers, endpoint(match, request, context_), use_awaitable);
  } else {
    reply = answer_endpoint(match, request, context_);
  }
  Handled handled = co_await send(std::move(reply), request);
  co_return handled;
}

asio::awaitable<HttpSession::Handled> HttpSession::send(HttpReply reply, const HttpRequest& request) {
  add_cors(reply, request);
  reply.close |= context_.draining;
  const bool written = co_await connection_.write(reply, request);
  co_return Handled{static_cast<int>(reply.status), {}, written};
}

asio::awaitable<HttpSession::Handled> HttpSession::generate(const RouteMatch& match,
                                                            const HttpRequest& request) {
  PreparedGeneration prepared =
      co_await asio::co_spawn(context_.workers, prepare(match.route, request.body, context_), use_awaitable);
  log_unknown(prepared, request.request_id);
  HttpReply head;
  add_cors(head, request);
  GenerationSession session(connection_, context_, request, std::move(prepared), std::move(head.headers));
  const GenerationOutcome outcome = co_await session.run();
  co_return Handled{outcome.status, outcome.usage, outcome.keep_connection};
}

void HttpSession::add_cors(HttpReply& reply, const HttpRequest& request) const {
  const auto& allowed = context_.options.allowed_origins;
  if (request.origin.empty() || allowed.empty()) return;
  const bool any = std::find(allowed.begin(), allowed.end(), "*") != allowed.end();
  if (!any && std::find(allowed.begin(), allowed.end(), request.origin) == allowed.end()) return;
  reply.headers.emplace_back("Access-Control-Allow-Origin", any ? "*" : request.origin);
  reply.headers.emplace_back("Vary", "Origin");
}

}  // namespace grille::server
