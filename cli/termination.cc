#include "cli/termination.h"

#include <atomic>
#include <cerrno>
#include <csignal>

#include <semaphore.h>

namespace grille::cli {
namespace {

sem_t arrived;
std::atomic<int> received{0};
struct sigaction previous_int;
struct sigaction previous_term;

extern "C" void on_termination(int signal) {
  int none = 0;
  if (!received.compare_exchange_strong(none, signal)) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  sem_post(&arrived);
}

}  // namespace

TerminationSignals::TerminationSignals() {
  sem_init(&arrived, 0, 0);
  received = 0;
  struct sigaction action {};
  action.sa_handler = on_termination;
  sigaction(SIGINT, &action, &previous_int);
  sigaction(SIGTERM, &action, &previous_term);
}

TerminationSignals::~TerminationSignals() {
  sigaction(SIGINT, &previous_int, nullptr);
  sigaction(SIGTERM, &previous_term, nullptr);
}

int TerminationSignals::wait() const {
  while (sem_wait(&arrived) != 0 && errno == EINTR) {
  }
  return received;
}

}  // namespace grille::cli
