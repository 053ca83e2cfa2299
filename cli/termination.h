// Signals of a command that ends in order, not at the next point where work can be lost.
#pragma once

namespace grille::cli {

// While it lives, SIGINT and SIGTERM are kept for wait() in place of interrupting work. A second one ends the
// process at once.
class TerminationSignals {
 public:
  TerminationSignals();
  ~TerminationSignals();
  TerminationSignals(const TerminationSignals&) = delete;
  TerminationSignals& operator=(const TerminationSignals&) = delete;

  // Blocks until one comes; returns its number.
  int wait() const;
};

}  // namespace grille::cli
