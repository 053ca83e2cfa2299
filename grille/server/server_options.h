// What a server may be told; the defaults are safe on a developer's machine.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "grille/server/generation_request.h"

namespace grille::server {

struct ServerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8000;                 // 0: a free one
  std::vector<std::string> api_keys;         // none: everybody may use the API
  std::vector<std::string> allowed_origins;  // of web pages elsewhere that may call it; "*": any
  int threads = 2;                           // that read and write; two more prepare prompts

  std::size_t max_connections = 1024;
  std::size_t max_header_bytes = 16 << 10;
  std::size_t max_header_fields = 100;
  std::size_t max_body_bytes = 8 << 20;
  // Tokens that a stream may be ahead of a client that does not read; then the request is aborted.
  std::size_t max_pending_events = 4096;
  int send_buffer_bytes = 0;  // of the socket; 0: the system's

  std::chrono::milliseconds idle_timeout{75'000};    // between requests of a connection
  std::chrono::milliseconds header_timeout{10'000};  // from a header's first byte to its last
  std::chrono::milliseconds body_timeout{60'000};
  std::chrono::milliseconds write_timeout{30'000};  // plus a second for every 64 KiB of an answer

  GenerationLimits generation;
};

}  // namespace grille::server
