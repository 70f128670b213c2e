#include "parallel/rank/step_clock.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <future>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>

namespace hookline {
namespace {

using std::chrono::milliseconds;

// --- by the host's clock -------------------------------------------------------------------------

void pass(int milliseconds_) { std::this_thread::sleep_for(milliseconds(milliseconds_)); }

TEST(StepClock, ReportsNothingBeforeTheSecondStep) {
  StepClock clock(c10::kCPU);
  EXPECT_FALSE(clock.measured());
  { const TimedPhase timed(clock, &PhaseSeconds::forward); }
  clock.end_step();
  EXPECT_FALSE(clock.measured());
  clock.end_step();
  ASSERT_TRUE(clock.measured());
  EXPECT_EQ(clock.measured()->phases.forward, 0) << "the first step's does not count";
}

TEST(StepClock, ExcludesWaitingFromItsPhase) {
  StepClock clock(c10::kCPU);
  const auto begun = std::chrono::steady_clock::now();
  clock.end_step();
  for (int step = 0; step < 2; ++step) {
    {
      const TimedPhase timed(clock, &PhaseSeconds::backward);
      pass(20);
      const TimedWait waiting(clock);
      pass(40);
    }
    clock.end_step();
  }
  const std::chrono::duration<double> both = std::chrono::steady_clock::now() - begun;
  const auto seconds = clock.measured();
  ASSERT_TRUE(seconds);
  EXPECT_GE(seconds->phases.exposed_communication, 0.040);
  EXPECT_GE(seconds->phases.backward, 0.015);
  EXPECT_LE(seconds->phases.backward + seconds->phases.exposed_communication, seconds->mean);
  EXPECT_LE(2 * seconds->mean, both.count());
  EXPECT_GE(seconds->median, 0.060);
  EXPECT_EQ(seconds->phases.forward, 0);
  EXPECT_EQ(seconds->phases.optimizer, 0);
}

TEST(StepClock, CountsStepsEvenWhenOff) {
  StepClock clock(c10::kCPU);
  clock.turn_off();
  for (int step = 0; step < 3; ++step) {
    { const TimedPhase timed(clock, &PhaseSeconds::forward); }
    clock.end_step();
  }
  EXPECT_EQ(clock.steps(), 3);
  EXPECT_FALSE(clock.measured());
}

TEST(StepClock, CountsWaitingOutsidePhasesButNotInEvaluations) {
  StepClock clock(c10::kCPU);
  clock.end_step();
  const auto begun = std::chrono::steady_clock::now();
  {
    const TimedWait waiting(clock);  // in a backward outside hookline's phases
    pass(10);
  }
  const std::chrono::duration<double> first = std::chrono::steady_clock::now() - begun;
  {
    const TimedPhase evaluation(clock, nullptr);
    const TimedWait waiting(clock);
    pass(10);
  }
  clock.end_step();
  const auto seconds = clock.measured();
  ASSERT_TRUE(seconds);
  EXPECT_GE(seconds->phases.exposed_communication, 0.010);
  EXPECT_LE(seconds->phases.exposed_communication, first.count()) << "without the evaluation's";
  EXPECT_EQ(seconds->phases.forward, 0);
  EXPECT_EQ(seconds->phases.backward, 0);
}

TEST(StepClock, IsSharedByThreadsThatTrainAModelEach) {
  constexpr int kSteps = 20'000;
  StepClock clock(c10::kCPU);
  const auto train = [&clock] {
    for (int step = 0; step < kSteps; ++step) {
      { const TimedPhase timed(clock, &PhaseSeconds::forward); }
      {
        const TimedPhase timed(clock, &PhaseSeconds::backward);
        const TimedWait waiting(clock);
      }
      clock.end_step();
    }
  };
  std::thread other(train);
  train();
  other.join();
  EXPECT_EQ(clock.steps(), 2 * kSteps);
  const auto seconds = clock.measured();
  ASSERT_TRUE(seconds);
  EXPECT_GT(seconds->phases.forward, 0);
  EXPECT_GT(seconds->phases.exposed_communication, 0);
}

TEST(StepClock, ForgetsAPhaseThatEndsInAnotherThreadsPhase) {
  StepClock clock(c10::kCPU);
  clock.end_step();
  std::optional<TimedPhase> own(std::in_place, clock, &PhaseSeconds::forward);
  std::promise<void> begun, may_end;
  std::thread other([&] {
    const TimedPhase backward(clock, &PhaseSeconds::backward);
    begun.set_value();
    may_end.get_future().wait();
  });
  begun.get_future().wait();
  own.reset();
  may_end.set_value();
  other.join();
  {
    const TimedWait waiting(clock);  // outside any phase: both have ended
    pass(100);
  }
  clock.end_step();
  const auto seconds = clock.measured();
  ASSERT_TRUE(seconds);
  EXPECT_GE(seconds->phases.exposed_communication, 0.100);
  EXPECT_GE(seconds->phases.forward, 0) << "the waiting was not taken out of it";
}

// --- by events, on a device that progresses only when the test says so -------------------------------------

struct FakeEvent {
  bool is_done = false;
  double milliseconds = 0;
};

class FakeDevice {
 public:
  static FakeDevice& instance() {
    static FakeDevice device;
    return device;
  }

  void give(const std::shared_ptr<FakeEvent>& event) {
    const std::lock_guard lock(mutex_);
    expect_whole();
    event->is_done = false;
    given_.push_back(event);
  }

  /// Completes the next queued events, each this many milliseconds after the one before.
  void go_on(std::initializer_list<double> later) {
    const std::lock_guard lock(mutex_);
    for (const double each : later) {
      now_ += each;
      given_.front()->milliseconds = now_;
      given_.front()->is_done = true;
      given_.pop_front();
    }
  }

  bool is_done(const FakeEvent& event) {
    const std::lock_guard lock(mutex_);
    expect_whole();
    return event.is_done;
  }

  void reset() {
    const std::lock_guard lock(mutex_);
    given_.clear();
    is_broken_ = false;
    asked_in_vain = 0;
  }

  void break_down() {
    const std::lock_guard lock(mutex_);
    is_broken_ = true;
  }

  std::atomic<int> events = 0;  // events that exist
  std::atomic<int> asked_in_vain = 0;

 private:
  void expect_whole() {
    if (!is_broken_) return;
    ++asked_in_vain;
    throw std::runtime_error("the device is broken");
  }

  std::mutex mutex_;
  std::deque<std::shared_ptr<FakeEvent>> given_;
  double now_ = 0;
  bool is_broken_ = false;
};

constexpr c10::DeviceType kFake = c10::DeviceType::PrivateUse1;

/// The functions that c10::Event needs from a device: it has only streams and events.
class FakeGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kFake; }
  c10::Device exchangeDevice(c10::Device) const override { return getDevice(); }
  c10::Device getDevice() const override { return c10::Device(kFake, 0); }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }

  void record(void** event, const c10::Stream&, const c10::DeviceIndex,
              const c10::EventFlag flag) const override {
    EXPECT_EQ(flag, c10::EventFlag::BACKEND_DEFAULT) << "events that keep no time would be refused";
    auto* made = new std::shared_ptr<FakeEvent>(std::make_shared<FakeEvent>());
    *event = made;
    ++FakeDevice::instance().events;
    FakeDevice::instance().give(*made);
  }
  bool queryEvent(void* event) const override { return FakeDevice::instance().is_done(of(event)); }
  double elapsedTime(void* from, void* to, const c10::DeviceIndex) const override {
    return of(to).milliseconds - of(from).milliseconds;
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<std::shared_ptr<FakeEvent>*>(event);
    --FakeDevice::instance().events;
  }

 private:
  static const FakeEvent& of(void* event) { return **static_cast<std::shared_ptr<FakeEvent>*>(event); }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, FakeGuard)

class StepClockOfADevice : public ::testing::Test {
 protected:
  ~StepClockOfADevice() override { device.reset(); }

  void step() {
    { const TimedPhase timed(clock, &PhaseSeconds::forward); }
    {
      const TimedPhase timed(clock, &PhaseSeconds::backward);
      const TimedWait waiting(clock);
    }
    clock.end_step();
  }
  // Times up to the forward's start and end, the backward's start, the wait's start and end, the backward's
  // end, and the end of the step.
  void reach_step() { device.go_on({1, 10, 0, 20, 30, 0, 4}); }

  FakeDevice& device = FakeDevice::instance();
  StepClock clock{c10::Device(kFake, 0)};
};

TEST_F(StepClockOfADevice, CountsWhatTheDeviceHasReached) {
  step();
  step();
  step();
  EXPECT_FALSE(clock.measured(milliseconds(0)));
  device.go_on({1, 1000, 0, 0, 0, 0, 0});  // the first step
  EXPECT_FALSE(clock.measured(milliseconds(0)));
  reach_step();
  device.go_on({1, 10, 0, 20});  // half of the third step
  auto seconds = clock.measured(milliseconds(0));
  ASSERT_TRUE(seconds);
  EXPECT_DOUBLE_EQ(seconds->phases.forward, 0.010) << "of the second step alone";
  EXPECT_DOUBLE_EQ(seconds->phases.backward, 0.020);
  EXPECT_DOUBLE_EQ(seconds->phases.exposed_communication, 0.030);
  EXPECT_NEAR(seconds->median, 0.065, 1e-6);
  device.go_on({30, 0, 5});
  seconds = clock.measured(milliseconds(0));
  EXPECT_DOUBLE_EQ(seconds->phases.forward, 0.010);
  EXPECT_DOUBLE_EQ(seconds->phases.backward, 0.020);
  EXPECT_DOUBLE_EQ(seconds->phases.exposed_communication, 0.030);
  EXPECT_NEAR(seconds->mean, 0.0655, 1e-6) << "of 65 and 66 milliseconds";
  EXPECT_EQ(clock.steps(), 3);
}

TEST_F(StepClockOfADevice, TakesTheMeanOfTheTwoMiddleStepsForAnEvenNumber) {
  for (int i = 0; i < 6; ++i) clock.end_step();
  device.go_on({1, 100, 10, 40});
  EXPECT_NEAR(clock.measured(milliseconds(0))->median, 0.040, 1e-6);
  device.go_on({20});
  EXPECT_NEAR(clock.measured(milliseconds(0))->median, 0.030, 1e-6) << "of 10, 20, 40 and 100 milliseconds";
  device.go_on({500});
  EXPECT_NEAR(clock.measured(milliseconds(0))->median, 0.040, 1e-6);
}

TEST_F(StepClockOfADevice, WaitsForTheDeviceOnlyAtTheEnd) {
  step();
  step();
  std::thread later([this] {
    pass(50);
    reach_step();
    reach_step();
  });
  const auto seconds = clock.measured(std::chrono::minutes(1));
  later.join();
  ASSERT_TRUE(seconds);
  EXPECT_NEAR(seconds->phases.forward, 0.010, 1e-12);
}

TEST_F(StepClockOfADevice, KeepsOnlyEventsTheDeviceHasNotReached) {
  const TimedPhase around(clock, &PhaseSeconds::optimizer);  // never closed, so it ends no step
  device.go_on({1});
  for (int i = 0; i < 1000; ++i) {
    { const TimedPhase timed(clock, &PhaseSeconds::forward); }
    device.go_on({1, 1});
    ASSERT_LT(device.events, 600);
  }
  clock.end_step();
  clock.end_step();
  device.go_on({1, 2});
  const auto seconds = clock.measured(milliseconds(0));
  ASSERT_TRUE(seconds);
  EXPECT_NEAR(seconds->median, 0.002, 1e-6);
  EXPECT_EQ(seconds->phases.forward, 0) << "all of them are the first step's";
}

TEST_F(StepClockOfADevice, KeepsItsFiguresWhenTheDeviceFails) {
  step();
  step();
  reach_step();
  reach_step();
  ASSERT_TRUE(clock.measured(milliseconds(0)));
  step();
  device.break_down();
  step();
  step();
  EXPECT_EQ(device.asked_in_vain, 1) << "nothing more was asked of it";
  EXPECT_EQ(clock.steps(), 5);
  const auto seconds = clock.measured(std::chrono::minutes(1));
  ASSERT_TRUE(seconds);
  EXPECT_NEAR(seconds->phases.forward, 0.010, 1e-12);
}

}  // namespace
}  // namespace hookline
