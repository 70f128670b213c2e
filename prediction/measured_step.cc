#include "prediction/measured_step.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "prediction/simulate.h"

namespace hookline {
namespace {

using StepJson = nlohmann::ordered_json;

// The smallest factor by which simulated communication is scaled.
constexpr double kLeastFactor = 1.0 / 3;
constexpr int kHalvings = 60;

double seconds_with(const StepPlan& plan, const std::vector<BucketCost>& costs, const Machine& machine) {
  StepPlan with = plan;
  for (std::size_t i = 0; i < with.buckets.size(); ++i)
    with.buckets[i].cost = i < costs.size() ? costs[i] : BucketCost{};
  return simulate(with, machine).seconds;
}

StepPlan with_buckets(StepPlan plan, const std::vector<double>& ready) {
  if (ready.empty()) return plan;
  plan.buckets.clear();
  for (const double each : ready) plan.buckets.push_back({each, {}});
  return plan;
}

/// What communication adds to a step: as measured, divided by as simulated.
double correction(const MeasuredStep& step) {
  const Added added = added_by_communication(step);
  if (added.simulated <= 0 || added.measured <= 0) return 1;
  return std::max(added.measured / added.simulated, kLeastFactor);
}

CollectiveTimes slowed(const CollectiveTimes& times, double seconds_a_byte) {
  std::vector<CollectiveTime> slower = times.measured();
  for (CollectiveTime& each : slower) each.seconds += seconds_a_byte * each.bytes;
  return slower.empty() ? CollectiveTimes() : CollectiveTimes(std::move(slower));
}

Machine slowed(const Machine& machine, double seconds_a_byte) {
  return {machine.cores, slowed(machine.full, seconds_a_byte), slowed(machine.half, seconds_a_byte)};
}

/// The seconds to add per byte so that the simulated step without a hook takes as long as it was measured to.
/// Many links let short messages pass at once, but hold back what follows.
double slowness_to_fit(const MeasuredStep& step) {
  double bytes = 0;
  for (const BucketCost& bucket : step.no_hook)
    for (const Send& send : bucket.sends) bytes += send.bytes;
  double least = 0, most = step.seconds / bytes;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (least + most) / 2;
    (seconds_with(step.plan, step.no_hook, slowed(step.machine, middle)) < step.seconds ? least : most) =
        middle;
  }
  return least;
}

std::vector<double> simulated(const MeasuredStep& step, const Machine& machine,
                              const Machine& between_hosts) {
  std::vector<double> seconds;
  for (const MeasuredStep::Setting& each : step.settings)
    seconds.push_back(seconds_with(with_buckets(step.plan, each.ready), each.cost.buckets,
                                   each.is_between_hosts ? between_hosts : machine));
  return seconds;
}

StepJson json_of(const std::vector<BucketCost>& buckets) {
  StepJson json = StepJson::array();
  for (const BucketCost& bucket : buckets) {
    StepJson sends = StepJson::array();
    for (const Send& send : bucket.sends)
      sends.push_back({{"after", send.after},
                       {"busy_before", send.busy_before},
                       {"bytes", send.bytes},
                       {"is_half", send.is_half},
                       {"busy_after", send.busy_after}});
    json.push_back({{"sends", std::move(sends)}, {"busy_after", bucket.busy_after}});
  }
  return json;
}

std::vector<BucketCost> buckets_of(const StepJson& json) {
  std::vector<BucketCost> buckets;
  for (const StepJson& from : json) {
    BucketCost bucket;
    for (const StepJson& each : from.at("sends")) {
      Send send;
      each.at("after").get_to(send.after);
      each.at("busy_before").get_to(send.busy_before);
      each.at("bytes").get_to(send.bytes);
      each.at("is_half").get_to(send.is_half);
      each.at("busy_after").get_to(send.busy_after);
      bucket.sends.push_back(send);
    }
    from.at("busy_after").get_to(bucket.busy_after);
    buckets.push_back(std::move(bucket));
  }
  return buckets;
}

StepJson json_of(const CollectiveTimes& times) {
  StepJson json = StepJson::array();
  for (const CollectiveTime& each : times.measured())
    json.push_back({{"bytes", each.bytes}, {"seconds", each.seconds}, {"busy_seconds", each.busy_seconds}});
  return json;
}

CollectiveTimes times_of(const StepJson& json) {
  std::vector<CollectiveTime> times;
  for (const StepJson& each : json)
    times.push_back({each.at("bytes").get<double>(), each.at("seconds").get<double>(),
                     each.at("busy_seconds").get<double>()});
  return times.empty() ? CollectiveTimes() : CollectiveTimes(std::move(times));
}

}  // namespace

std::vector<double> predicted_seconds(const MeasuredStep& step) {
  const double alone = seconds_alone(step), scale = correction(step);
  const Machine& between_hosts = step.between_hosts ? *step.between_hosts : step.machine;
  if (scale > 1) {
    const double slowness = slowness_to_fit(step);
    return simulated(step, slowed(step.machine, slowness), slowed(between_hosts, slowness));
  }
  std::vector<double> seconds = simulated(step, step.machine, between_hosts);
  for (double& each : seconds) each = alone + scale * (each - alone);
  return seconds;
}

double seconds_alone(const MeasuredStep& step) { return seconds_with(step.plan, {}, step.machine); }

Added added_by_communication(const MeasuredStep& step) {
  const double alone = seconds_alone(step);
  return {step.seconds - alone, seconds_with(step.plan, step.no_hook, step.machine) - alone};
}

Elsewhere predicted_elsewhere(const MeasuredStep& step, const Machine& machine) {
  return {seconds_with(step.plan, step.no_hook, machine), simulated(step, machine, machine)};
}

std::string to_json(const MeasuredStep& step) {
  StepJson ready = StepJson::array(), settings = StepJson::array();
  for (const BucketPlan& bucket : step.plan.buckets) ready.push_back(bucket.ready);
  for (const MeasuredStep::Setting& each : step.settings)
    settings.push_back({{"name", each.name},
                        {"buckets", json_of(each.cost.buckets)},
                        {"margin", each.cost.margin},
                        {"is_measured", each.cost.how == HookCost::Known::measured},
                        {"ready", each.ready},
                        {"is_between_hosts", each.is_between_hosts}});
  StepJson json = {{"before_backward", step.plan.before_backward},
                   {"backward", step.plan.backward},
                   {"after_backward", step.plan.after_backward},
                   {"ready", std::move(ready)},
                   {"no_hook", json_of(step.no_hook)},
                   {"seconds", step.seconds},
                   {"cores", step.machine.cores},
                   {"full", json_of(step.machine.full)},
                   {"half", json_of(step.machine.half)},
                   {"settings", std::move(settings)}};
  if (step.between_hosts)
    json["between_hosts"] = {{"full", json_of(step.between_hosts->full)},
                             {"half", json_of(step.between_hosts->half)}};
  return json.dump();
}

MeasuredStep measured_step_from_json(std::string_view text) {
  try {
    const StepJson json = StepJson::parse(text);
    MeasuredStep step;
    json.at("before_backward").get_to(step.plan.before_backward);
    json.at("backward").get_to(step.plan.backward);
    json.at("after_backward").get_to(step.plan.after_backward);
    for (const StepJson& ready : json.at("ready")) step.plan.buckets.push_back({ready.get<double>(), {}});
    step.no_hook = buckets_of(json.at("no_hook"));
    json.at("seconds").get_to(step.seconds);
    json.at("cores").get_to(step.machine.cores);
    step.machine.full = times_of(json.at("full"));
    step.machine.half = times_of(json.at("half"));
    for (const StepJson& each : json.at("settings"))
      step.settings.push_back(
          {each.at("name").get<std::string>(),
           {buckets_of(each.at("buckets")), each.at("margin").get<double>(),
            each.at("is_measured").get<bool>() ? HookCost::Known::measured : HookCost::Known::derived},
           each.at("ready").get<std::vector<double>>(),
           each.value("is_between_hosts", false)});
    if (const auto between = json.find("between_hosts"); between != json.end())
      step.between_hosts =
          Machine{step.machine.cores, times_of(between->at("full")), times_of(between->at("half"))};
    return step;
  } catch (const StepJson::exception& error) {
    throw Error(std::string("what was measured of a step can't be read: ") + error.what());
  }
}

}  // namespace hookline
