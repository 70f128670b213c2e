#include "parallel/step_clock.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <thread>
#include <utility>

#include "hooks/log.h"

namespace hookline {
namespace {

constexpr std::size_t kMostUnseen = 256;     // so many wait for the end of a step until they are looked at
constexpr std::size_t kMostSteps = 100'000;  // of a longer run the first make the median
constexpr Phase kPhases[] = {&PhaseSeconds::forward, &PhaseSeconds::backward,
                             &PhaseSeconds::exposed_communication, &PhaseSeconds::optimizer};

double median_of(std::vector<float> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  const auto upper = static_cast<double>(*middle);
  if (values.size() % 2 != 0) return upper;
  return (static_cast<double>(*std::max_element(values.begin(), middle)) + upper) / 2;
}

}  // namespace

StepClock::Moment StepClock::now() noexcept {
  Moment moment;
  moment.at_ = std::chrono::steady_clock::now();
  if (device_.is_cpu() || is_off_) return moment;
  try {
    auto event = std::make_shared<c10::Event>(device_.type(), c10::EventFlag::BACKEND_DEFAULT);  // with times
    event->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
    moment.event_ = std::move(event);
  } catch (const std::exception& error) {
    give_up(error);
  }
  return moment;
}

void StepClock::add(Phase counts, Phase instead_of, const Moment& from, const Moment& to) {
  if (is_off_) return;
  spans_.push_back({counts, instead_of, from, to});
  if (spans_.size() >= kMostUnseen) collect();
}

void StepClock::add_exposed(const Moment& from, const Moment& to) {
  if (under_way_ && !*under_way_) return;
  add(&PhaseSeconds::exposed_communication, under_way_.value_or(nullptr), from, to);
}

void StepClock::end_step() {
  ++steps_;
  const Moment end = now();
  add(nullptr, nullptr, std::exchange(last_end_, end), end);
  collect();
}

bool StepClock::is_over(const Span& span) const {
  const auto has_come = [](const Moment& moment) { return !moment.event_ || moment.event_->query(); };
  return has_come(span.from) && has_come(span.to);
}

double StepClock::seconds(const Span& span) const {
  if (!device_.is_cpu())
    return span.from.event_->elapsedTime(*span.to.event_) / 1000;  // it gives milliseconds
  return std::chrono::duration<double>(span.to.at_ - span.from.at_).count();
}

void StepClock::take(const Span& span) {
  if (span.counts) {
    const double took = seconds(span);
    step_.*span.counts += took;
    if (span.instead_of) step_.*span.instead_of -= took;
    return;
  }
  const PhaseSeconds whole = std::exchange(step_, {});
  if (known_steps_++ == 0) return;
  for (const Phase phase : kPhases) sum_.*phase += whole.*phase;
  const double took = seconds(span);
  sum_of_steps_ += took;
  if (seconds_of_steps_.size() < kMostSteps) seconds_of_steps_.push_back(static_cast<float>(took));
}

void StepClock::collect() {
  try {
    for (; !spans_.empty() && is_over(spans_.front()); spans_.pop_front()) take(spans_.front());
  } catch (const std::exception& error) {
    give_up(error);
  }
}

void StepClock::give_up(const std::exception& error) {
  turn_off();
  log::debug(std::string("the times of steps are no longer measured: ") + error.what());
}

void StepClock::turn_off() {
  is_off_ = true;
  spans_.clear();
}

std::optional<StepSeconds> StepClock::measured(std::chrono::milliseconds patience) {
  const auto last_look = std::chrono::steady_clock::now() + patience;
  for (collect(); !spans_.empty() && std::chrono::steady_clock::now() < last_look; collect())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (seconds_of_steps_.empty()) return std::nullopt;
  const auto steps = static_cast<double>(known_steps_ - 1);
  StepSeconds result{median_of(seconds_of_steps_), sum_of_steps_ / steps, sum_};
  for (const Phase phase : kPhases) result.phases.*phase /= steps;
  return result;
}

TimedPhase::TimedPhase(StepClock& clock, Phase phase)
    : clock_(clock),
      phase_(phase),
      around_(std::exchange(clock.under_way_, phase)),
      start_(phase ? clock.now() : StepClock::Moment()) {}

TimedPhase::~TimedPhase() {
  clock_.under_way_ = around_;
  if (phase_) clock_.add(phase_, nullptr, start_, clock_.now());
}

}  // namespace hookline
