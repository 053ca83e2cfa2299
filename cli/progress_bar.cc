#include "cli/progress_bar.h"

#include <cmath>
#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

namespace grille::cli {
namespace {

std::string duration(double seconds) {
  const long long whole = std::llround(seconds);
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

constexpr int kBarWidth = 24;

}  // namespace

ProgressBar::ProgressBar(bool quiet) : quiet_(quiet), terminal_(isatty(STDERR_FILENO) != 0) {}

ProgressBar::~ProgressBar() { clear_line(); }

void ProgressBar::start(std::string_view task, std::int64_t total, std::string_view unit) {
  clear_line();
  task_ = task;
  unit_ = unit;
  note_.clear();
  total_ = total;
  done_ = 0;
  begin_ = Clock::now();
  drawn_ = terminal_ ? Clock::time_point{} : begin_;
  active_ = true;
  draw();
}

void ProgressBar::update(std::int64_t done, std::string_view note) {
  done_ = done;
  if (!note.empty()) note_ = note;
  draw();
}

void ProgressBar::finish() {
  if (!active_ || quiet_) return;
  clear_line();
  active_ = false;
  const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  if (seconds < 1.0) return;  // nobody has waited
  std::fputs(fmt::format("{}: {} {} in {}{}{}\n", task_, done_, unit_, duration(seconds),
                         note_.empty() ? "" : ", ", note_)
                 .c_str(),
             stderr);
}

std::string ProgressBar::line() const {
  const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  std::string text = task_ + " ";
  if (terminal_ && total_ > 0) {
    const int filled = static_cast<int>(kBarWidth * done_ / total_);
    text += fmt::format("[{}{}] ", std::string(static_cast<std::size_t>(filled), '#'),
                        std::string(static_cast<std::size_t>(kBarWidth - filled), '.'));
  }
  text += total_ > 0 ? fmt::format("{}/{} {}", done_, total_, unit_) : fmt::format("{} {}", done_, unit_);
  if (done_ > 0 && seconds > 0) {
    text += fmt::format(", {:.2f} {}/s", static_cast<double>(done_) / seconds, unit_);
    if (total_ > done_) {
      text += ", " + duration(seconds * static_cast<double>(total_ - done_) / static_cast<double>(done_)) +
              " left";
    }
  }
  if (!note_.empty()) text += ", " + note_;
  return text;
}

void ProgressBar::draw() {
  if (quiet_ || !active_) return;
  const auto now = Clock::now();
  const auto pause = terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(10000);
  if (now - drawn_ < pause && (!terminal_ || done_ < total_)) return;
  drawn_ = now;
  std::fputs((terminal_ ? "\r\033[K" + line() : line() + "\n").c_str(), stderr);
}

void ProgressBar::clear_line() {
  if (terminal_ && active_ && !quiet_) std::fputs("\r\033[K", stderr);
}

}  // namespace grille::cli
