#include "grille/server/http_connection.h"

#include <utility>

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http.hpp>

namespace grille::server {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::redirect_error;
using asio::use_awaitable;
using boost::system::error_code;
using RequestParser = http::request_parser<http::string_body>;

namespace {

// Clients close in order: a FIN has come although bytes before it are still unread.
bool peer_closed(int socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return true;
  return info.tcpi_state != TCP_ESTABLISHED;
}

HttpReply refusal(Status status, const std::string& message) {
  HttpReply reply = json_reply(error_body(status, message), status);
  reply.close = true;
  return reply;
}

HttpConnection::Next read_failure(const error_code& error, const ServerOptions& options) {
  if (error == http::error::header_limit)
    return refusal(Status::kHeadersTooLarge,
                   fmt::format("headers: the most is {} bytes", options.max_header_bytes));
  if (error == http::error::body_limit)
    return refusal(Status::kPayloadTooLarge,
                   fmt::format("body: the most is {} bytes", options.max_body_bytes));
  const bool ended = error == http::error::end_of_stream || error == http::error::partial_message;
  if (!ended && error.category() == make_error_code(http::error::bad_method).category())
    return refusal(Status::kBadRequest, "not an HTTP request: " + error.message());
  return HttpConnection::Closed{};
}

std::string field(const RequestParser& parser, http::field name) {
  const auto value = parser.get()[name];
  return {value.data(), value.size()};
}

HttpRequest request_from(RequestParser& parser) {
  auto& message = parser.get();
  HttpRequest request;
  request.method = std::string(message.method_string());
  request.target = std::string(message.target());
  request.content_type = field(parser, http::field::content_type);
  request.authorization = field(parser, http::field::authorization);
  request.origin = field(parser, http::field::origin);
  const auto id = message["X-Request-Id"];
  request.request_id = request_id_from({id.data(), id.size()});
  request.body = std::move(message.body());
  request.keep_alive = message.keep_alive();
  request.http_1_0 = message.version() < 11;
  return request;
}

void fill_head(auto& response, const HttpReply& reply, const HttpRequest& request) {
  response.version(request.http_1_0 ? 10 : 11);
  response.result(static_cast<unsigned>(reply.status));
  response.set(http::field::server, "grille");
  if (!reply.content_type.empty()) response.set(http::field::content_type, reply.content_type);
  response.set("X-Request-Id", request.request_id);
  response.set("X-Content-Type-Options", "nosniff");
  for (const auto& [name, value] : reply.headers) response.set(name, value);
  response.keep_alive(request.keep_alive && !reply.close);
}

}  // namespace

// A watch outlives unwatch() until its handlers have run.
struct HttpConnection::Watch : std::enable_shared_from_this<Watch> {
  Watch(asio::ip::tcp::socket& watched, std::function<void()> callback)
      : socket(watched), timer(watched.get_executor()), on_gone(std::move(callback)) {}

  void wait() {
    socket.async_wait(
        asio::ip::tcp::socket::wait_read,
        asio::bind_cancellation_slot(signal.slot(), [self = shared_from_this()](error_code error) {
          if (self->ended) return;
          if (error) return self->gone();
          self->look();
        }));
  }

  void look() {
    char byte = 0;
    const auto got = recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return wait();
    if (got <= 0 || peer_closed(socket.native_handle())) return gone();
    // The next request is there already and hides what comes behind it.
    timer.expires_after(std::chrono::milliseconds(250));
    timer.async_wait([self = shared_from_this()](error_code error) {
      if (!self->ended && !error) self->look();
    });
  }

  void gone() {
    ended = true;
    std::exchange(on_gone, {})();
  }

  void end() {
    ended = true;
    on_gone = {};
    timer.cancel();
    signal.emit(asio::cancellation_type::total);
  }

  asio::ip::tcp::socket& socket;
  asio::steady_timer timer;
  asio::cancellation_signal signal;
  std::function<void()> on_gone;
  bool ended = false;
};

HttpConnection::HttpConnection(asio::ip::tcp::socket socket, const ServerOptions& options)
    : options_(options), stream_(std::move(socket)) {
  error_code ignored;
  stream_.socket().set_option(asio::ip::tcp::no_delay(true), ignored);
  if (options.send_buffer_bytes > 0) {
    stream_.socket().set_option(asio::socket_base::send_buffer_size(options.send_buffer_bytes), ignored);
  }
}

asio::awaitable<HttpConnection::Next> HttpConnection::read() {
  error_code error;
  if (buffer_.size() == 0) {
    idle_ = true;
    stream_.expires_after(options_.idle_timeout);
    constexpr std::size_t kFirstRead = 4096;
    const std::size_t got =
        co_await stream_.async_read_some(buffer_.prepare(kFirstRead), redirect_error(use_awaitable, error));
    idle_ = false;
    if (error) co_return Closed{};
    buffer_.commit(got);
  }
  RequestParser parser;
  parser.header_limit(static_cast<std::uint32_t>(options_.max_header_bytes));
  parser.body_limit(options_.max_body_bytes);
  stream_.expires_after(options_.header_timeout);
  co_await http::async_read_header(stream_, buffer_, parser, redirect_error(use_awaitable, error));
  if (error) co_return read_failure(error, options_);
  const auto& fields = parser.get().base();
  if (static_cast<std::size_t>(std::distance(fields.begin(), fields.end())) > options_.max_header_fields) {
    co_return refusal(Status::kHeadersTooLarge,
                      fmt::format("headers: the most is {}", options_.max_header_fields));
  }
  if (beast::iequals(parser.get()[http::field::expect], "100-continue")) {
    const bool sent = co_await send_continue();
    if (!sent) co_return Closed{};
  }
  stream_.expires_after(options_.body_timeout);
  co_await http::async_read(stream_, buffer_, parser, redirect_error(use_awaitable, error));
  if (error) co_return read_failure(error, options_);
  co_return request_from(parser);
}

asio::awaitable<bool> HttpConnection::send_continue() {
  const std::string line = "HTTP/1.1 100 Continue\r\n\r\n";
  const bool sent = co_await write_bytes(line);
  co_return sent;
}

void HttpConnection::set_write_deadline(std::size_t bytes) {
  constexpr std::size_t kSlowest = 64 << 10;  // bytes a second
  stream_.expires_after(options_.write_timeout + std::chrono::seconds(bytes / kSlowest));
}

asio::awaitable<bool> HttpConnection::write_bytes(const std::string& bytes) {
  error_code error;
  set_write_deadline(bytes.size());
  co_await asio::async_write(stream_, asio::buffer(bytes), redirect_error(use_awaitable, error));
  co_return !error;
}

asio::awaitable<bool> HttpConnection::write(const HttpReply& reply, const HttpRequest& request) {
  error_code error;
  set_write_deadline(reply.body.size());
  if (request.method == "HEAD") {
    http::response<http::empty_body> response;
    fill_head(response, reply, request);
    response.content_length(reply.body.size());
    http::response_serializer<http::empty_body> serializer(response);
    co_await http::async_write_header(stream_, serializer, redirect_error(use_awaitable, error));
    co_return !error;
  }
  http::response<http::span_body<const char>> response;
  fill_head(response, reply, request);
  response.body() = {reply.body.data(), reply.body.size()};
  response.prepare_payload();
  co_await http::async_write(stream_, response, redirect_error(use_awaitable, error));
  co_return !error;
}

asio::awaitable<bool> HttpConnection::begin_stream(const HttpReply& head, const HttpRequest& request) {
  http::response<http::empty_body> response;
  fill_head(response, head, request);
  chunked_ = !request.http_1_0;  // the end of an answer to HTTP/1.0 is the end of the connection
  if (chunked_) response.chunked(true);
  http::response_serializer<http::empty_body> serializer(response);
  error_code error;
  set_write_deadline(0);
  co_await http::async_write_header(stream_, serializer, redirect_error(use_awaitable, error));
  co_return !error;
}

asio::awaitable<bool> HttpConnection::write_stream(const std::string& bytes) {
  std::string framed = bytes;
  if (chunked_) framed = fmt::format("{:x}\r\n", bytes.size()) + bytes + "\r\n";
  const bool written = co_await write_bytes(framed);
  co_return written;
}

asio::awaitable<bool> HttpConnection::end_stream() {
  if (!chunked_) co_return true;
  const std::string last = "0\r\n\r\n";
  const bool written = co_await write_bytes(last);
  co_return written;
}

void HttpConnection::watch(std::function<void()> on_gone) {
  watch_ = std::make_shared<Watch>(stream_.socket(), std::move(on_gone));
  watch_->wait();
}

void HttpConnection::unwatch() {
  if (watch_) std::exchange(watch_, nullptr)->end();
}

void HttpConnection::close() {
  error_code ignored;
  stream_.socket().close(ignored);
}

asio::awaitable<void> HttpConnection::linger() {
  error_code error;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, error);
  constexpr std::size_t kPiece = 64 << 10;
  constexpr int kPieces = 256;
  stream_.expires_after(std::chrono::seconds(2));
  for (int i = 0; i < kPieces && !error; ++i) {
    buffer_.clear();
    co_await stream_.async_read_some(buffer_.prepare(kPiece), redirect_error(use_awaitable, error));
  }
  close();
}

}  // namespace grille::server
