// Decisions on recorded steps, judged by the sweeps recorded with them. `./dev bench recordings` rerecords
// them.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "prediction/decision.h"
#include "prediction/measured_step.h"
#include "prediction/network.h"
#include "prediction/simulate.h"

namespace hookline {
namespace {

struct RecordedRun {
  std::string name;
  MeasuredStep step;
  std::map<std::string, double> measured;  // step time in seconds, by setting; includes "no hook"
};

const std::vector<RecordedRun>& recorded_runs() {
  static const std::vector<RecordedRun> runs = [] {
    std::vector<RecordedRun> read;
    for (const auto& entry : std::filesystem::directory_iterator(RECORDINGS)) {
      const auto json = nlohmann::json::parse(std::ifstream(entry.path()));
      RecordedRun run{entry.path().stem(), measured_step_from_json(json.at("measured_step").dump()), {}};
      for (const auto& each : json.at("settings"))
        if (!each.at("measured").is_null()) run.measured[each.at("name")] = each.at("measured");
      read.push_back(std::move(run));
    }
    return read;
  }();
  return runs;
}

/// "power_sgd(rank=2)" of "power_sgd(rank=2), 1 MiB buckets".
std::string hook_of(const std::string& setting) { return setting.substr(0, setting.find(", ")); }

/// The step time of the chosen setting, as the sweep measured it; settings tried on the way take their
/// measured times.
double measured_of_choice(const RecordedRun& run) {
  std::vector<std::string> names{"no hook"};
  std::vector<Contender> contenders{{0, run.step.no_hook.size()}};
  std::map<std::string, std::size_t> hooks{{"no hook", 0}};
  for (const MeasuredStep::Setting& each : run.step.settings) {
    names.push_back(each.name);
    contenders.push_back(
        {hooks.try_emplace(hook_of(each.name), hooks.size()).first->second, each.cost.buckets.size()});
  }
  Decision decision(std::move(contenders));
  decision.begin(run.measured.at("no hook"));
  const std::vector<double> seconds = predicted_seconds(run.step);
  for (std::size_t i = 0; i < seconds.size(); ++i)
    if (run.measured.contains(names[i + 1])) decision.predict(i + 1, seconds[i]);
  std::size_t tried = names.size();
  for (std::size_t next = decision.next(); next != tried; next = decision.next()) {
    tried = next;
    decision.measure(tried, run.measured.at(names[tried]));
  }
  return run.measured.at(names[tried]);
}

double best_of(const RecordedRun& run) {
  return std::min_element(run.measured.begin(), run.measured.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->second;
}

TEST(Recordings, CoverEveryNetworkAndModel) { EXPECT_GE(recorded_runs().size(), 18U); }

TEST(Recordings, LeadToChoicesNearTheBest) {
  int near = 0;
  for (const RecordedRun& run : recorded_runs()) {
    const double chosen = measured_of_choice(run);
    near += chosen <= 1.05 * best_of(run);
    EXPECT_LE(chosen, 1.25 * best_of(run)) << run.name;
    EXPECT_LE(chosen, 1.03 * run.measured.at("no hook")) << run.name;
  }
  EXPECT_GE(near, 0.9 * static_cast<double>(recorded_runs().size()));
}

/// The network that `run` was recorded on, by its name "100mbit-3-charlm"; none on one machine.
std::optional<Network> network_named_by(const RecordedRun& run) {
  std::istringstream name(run.name);
  double speed = 0, hosts = 0;
  std::string unit, after;
  if (!(name >> speed) || !std::getline(name, unit, '-') || !(name >> hosts)) return std::nullopt;
  if (name.peek() != '-') return std::nullopt;  // "2x2": two ranks on each host
  return Network{hosts, speed * (unit == "gbit" ? 1e9 : 1e6) / 8, 50e-6};
}

// With [ddp.auto] link, all-reduces are computed instead of timed.
TEST(Recordings, LeadToChoicesNearTheBestOnANamedLink) {
  int near = 0, all = 0;
  for (RecordedRun run : recorded_runs()) {
    const auto network = network_named_by(run);
    if (!network) continue;
    run.step.machine.full = run.step.machine.half = all_reduces_on(*network, {});
    ++all;
    near += measured_of_choice(run) <= 1.05 * best_of(run);
    EXPECT_LE(measured_of_choice(run), 1.03 * run.measured.at("no hook")) << run.name;
  }
  EXPECT_GE(all, 14);
  EXPECT_GE(near, 0.9 * all);
}

/// The median relative error of the predictions, as a fraction of the measured time.
double prediction_error(const RecordedRun& run) {
  const std::vector<double> seconds = predicted_seconds(run.step);
  std::vector<double> errors;
  for (std::size_t i = 0; i < seconds.size(); ++i)
    if (const auto found = run.measured.find(run.step.settings[i].name); found != run.measured.end())
      errors.push_back(std::abs(seconds[i] / found->second - 1));
  std::sort(errors.begin(), errors.end());
  return errors.at(errors.size() / 2);
}

TEST(Recordings, ArePredictedWellForMostSettings) {
  int within = 0, all = 0;
  for (const RecordedRun& run : recorded_runs()) {
    const std::vector<double> seconds = predicted_seconds(run.step);
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      const auto measured = run.measured.find(run.step.settings[i].name);
      if (measured == run.measured.end()) continue;
      ++all;
      within += std::abs(seconds[i] / measured->second - 1) <= 0.15;
    }
  }
  EXPECT_GE(within, 0.6 * all) << within << " of " << all;
}

TEST(Recordings, AreChosenFromInMilliseconds) {
  for (const RecordedRun& run : recorded_runs()) {
    const auto start = std::chrono::steady_clock::now();
    measured_of_choice(run);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_LT(took.count(), 0.25) << run.name;  // a busy machine takes some of it
  }
}

double simulated(const MeasuredStep& step, const std::vector<BucketCost>& costs) {
  StepPlan plan = step.plan;
  for (std::size_t i = 0; i < costs.size(); ++i) plan.buckets[i].cost = costs[i];
  return simulate(plan, step.machine).seconds;
}

/// The shortest simulated step if every bucket may have its own hook. Starts from each single hook, then
/// replaces hooks one bucket at a time while that helps.
double simulated_mixture(const MeasuredStep& step, const std::vector<std::vector<BucketCost>>& hooks) {
  double best = std::numeric_limits<double>::infinity();
  for (const auto& first : hooks) {
    std::vector<BucketCost> mixture = first;
    double seconds = simulated(step, mixture);
    for (bool gains = true; gains;) {
      gains = false;
      for (std::size_t bucket = 0; bucket < mixture.size(); ++bucket) {
        for (const auto& hook : hooks) {
          std::vector<BucketCost> other = mixture;
          other[bucket] = hook[bucket];
          if (const double then = simulated(step, other); then < seconds - 1e-6) {
            mixture = std::move(other);
            seconds = then;
            gains = true;
          }
        }
      }
    }
    best = std::min(best, seconds);
  }
  return best;
}

// This is why one hook is chosen for all buckets: a mixture saves no more than the predictions' error. Where
// ranks share cores, the hooks' computing times are too uncertain to tell.
TEST(Recordings, ShowNoGainFromADifferentHookPerBucket) {
  for (const RecordedRun& run : recorded_runs()) {
    if (run.name.find("-2-") == std::string::npos) continue;  // two hosts or ranks: each has its own core
    std::vector<std::vector<BucketCost>> hooks{run.step.no_hook};
    for (const MeasuredStep::Setting& each : run.step.settings)
      if (each.cost.buckets.size() == run.step.no_hook.size()) hooks.push_back(each.cost.buckets);
    double uniform = std::numeric_limits<double>::infinity();
    for (const auto& hook : hooks) uniform = std::min(uniform, simulated(run.step, hook));
    const double certain = 1 - std::max(0.03, prediction_error(run));
    EXPECT_GT(simulated_mixture(run.step, hooks), certain * uniform) << run.name;
  }
}

TEST(MeasuredStep, IsReadAsItWasWritten) {
  for (const RecordedRun& run : recorded_runs()) {
    const std::string text = to_json(run.step);
    EXPECT_EQ(to_json(measured_step_from_json(text)), text) << run.name;
  }
}

TEST(MeasuredStep, RefusesOtherJson) {
  for (const char* text : {"", "[]", "{}", "{\"seconds\": 1", R"({"seconds": "long"})"}) {
    try {
      measured_step_from_json(text);
      ADD_FAILURE() << "no error: " << text;
    } catch (const Error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("what was measured of a step can't be read: "))
          << error.what();
    }
  }
}

/// A step that only sends 100 MB.
MeasuredStep step_of_sending() {
  MeasuredStep step;
  step.plan.buckets.resize(1);
  Send send;
  send.bytes = 100e6;
  step.no_hook = {{{send}, 0}};
  send.bytes = 1e6;
  step.settings = {{"less", {{{{send}, 0}}, 0, HookCost::Known::derived}}};
  step.machine.full = step.machine.half = CollectiveTimes({{64, 0.001, 0}, {100e6, 1.001, 0}});
  step.seconds = 1.001;
  return step;
}

TEST(MeasuredStep, IsPredictedOnAnotherNetwork) {
  const MeasuredStep step = step_of_sending();
  EXPECT_NEAR(predicted_seconds(step)[0], 0.011, 1e-3);
  const CollectiveTimes inside({{64, 0, 0}, {100e6, 0, 0}});
  const Network network{4, 50e6, 0.002};
  // 6 messages of a quarter of the bytes: 6 (0.002 + 0.5).
  const Elsewhere there =
      predicted_elsewhere(step, {1, all_reduces_on(network, inside), all_reduces_on(network, inside)});
  EXPECT_NEAR(there.no_hook, 3.012, 1e-3);
  EXPECT_NEAR(there.settings.at(0), 6 * (0.002 + 0.25e6 / 50e6), 1e-3);
}

// A link that passes short messages at once but throttles longer ones: a 100 MB step takes longer than
// messages suggested.
TEST(MeasuredStep, RevealsALinkSlowerThanItsShortMessagesSuggest) {
  MeasuredStep step = step_of_sending();
  step.seconds = 20;
  step.settings.push_back(step.settings[0]);
  step.settings[1].cost.buckets[0].sends[0].bytes = 50e6;
  const std::vector<double> seconds = predicted_seconds(step);
  EXPECT_NEAR(seconds[0], 0.2, 0.01);
  EXPECT_NEAR(seconds[1], 10, 0.1);
}

TEST(MeasuredStep, IsPredictedBetweenHostsByTheirOwnLink) {
  MeasuredStep step = step_of_sending();
  step.settings.push_back(step.settings[0]);
  step.settings[1].is_between_hosts = true;
  EXPECT_EQ(predicted_seconds(step)[0], predicted_seconds(step)[1]) << "where none was measured";
  const CollectiveTimes tenfold({{64, 0.0001, 0}, {100e6, 0.1001, 0}});
  step.between_hosts = Machine{1, tenfold, tenfold};
  const std::vector<double> seconds = predicted_seconds(step);
  EXPECT_NEAR(seconds[0], 0.011, 1e-3);
  EXPECT_NEAR(seconds[1], 0.0011, 1e-4);
  EXPECT_EQ(predicted_seconds(measured_step_from_json(to_json(step))), seconds);
}

TEST(MeasuredStep, IsPredictedInOtherBuckets) {
  MeasuredStep step = step_of_sending();
  step.plan.backward = 1;
  step.plan.buckets[0].ready = 1;
  step.seconds = 2.001;
  Send half;
  half.bytes = 50e6;
  step.settings = {{"halves", {{{{half}, 0}, {{half}, 0}}, 0, HookCost::Known::derived}, {0.5, 1}}};
  EXPECT_NEAR(predicted_seconds(step)[0], 1.501, 0.002) << "the first half is sent while backward continues";
}

TEST(NetworkOf, RecoversTheNetworkFromAllReduceTimes) {
  const Network network = network_of(3, all_reduces_on({3, 125e6, 0.0005}, CollectiveTimes()));
  EXPECT_NEAR(network.latency_seconds, 0.0005, 1e-6);
  EXPECT_NEAR(network.bytes_per_second, 125e6, 1e3);
}

TEST(NetworkOf, IsUnlimitedForOneHost) {
  const CollectiveTimes alone = all_reduces_on({1, 1, 1}, CollectiveTimes({{64, 0.1, 0}, {128, 0.2, 0}}));
  EXPECT_NEAR(alone.of(128).seconds, 0.2, 1e-6);
  EXPECT_GT(network_of(1, alone).bytes_per_second, 1e11);
}

}  // namespace
}  // namespace hookline
