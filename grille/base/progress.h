// How long work tells how far it is. The library reports; a front end decides what is shown.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace grille {

class Progress {
 public:
  virtual ~Progress() = default;
  // A new task of `total` units (0: unknown), e.g. start("pruning", 30, "blocks"). Ends the one before.
  virtual void start(std::string_view task, std::int64_t total, std::string_view unit) = 0;
  // `done` units are complete; `note` is a short remark ("block 3: error 0.12").
  virtual void update(std::int64_t done, std::string_view note = {}) = 0;
  virtual void finish() = 0;
};

// Shows nothing.
Progress& no_progress();

}  // namespace grille
