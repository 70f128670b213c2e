#include "prediction/simulate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <deque>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text/duration_text.h"

namespace hookline {
namespace {

constexpr double kDone = 1e-12;  // seconds; less than that is rounding

/// Throws Error for a time with which the simulation would not end.
void expect_time(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0)
    throw Error("a step can't be simulated: one of its times is " +
                duration_text(std::chrono::duration<double>(seconds)));
}

void expect_times(const StepPlan& plan) {
  for (const double seconds : {plan.before_backward, plan.backward, plan.after_backward})
    expect_time(seconds);
  for (const BucketPlan& bucket : plan.buckets) {
    for (const double seconds : {bucket.ready, bucket.cost.busy_after}) expect_time(seconds);
    for (const Send& send : bucket.cost.sends)
      for (const double seconds : {send.busy_before, send.busy_after}) expect_time(seconds);
  }
}

void expect_earlier_sends(const StepPlan& plan) {
  for (std::size_t bucket = 0; bucket < plan.buckets.size(); ++bucket) {
    const std::vector<Send>& sends = plan.buckets[bucket].cost.sends;
    for (std::size_t i = 0; i < sends.size(); ++i)
      if (sends[i].after >= static_cast<int>(i))
        throw Error("send " + std::to_string(i) + " of bucket " + std::to_string(bucket) + " follows send " +
                    std::to_string(sends[i].after) + ": it can only follow an earlier one");
  }
}

/// Simulates a backward, from its beginning until all buckets are averaged.
class Backward {
 public:
  Backward(const StepPlan& plan, const Machine& machine) : plan_(plan), machine_(machine) {
    double ready = 0;
    for (std::size_t bucket = 0; bucket < plan.buckets.size(); ++bucket) {
      const BucketPlan& each = plan.buckets[bucket];
      const double before = std::exchange(ready, std::max(ready, std::min(each.ready, plan.backward)));
      segments_.push_back({ready - before, {bucket, kNothing}});
      for (std::size_t send = 0; send < each.cost.sends.size(); ++send)
        if (each.cost.sends[send].after < 0)
          segments_.push_back({each.cost.sends[send].busy_before, {bucket, send}});
      segments_.push_back({each.cost.busy_after, {bucket, kEnd}});
      open_.push_back(each.cost.sends.size() + 1);
    }
    segments_.push_back({std::max(0.0, plan.backward - ready), {0, kNothing}});
    unfinished_ = plan.buckets.size();
  }

  Predicted play() {
    while (!segments_.empty() || unfinished_ > 0) {
      const Rates rates = rates_now();
      advance(until_next_event(rates), rates);
      finish_what_is_done();
    }
    return {now_, exposed_};
  }

 private:
  static constexpr std::size_t kNothing = std::numeric_limits<std::size_t>::max(), kEnd = kNothing - 1;

  struct Place {
    std::size_t bucket, send;
  };
  /// Work on the backward's thread, and what happens when it is over.
  struct Segment {
    double left;
    Place then;
  };
  /// What a hook computes, beside the backward, after a send is over: for each send that follows it, and then
  /// for the result.
  struct Computation {
    Place over;
    std::size_t next;  // the send that is being prepared, or kEnd
    double left;
  };
  struct Transfer {
    Place place;
    double left;     // seconds on an idle machine
    double busy;     // the share of them in which it needs a core
    double latency;  // passes after it has left the link
  };
  struct Delay {
    Place place;
    double until;
  };
  /// Speeds relative to an idle machine: 1, or less if cores are shared.
  struct Rates {
    double computation, transfer;
  };

  const std::vector<Send>& sends(std::size_t bucket) const { return plan_.buckets[bucket].cost.sends; }

  Rates rates_now() const {
    const double busy = link_.empty() ? 0 : link_.front().busy;
    const double demand = static_cast<double>(computations_.size()) + (segments_.empty() ? 0 : 1) + busy;
    const double share = demand > machine_.cores ? machine_.cores / demand : 1;
    return {share, 1 / (1 - busy + busy / share)};
  }

  double until_next_event(const Rates& rates) const {
    double next = std::numeric_limits<double>::infinity();
    if (!segments_.empty()) next = segments_.front().left / rates.computation;
    for (const Computation& each : computations_) next = std::min(next, each.left / rates.computation);
    if (!link_.empty()) next = std::min(next, link_.front().left / rates.transfer);
    for (const Delay& each : delays_) next = std::min(next, each.until - now_);
    return std::max(0.0, next);
  }

  void advance(double seconds, const Rates& rates) {
    now_ += seconds;
    if (segments_.empty()) {
      exposed_ += seconds;
    } else {
      segments_.front().left -= seconds * rates.computation;
    }
    for (Computation& each : computations_) each.left -= seconds * rates.computation;
    if (!link_.empty()) link_.front().left -= seconds * rates.transfer;
  }

  void finish_what_is_done() {
    while (!segments_.empty() && segments_.front().left <= kDone) {
      const Place then = segments_.front().then;
      segments_.pop_front();
      if (then.send == kEnd) {
        close(then.bucket);
      } else if (then.send != kNothing) {
        start(then);
      }
    }
    for (std::size_t i = 0; i < computations_.size();) {
      Computation& each = computations_[i];
      if (each.left > kDone) {
        ++i;
      } else if (each.next != kEnd) {
        start({each.over.bucket, each.next});
        prepare(each, each.next + 1);
      } else {
        close(each.over.bucket);
        computations_.erase(computations_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    while (!link_.empty() && link_.front().left <= kDone) {
      delays_.push_back({link_.front().place, now_ + link_.front().latency});
      link_.pop_front();
    }
    for (std::size_t i = 0; i < delays_.size();) {
      if (delays_[i].until > now_ + kDone) {
        ++i;
        continue;
      }
      computations_.push_back({delays_[i].place, kEnd, 0});
      prepare(computations_.back(), 0);
      delays_.erase(delays_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  /// Prepares the first send, from number `from` on, that follows the one that is over; after the last one,
  /// the final computation.
  void prepare(Computation& computation, std::size_t from) const {
    const std::vector<Send>& all = sends(computation.over.bucket);
    const int over = static_cast<int>(computation.over.send);
    while (from < all.size() && all[from].after != over) ++from;
    computation.next = from < all.size() ? from : kEnd;
    computation.left = from < all.size() ? all[from].busy_before : all[computation.over.send].busy_after;
  }

  void start(const Place& place) {
    const Send& each = sends(place.bucket)[place.send];
    if (each.bytes <= 0) return delays_.push_back({place, now_});
    const CollectiveTimes& times = each.is_half ? machine_.half : machine_.full;
    const CollectiveTime time = times.of(each.bytes);
    expect_time(time.seconds);
    // Latency overlaps with everything else, except for the time in which it needs a core: most of it, for a
    // short message.
    const double on_link =
        std::max(time.seconds - times.latency(), std::min(time.busy_seconds, time.seconds));
    const double busy = on_link > 0 ? std::min(1.0, time.busy_seconds / on_link) : 0;
    link_.push_back({place, on_link, busy, time.seconds - on_link});
  }

  /// Called when a send of the bucket is over, with all that is computed after it, or when the bucket's work
  /// on the backward's thread is.
  void close(std::size_t bucket) {
    if (--open_[bucket] == 0) --unfinished_;
  }

  const StepPlan& plan_;
  const Machine& machine_;
  std::deque<Segment> segments_;
  std::vector<std::size_t> open_;  // parts left, by bucket
  std::size_t unfinished_ = 0;
  double now_ = 0, exposed_ = 0;
  std::vector<Computation> computations_;
  std::deque<Transfer> link_;  // the first uses it
  std::vector<Delay> delays_;
};

}  // namespace

Predicted simulate(const StepPlan& plan, const Machine& machine) {
  expect_times(plan);
  expect_earlier_sends(plan);
  Predicted predicted = Backward(plan, machine).play();
  predicted.seconds += plan.before_backward + plan.after_backward;
  return predicted;
}

}  // namespace hookline
