#include "parallel/resume/preemption.h"

#include <csignal>

namespace hookline {
namespace {

volatile std::sig_atomic_t announced = 0;

void note(int) { announced = 1; }

}  // namespace

void watch_for_preemption() {
  struct sigaction now = {};
  if (sigaction(SIGUSR1, nullptr, &now) != 0) return;
  if (now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN) return;
  now.sa_handler = note;
  now.sa_flags = SA_RESTART;
  sigemptyset(&now.sa_mask);
  sigaction(SIGUSR1, &now, nullptr);
}

bool preemption_announced() { return announced != 0; }

}  // namespace hookline
