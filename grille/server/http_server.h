// The OpenAI-compatible server.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "grille/engine/engine_loop.h"
#include "grille/server/served_model.h"
#include "grille/server/server_options.h"

namespace grille::server {

class HttpServer {
 public:
  // Listens and serves from now on, on threads of its own. `model` and `loop` must outlive it. Throws
  // Error{kInvalidArgument} when the address cannot be used.
  HttpServer(const ServedModel& model, engine::EngineLoop& loop, const ServerOptions& options);
  // Cuts off what is still open.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::uint16_t port() const;
  std::string url() const;  // "http://127.0.0.1:8000"

  // No more connections; those that are idle are closed, the others after their answer. Let the loop drain
  // next.
  void stop_accepting();
  // Waits until every connection has ended. Returns whether they all did before `deadline`.
  bool finish(std::chrono::steady_clock::time_point deadline);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace grille::server
