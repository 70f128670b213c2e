#include "prediction/simulate.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <limits>
#include <vector>

namespace hookline {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kDone = 1e-12;  // seconds: what is left of rounding

/// Plays a backward: from its beginning until all buckets are averaged.
class Backward {
 public:
  Backward(const StepPlan& plan, const Machine& machine) : plan_(plan), machine_(machine) {
    double ready = 0;
    for (const BucketPlan& bucket : plan.buckets) {
      const double before = ready;
      ready = std::max(ready, std::min(bucket.ready, plan.backward));
      const double first =
          bucket.cost.sends.empty() ? bucket.cost.busy_after : bucket.cost.sends[0].busy_before;
      segments_.push_back(ready - before + first);
    }
    segments_.push_back(std::max(0.0, plan.backward - ready));
    left_of_segment_ = segments_[0];
    unfinished_ = plan.buckets.size();
  }

  Predicted play() {
    while (!backward_is_over() || unfinished_ > 0) {
      const Rates rates = rates_now();
      const double step = until_next_event(rates);
      advance(step, rates);
      finish_what_is_done();
    }
    return {now_, exposed_};
  }

 private:
  /// Of a bucket: how many of its collectives are over.
  struct Place {
    std::size_t bucket, sent;
  };
  /// Something that a hook computes beside the backward, seconds of a core.
  struct Computation {
    Place place;
    double left;
  };
  struct Transfer {
    Place place;
    double left;     // seconds on an idle machine
    double busy;     // share of these in which it needs a core
    double latency;  // that passes when it has left the link
  };
  struct Delay {
    Place place;
    double until;
  };
  /// Of an idle machine's: 1, or less if cores are shared.
  struct Rates {
    double computation, transfer;
  };

  bool backward_is_over() const { return segment_ == segments_.size(); }

  Rates rates_now() const {
    double demand = static_cast<double>(computations_.size()) + (backward_is_over() ? 0 : 1);
    const double busy = link_.empty() ? 0 : link_.front().busy;
    demand += busy;
    const double share = demand > machine_.cores ? machine_.cores / demand : 1;
    return {share, 1 / (1 - busy + busy / share)};
  }

  double until_next_event(const Rates& rates) const {
    double next = kNever;
    if (!backward_is_over()) next = left_of_segment_ / rates.computation;
    for (const Computation& each : computations_) next = std::min(next, each.left / rates.computation);
    if (!link_.empty()) next = std::min(next, link_.front().left / rates.transfer);
    for (const Delay& each : delays_) next = std::min(next, each.until - now_);
    return std::max(0.0, next);
  }

  void advance(double seconds, const Rates& rates) {
    now_ += seconds;
    if (backward_is_over()) {
      exposed_ += seconds;
    } else {
      left_of_segment_ -= seconds * rates.computation;
    }
    for (Computation& each : computations_) each.left -= seconds * rates.computation;
    if (!link_.empty()) link_.front().left -= seconds * rates.transfer;
  }

  void finish_what_is_done() {
    while (!backward_is_over() && left_of_segment_ <= kDone) {
      if (segment_ < plan_.buckets.size()) send({segment_, 0});
      ++segment_;
      if (!backward_is_over()) left_of_segment_ = segments_[segment_];
    }
    for (const Place& place :
         taken_if(computations_, [](const Computation& each) { return each.left <= kDone; }))
      send(place);
    while (!link_.empty() && link_.front().left <= kDone) {
      const Transfer done = link_.front();
      link_.pop_front();
      delays_.push_back({done.place, now_ + done.latency});
    }
    for (const Place& place :
         taken_if(delays_, [this](const Delay& each) { return each.until <= now_ + kDone; }))
      go_on({place.bucket, place.sent + 1});
  }

  template <class Each, class IsDone>
  static std::vector<Place> taken_if(std::vector<Each>& all, const IsDone& is_done) {
    std::vector<Place> places;
    for (const Each& each : all)
      if (is_done(each)) places.push_back(each.place);
    all.erase(std::remove_if(all.begin(), all.end(), is_done), all.end());
    return places;
  }

  /// What is computed before the next collective is over; behind the last one, the bucket is.
  void send(const Place& place) {
    const std::vector<Send>& sends = plan_.buckets[place.bucket].cost.sends;
    if (place.sent == sends.size()) {
      --unfinished_;
      return;
    }
    const Send& each = sends[place.sent];
    const CollectiveTimes& times = each.is_half ? machine_.half : machine_.full;
    const CollectiveTime time = times.of(each.bytes);
    const double latency = std::min(times.latency(), time.seconds);
    const double on_link = time.seconds - latency;
    const double busy = on_link > 0 ? std::min(1.0, time.busy_seconds / on_link) : 0;
    link_.push_back({place, on_link, busy, latency});
  }

  /// A collective is over.
  void go_on(const Place& place) {
    const BucketCost& cost = plan_.buckets[place.bucket].cost;
    const bool is_last = place.sent == cost.sends.size();
    computations_.push_back({place, is_last ? cost.busy_after : cost.sends[place.sent].busy_before});
  }

  const StepPlan& plan_;
  const Machine& machine_;
  std::vector<double> segments_;  // on the backward's thread: until each bucket is handed over, and the rest
  std::size_t segment_ = 0, unfinished_ = 0;
  double left_of_segment_ = 0, now_ = 0, exposed_ = 0;
  std::vector<Computation> computations_;
  std::deque<Transfer> link_;  // the first uses it
  std::vector<Delay> delays_;
};

}  // namespace

Predicted simulate(const StepPlan& plan, const Machine& machine) {
  Predicted predicted = Backward(plan, machine).play();
  predicted.seconds += plan.before_backward + plan.after_backward;
  return predicted;
}

}  // namespace hookline
