// A connection's life: request after request.
#pragma once

#include <memory>

#include "grille/server/generation_session.h"
#include "grille/server/http_connection.h"
#include "grille/server/router.h"
#include "grille/server/server_context.h"

namespace grille::server {

class HttpSession : public std::enable_shared_from_this<HttpSession> {
 public:
  HttpSession(boost::asio::ip::tcp::socket socket, ServerContext& context);

  boost::asio::awaitable<void> run();
  // From any thread: ends the connection if it waits for a request.
  void close_if_idle();

 private:
  struct Handled {
    int status = 0;
    Usage usage;
    bool keep = false;  // the connection may go on
  };

  boost::asio::awaitable<bool> handle(const HttpRequest& request);
  boost::asio::awaitable<Handled> respond(const RouteMatch& match, const HttpRequest& request);
  boost::asio::awaitable<Handled> send(HttpReply reply, const HttpRequest& request);
  boost::asio::awaitable<Handled> generate(const RouteMatch& match, const HttpRequest& request);
  void add_cors(HttpReply& reply, const HttpRequest& request) const;

  ServerContext& context_;
  HttpConnection connection_;
};

}  // namespace grille::server
