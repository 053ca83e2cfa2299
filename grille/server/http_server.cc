#include "grille/server/http_server.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <unordered_set>
#include <vector>

#include <spdlog/spdlog.h>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "grille/server/http_session.h"

namespace grille::server {

namespace asio = boost::asio;
using asio::redirect_error;
using asio::use_awaitable;
using asio::ip::tcp;
using boost::system::error_code;

struct HttpServer::State {
  State(const ServedModel& model, engine::EngineLoop& loop, const ServerOptions& options)
      : context(model, loop, options, workers), acceptor(asio::make_strand(io)) {}

  void listen();
  void start();
  asio::awaitable<void> accept_all();
  void serve(tcp::socket socket);
  void refuse(tcp::socket socket) const;
  void forget(const std::shared_ptr<HttpSession>& session);

  // Destroyed last to first: workers before what they post to, suspended sessions (in io) before their
  // context.
  ServerContext context;
  asio::io_context io;
  asio::thread_pool workers{2};
  tcp::acceptor acceptor;
  std::string host;  // as it stands in a URL
  std::uint16_t port = 0;
  std::mutex mutex;
  std::condition_variable ended;
  std::unordered_set<std::shared_ptr<HttpSession>> sessions;
  std::vector<std::thread> threads;
};

void HttpServer::State::listen() {
  const ServerOptions& options = context.options;
  const auto where = [&](const error_code& error) {
    return Error(ErrorCode::kInvalidArgument, fmt::format("--host {} --port {}: cannot listen there: {}",
                                                          options.host, options.port, error.message()));
  };
  error_code error;
  tcp::resolver resolver(io);
  const auto found =
      resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, error);
  if (error || found.empty()) throw where(error);
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) throw where(error);
  const auto address = acceptor.local_endpoint().address();
  host = address.is_v6() ? "[" + address.to_string() + "]" : address.to_string();
  port = acceptor.local_endpoint().port();
}

void HttpServer::State::start() {
  asio::co_spawn(acceptor.get_executor(), accept_all(), [](const std::exception_ptr&) {});
  for (int i = 0; i < context.options.threads; ++i) threads.emplace_back([this] { io.run(); });
}

asio::awaitable<void> HttpServer::State::accept_all() {
  asio::steady_timer pause(acceptor.get_executor());
  while (acceptor.is_open()) {
    error_code error;
    const asio::any_io_executor strand = asio::make_strand(io);
    tcp::socket socket = co_await acceptor.async_accept(strand, redirect_error(use_awaitable, error));
    if (error == asio::error::operation_aborted) co_return;
    if (error) {  // out of descriptors, say: those that are open will end
      spdlog::warn("a connection could not be accepted: {}", error.message());
      pause.expires_after(std::chrono::milliseconds(100));
      co_await pause.async_wait(redirect_error(use_awaitable, error));
      continue;
    }
    serve(std::move(socket));
  }
}

void HttpServer::State::serve(tcp::socket socket) {
  const asio::any_io_executor strand = socket.get_executor();
  std::shared_ptr<HttpSession> session;
  {
    const std::lock_guard lock(mutex);
    if (sessions.size() < context.options.max_connections) {
      session = std::make_shared<HttpSession>(std::move(socket), context);
      sessions.insert(session);
    }
  }
  if (!session) return refuse(std::move(socket));
  asio::co_spawn(strand, session->run(), [this, session](const std::exception_ptr& error) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const std::exception& failed) {
      spdlog::error("a connection ended: {}", failed.what());
    }
    forget(session);
  });
}

void HttpServer::State::refuse(tcp::socket socket) const {
  static const std::string body = error_body(Status::kUnavailable, "too many connections; try again later");
  static const std::string answer = fmt::format(
      "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: {}\r\n"
      "Retry-After: 1\r\nConnection: close\r\n\r\n{}",
      body.size(), body);
  error_code ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(asio::buffer(answer), ignored);
  socket.shutdown(tcp::socket::shutdown_send, ignored);
}

void HttpServer::State::forget(const std::shared_ptr<HttpSession>& session) {
  {
    const std::lock_guard lock(mutex);
    sessions.erase(session);
  }
  ended.notify_all();
}

HttpServer::HttpServer(const ServedModel& model, engine::EngineLoop& loop, const ServerOptions& options)
    : state_(std::make_unique<State>(model, loop, options)) {
  check(options.threads >= 1, ErrorCode::kInvalidArgument, "threads: expected at least 1, got {}",
        options.threads);
  state_->listen();
  state_->start();
}

HttpServer::~HttpServer() {
  state_->io.stop();
  for (std::thread& thread : state_->threads) thread.join();
  state_->workers.stop();
  state_->workers.join();
}

std::uint16_t HttpServer::port() const { return state_->port; }

std::string HttpServer::url() const { return fmt::format("http://{}:{}", state_->host, state_->port); }

void HttpServer::stop_accepting() {
  state_->context.draining = true;
  asio::post(state_->acceptor.get_executor(), [state = state_.get()] {
    error_code ignored;
    state->acceptor.close(ignored);
  });
  const std::lock_guard lock(state_->mutex);
  for (const auto& session : state_->sessions) session->close_if_idle();
}

bool HttpServer::finish(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(state_->mutex);
  return state_->ended.wait_until(lock, deadline, [&] { return state_->sessions.empty(); });
}

}  // namespace grille::server
