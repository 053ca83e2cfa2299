// For tests: a server over a fake engine, and blocking clients that see every byte.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "grille/engine/engine_loop.h"
#include "grille/engine/fake_engine.h"
#include "grille/server/http_server.h"
#include "grille/server/json_fields.h"
#include "grille/server/test_model.h"

namespace grille::server::testing {

struct Answer {
  int status = 0;
  std::string head;  // status line and fields
  std::string body;  // of a chunked answer: its chunks joined
  Json json() const { return Json::parse(body); }
  bool has(const std::string& line) const { return head.find(line + "\r\n") != std::string::npos; }
};

class Client {
 public:
  explicit Client(std::uint16_t port, int receive_buffer = 0) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer > 0)
      setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    const timeval patience{20, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~Client() { leave(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool connected() const { return connected_; }
  void leave() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }
  void send(const std::string& bytes) const { ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }

  // One more piece; "" at the end of the connection.
  std::string receive() const {
    std::string piece(65536, '\0');
    const auto got = recv(socket_, piece.data(), piece.size(), 0);
    piece.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return piece;
  }
  std::string receive_until_closed() {
    std::string all = std::exchange(rest_, "");
    for (std::string piece = receive(); !piece.empty(); piece = receive()) all += piece;
    return all;
  }

  // The next answer; status 0 when the connection ended.
  Answer read(bool has_body = true) {
    Answer answer;
    if (!fill_until("\r\n\r\n")) return answer;
    answer.head = cut(rest_.find("\r\n\r\n") + 4);
    answer.status = std::stoi(answer.head.substr(9, 3));
    if (!has_body || answer.status == 100 || answer.status == 204) return answer;
    if (answer.has("Transfer-Encoding: chunked")) {
      read_chunks(answer);
      return answer;
    }
    const std::size_t place = answer.head.find("Content-Length: ");
    const std::size_t length = place == std::string::npos ? 0 : std::stoul(answer.head.substr(place + 16));
    while (rest_.size() < length && fill()) {
    }
    answer.body = cut(std::min(length, rest_.size()));
    return answer;
  }

 private:
  bool fill() {
    const std::string piece = receive();
    rest_ += piece;
    return !piece.empty();
  }
  bool fill_until(const std::string& mark) {
    while (rest_.find(mark) == std::string::npos) {
      if (!fill()) return false;
    }
    return true;
  }
  std::string cut(std::size_t length) {
    std::string front = rest_.substr(0, length);
    rest_.erase(0, length);
    return front;
  }
  void read_chunks(Answer& answer) {
    while (fill_until("\r\n")) {
      const std::size_t length = std::stoul(cut(rest_.find("\r\n") + 2), nullptr, 16);
      while (rest_.size() < length + 2 && fill()) {
      }
      answer.body += cut(length);
      cut(2);
      if (length == 0) return;
    }
  }

  int socket_;
  bool connected_ = false;
  std::string rest_;
};

inline std::string post(const std::string& path, const std::string& body, const std::string& fields = "") {
  return "POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + fields +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}
inline std::string get(const std::string& path, const std::string& fields = "") {
  return "GET " + path + " HTTP/1.1\r\nHost: x\r\n" + fields + "\r\n";
}

// Data of the events of a stream.
inline std::vector<std::string> events_of(const std::string& stream) {
  std::vector<std::string> events;
  for (std::size_t begin = 0; begin < stream.size();) {
    const std::size_t end = stream.find("\n\n", begin);
    EXPECT_NE(end, std::string::npos);
    EXPECT_EQ(stream.substr(begin, 6), "data: ");
    if (end == std::string::npos) break;
    events.push_back(stream.substr(begin + 6, end - begin - 6));
    begin = end + 2;
  }
  return events;
}

// Everything together; members may be changed before start().
struct TestServer {
  ServedModel model = test_model();
  engine::FakeEngineOptions engine_options;
  engine::EngineLoopOptions loop_options;
  ServerOptions options;
  std::unique_ptr<engine::FakeEngine> engine;
  std::unique_ptr<engine::EngineLoop> loop;
  std::unique_ptr<HttpServer> http;

  void start() {
    options.port = 0;
    engine = std::make_unique<engine::FakeEngine>(engine_options);
    loop = std::make_unique<engine::EngineLoop>(*engine, loop_options);
    http = std::make_unique<HttpServer>(model, *loop, options);
  }
  Answer ask(const std::string& request) const {
    Client client(http->port());
    client.send(request);
    return client.read(!request.starts_with("HEAD"));
  }
  bool eventually(const auto& condition) const {
    for (int i = 0; i < 1000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  ~TestServer() {
    http.reset();
    loop.reset();
  }
};

}  // namespace grille::server::testing
