// Progress on stderr: a bar on a terminal, a plain line every 10 s elsewhere.
#pragma once

#include <chrono>
#include <string>

#include "grille/base/progress.h"

namespace grille::cli {

class ProgressBar final : public Progress {
 public:
  explicit ProgressBar(bool quiet);
  ~ProgressBar() override;
  void start(std::string_view task, std::int64_t total, std::string_view unit) override;
  void update(std::int64_t done, std::string_view note) override;
  void finish() override;

 private:
  using Clock = std::chrono::steady_clock;

  std::string line() const;
  void draw();
  void clear_line();

  bool quiet_;
  bool terminal_;
  bool active_ = false;
  std::string task_;
  std::string unit_;
  std::string note_;
  std::int64_t total_ = 0;
  std::int64_t done_ = 0;
  Clock::time_point begin_;
  Clock::time_point drawn_;
};

}  // namespace grille::cli
