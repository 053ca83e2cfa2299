#include "grille/server/outbox.h"

#include <utility>

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace grille::server {

namespace asio = boost::asio;

Outbox::Outbox(const asio::any_io_executor& executor, std::size_t capacity, std::function<void()> on_overflow)
    : executor_(executor),
      timer_(executor, asio::steady_timer::time_point::max()),
      capacity_(capacity),
      on_overflow_(std::move(on_overflow)) {}

void Outbox::push(std::size_t index, const engine::RequestEvent& event) {
  const auto now = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  if (closed_ || overflowed_) return;
  overflowed_ = entries_.size() >= capacity_;
  const bool was_empty = entries_.empty();
  if (!overflowed_) entries_.push_back({index, event, now});
  // Under the lock, so that nothing is posted after close(): the executor may be gone then.
  if (was_empty || overflowed_) asio::post(executor_, [self = shared_from_this()] { self->notify(); });
}

void Outbox::notify() {
  bool overflowed = false;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    overflowed = overflowed_;
  }
  timer_.cancel();
  if (overflowed && on_overflow_) std::exchange(on_overflow_, {})();
}

asio::awaitable<std::vector<Outbox::Entry>> Outbox::take() {
  for (;;) {
    std::vector<Entry> entries;
    {
      const std::lock_guard lock(mutex_);
      entries.swap(entries_);
    }
    if (!entries.empty() || woken_) co_return entries;
    boost::system::error_code cancelled;
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
  }
}

void Outbox::wake() {
  woken_ = true;
  timer_.cancel();
}

void Outbox::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  entries_.clear();
  on_overflow_ = {};
}

}  // namespace grille::server
