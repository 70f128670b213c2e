#include "parallel/rank/step_clock.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <thread>
#include <utility>

#include "base/log.h"

namespace hookline {
namespace {

constexpr std::size_t kMostUnseen = 256;     // spans to keep before they are evaluated within a step
constexpr std::size_t kMostSteps = 100'000;  // of a longer run, the median is of the first steps
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

void StepClock::reset() {
  const std::lock_guard lock(mutex_);
  is_off_ = false;
  measured_ = {};
}

void StepClock::begin(const TimedPhase* timed, Phase phase) {
  const std::lock_guard lock(mutex_);
  under_way_.push_back({std::this_thread::get_id(), timed, phase});
}

void StepClock::end(const TimedPhase* timed) {
  const std::lock_guard lock(mutex_);
  std::erase_if(under_way_, [&](const UnderWay& each) { return each.timed == timed; });
}

std::optional<Phase> StepClock::phase_of_this_thread() const {
  if (under_way_.empty()) return std::nullopt;
  const auto own = std::find_if(under_way_.rbegin(), under_way_.rend(), [](const UnderWay& each) {
    return each.thread == std::this_thread::get_id();
  });
  return own == under_way_.rend() ? under_way_.back().phase : own->phase;
}

void StepClock::add(Phase counts, Phase instead_of, const Moment& from, const Moment& to) {
  if (is_off_) return;
  measured_.spans.push_back({counts, instead_of, from, to});
  if (measured_.spans.size() >= kMostUnseen) collect();
}

void StepClock::add_exposed(const Moment& from, const Moment& to) {
  const std::lock_guard lock(mutex_);
  const std::optional<Phase> phase = phase_of_this_thread();
  if (phase && !*phase) return;
  add(&PhaseSeconds::exposed_communication, phase.value_or(nullptr), from, to);
}

void StepClock::end_step() {
  const Moment end = now();
  const std::lock_guard lock(mutex_);
  ++measured_.steps;
  add(nullptr, nullptr, std::exchange(measured_.last_end, end), end);
  collect();
}

std::int64_t StepClock::steps() const {
  const std::lock_guard lock(mutex_);
  return measured_.steps;
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
  Measured& now = measured_;
  if (span.counts) {
    const double took = seconds(span);
    now.step.*span.counts += took;
    if (span.instead_of) now.step.*span.instead_of -= took;
    return;
  }
  const PhaseSeconds whole = std::exchange(now.step, {});
  if (now.known_steps++ == 0) return;
  for (const Phase phase : kPhases) now.sum.*phase += whole.*phase;
  const double took = seconds(span);
  now.sum_of_steps += took;
  if (now.seconds_of_steps.size() < kMostSteps) now.seconds_of_steps.push_back(static_cast<float>(took));
}

void StepClock::collect() {
  std::deque<Span>& spans = measured_.spans;
  if (is_off_) spans.clear();  // now() turned it off, without holding the lock
  try {
    for (; !spans.empty() && is_over(spans.front()); spans.pop_front()) take(spans.front());
  } catch (const std::exception& error) {
    spans.clear();
    give_up(error);
  }
}

void StepClock::give_up(const std::exception& error) {
  is_off_ = true;
  log::debug(std::string("the times of steps are no longer measured: ") + error.what());
}

void StepClock::turn_off() {
  const std::lock_guard lock(mutex_);
  is_off_ = true;
  measured_.spans.clear();
}

StepClock::Known StepClock::known() {
  const std::lock_guard lock(mutex_);
  collect();
  return {measured_.sum_of_steps, measured_.sum.exposed_communication};
}

std::optional<StepSeconds> StepClock::measured(std::chrono::milliseconds patience) {
  const auto last_look = std::chrono::steady_clock::now() + patience;
  std::unique_lock lock(mutex_);
  for (collect(); !measured_.spans.empty() && std::chrono::steady_clock::now() < last_look; collect()) {
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    lock.lock();
  }
  if (measured_.seconds_of_steps.empty()) return std::nullopt;
  const auto steps = static_cast<double>(measured_.known_steps - 1);
  StepSeconds result{median_of(measured_.seconds_of_steps), measured_.sum_of_steps / steps, measured_.sum};
  for (const Phase phase : kPhases) result.phases.*phase /= steps;
  return result;
}

TimedPhase::TimedPhase(StepClock& clock, Phase phase) : clock_(clock), phase_(phase) {
  clock_.begin(this, phase);
  if (phase) start_ = clock.now();
}

TimedPhase::~TimedPhase() {
  clock_.end(this);
  if (!phase_) return;
  const StepClock::Moment end = clock_.now();
  const std::lock_guard lock(clock_.mutex_);
  clock_.add(phase_, nullptr, start_, end);
}

}  // namespace hookline
