// Where a request's events wait for the session that writes them.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>

#include "grille/engine/engine_loop.h"

namespace grille::server {

// Bounded: an event that finds no place is dropped, and with it the request, as `on_overflow` says. What is
// marked (any thread) may be called anywhere; all else belongs to the session's executor.
class Outbox : public std::enable_shared_from_this<Outbox> {
 public:
  struct Entry {
    std::size_t index;  // of the choice
    engine::RequestEvent event;
    std::chrono::steady_clock::time_point time;
  };

  Outbox(const boost::asio::any_io_executor& executor, std::size_t capacity,
         std::function<void()> on_overflow);

  // (any thread) After close() it does nothing.
  void push(std::size_t index, const engine::RequestEvent& event);

  // Waits for entries and takes them all; none: wake() was called.
  boost::asio::awaitable<std::vector<Entry>> take();

  void wake();
  // No event is taken and no callback called from now on.
  void close();

 private:
  void notify();

  boost::asio::any_io_executor executor_;
  boost::asio::steady_timer timer_;
  const std::size_t capacity_;
  std::function<void()> on_overflow_;
  bool woken_ = false;

  std::mutex mutex_;
  std::vector<Entry> entries_;
  bool overflowed_ = false;
  bool closed_ = false;
};

}  // namespace grille::server
