#include "parallel/resume/preemption.h"

#include <algorithm>
#include <csignal>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace hookline {
namespace {

volatile std::sig_atomic_t announced = 0;

void note(int) { announced = 1; }

}  // namespace

Preemption::Preemption(std::shared_ptr<World> world) : world_(std::move(world)) {
  struct sigaction now = {};
  if (sigaction(SIGUSR1, nullptr, &now) != 0) return;
  if (now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN) return;
  now.sa_handler = note;
  now.sa_flags = SA_RESTART;
  sigemptyset(&now.sa_mask);
  sigaction(SIGUSR1, &now, nullptr);
}

// All ranks check at the same steps and follow rank 0's decision, since some ranks may be ahead of others,
// and the signal may have reached only one.
bool Preemption::look(std::int64_t step) {
  using std::chrono::duration;
  constexpr duration<double> kLookEvery{0.3};
  constexpr double kMostSteps = 1000;
  if (step < next_look_) return false;
  c10d::Store& store = world_->store();
  const std::string told = "checkpoint/preempted", number = std::to_string(step);
  const std::string decision = "checkpoint/look/" + number, readers = "checkpoint/readers/" + number;
  if (announced != 0) store.set(told, std::vector<std::uint8_t>{1});
  std::string said;
  if (world_->rank() == 0) {
    const auto now = std::chrono::steady_clock::now();
    const auto steps = static_cast<double>(std::max<std::int64_t>(1, step - last_look_));
    const duration<double> of_one = (now - last_look_at_) / steps;
    last_look_at_ = now;
    last_look_ = step;
    const double until_next =
        std::clamp(kLookEvery / std::max(of_one, duration<double>(1e-6)), 1.0, kMostSteps);
    said = store.check({told}) ? "stop" : std::to_string(step + static_cast<std::int64_t>(until_next));
    if (world_->size() > 1) store.set(decision, std::vector<std::uint8_t>(said.begin(), said.end()));
  } else {
    const std::vector<std::uint8_t> bytes =
        store.get(decision);  // waits for rank 0, which is about to get here
    said.assign(bytes.begin(), bytes.end());
    if (store.add(readers, 1) == world_->size() - 1) {
      store.deleteKey(decision);
      store.deleteKey(readers);
    }
  }
  if (said == "stop") return true;
  next_look_ = std::stoll(said);
  return false;
}

void Preemption::ignore() { next_look_ = std::numeric_limits<std::int64_t>::max(); }

}  // namespace hookline
