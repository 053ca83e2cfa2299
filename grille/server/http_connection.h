// One client's TCP connection: requests read within limits, answers written with a deadline.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>

#include "grille/server/http_message.h"
#include "grille/server/server_options.h"

namespace grille::server {

// Everything runs on the socket's executor.
class HttpConnection {
 public:
  // Nothing more will come: the client closed, was too slow, or is broken.
  struct Closed {};
  // What is read next: a request, or the answer to one that cannot be read, after which the connection ends.
  using Next = std::variant<HttpRequest, HttpReply, Closed>;

  HttpConnection(boost::asio::ip::tcp::socket socket, const ServerOptions& options);

  boost::asio::awaitable<Next> read();

  // These return false when the client is gone or too slow.
  boost::asio::awaitable<bool> write(const HttpReply& reply, const HttpRequest& request);
  boost::asio::awaitable<bool> begin_stream(const HttpReply& head, const HttpRequest& request);
  boost::asio::awaitable<bool> write_stream(const std::string& bytes);
  boost::asio::awaitable<bool> end_stream();

  // Calls `on_gone` once when the client closes its side, until unwatch(). Clients that send requests ahead
  // of answers are watched too.
  void watch(std::function<void()> on_gone);
  void unwatch();

  // Waits for the next request; nothing is lost if the connection is closed now.
  bool idle() const { return idle_; }
  void close();
  // Closes so that the client can still read the answer: what it sends is read and dropped for a while.
  boost::asio::awaitable<void> linger();

  boost::asio::any_io_executor executor() { return stream_.get_executor(); }

 private:
  struct Watch;

  boost::asio::awaitable<bool> write_bytes(const std::string& bytes);
  boost::asio::awaitable<bool> send_continue();
  void set_write_deadline(std::size_t bytes);

  const ServerOptions& options_;
  boost::beast::tcp_stream stream_;
  boost::beast::flat_buffer buffer_;
  std::shared_ptr<Watch> watch_;
  bool idle_ = false;
  bool chunked_ = false;
};

}  // namespace grille::server
