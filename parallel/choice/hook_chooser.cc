#include "parallel/choice/hook_chooser.h"

#include <ATen/Parallel.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <sched.h>

#include <algorithm>
#include <utility>

#include "hooks/error.h"
#include "hooks/log.h"
#include "hooks/number_text.h"
#include "hooks/registry.h"
#include "parallel/choice/hook_cost.h"
#include "parallel/choice/link_cost.h"
#include "prediction/simulate.h"

namespace hookline {
namespace {

// Multiples of a step without a hook that measuring may take, and seconds that it may take in any case.
constexpr double kLinkBudget = 2, kHooksBudget = 4, kLeastBudget = 0.05;
// Part of a window's time that a look at the link may take, with all of its all-reduces.
constexpr double kProbePart = 0.01;
// An all-reduce shorter than this many latencies says nothing about bandwidth.
constexpr double kLatencies = 3;
// Factor by which a simulation of communication is corrected at most.
constexpr double kMostOff = 2;
// Factor by which one hook's measured step corrects what is predicted of others at most.
constexpr double kMostBias = 1.25;

double seconds_of(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The cores that the ranks of this host may run on, for each of them, in units of what a rank's own arithmetic uses. Ranks may share
/// all of them, or be bound to some each.
double cores_of_a_rank(World& world) {
  cpu_set_t own;
  CPU_ZERO(&own);
  if (::sched_getaffinity(0, sizeof own, &own) != 0) CPU_SET(0, &own);
  const at::Tensor mask = at::zeros({CPU_SETSIZE}, at::kByte);
  for (int core = 0; core < CPU_SETSIZE; ++core) mask[core] = CPU_ISSET(core, &own) ? 1 : 0;
  const std::vector<at::Tensor> masks = world.all_gather(mask);
  const std::vector<int>& ranks = world.layout().local_ranks();
  at::Tensor any = at::zeros_like(mask);
  for (const int rank : ranks) any = at::maximum(any, masks[static_cast<std::size_t>(rank)]);
  const auto cores = static_cast<double>(any.sum().item<std::int64_t>());
  return std::max(1.0, cores / static_cast<double>(ranks.size()) / at::get_num_threads());
}

/// Every number of `costs`, in one order.
template <class Action>
void for_each_number(std::vector<BucketCost>& costs, const Action& action) {
  for (BucketCost& cost : costs) {
    for (Send& send : cost.sends) {
      action(send.busy_before);
      action(send.busy_after);
    }
    action(cost.busy_after);
  }
}

std::int64_t bytes_of(const std::vector<at::Tensor>& tensors) {
  std::int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

std::string ms(double seconds) { return rounded(1e3 * seconds, 3) + " ms"; }

}  // namespace

HookChooser::HookChooser(std::shared_ptr<World> world, Ddp& ddp, std::vector<HookSetting> settings,
                         ChoiceSteps steps, WatchRule watch_rule)
    : world_(std::move(world)),
      ddp_(ddp),
      settings_(std::move(settings)),
      steps_(steps),
      watch_rule_(watch_rule) {
  if (!world_->device().is_cpu())
    throw Error(
        "[ddp] comm_hook = \"auto\" measures on the CPU only so far: name a hook, or set [launch] device = "
        "\"cpu\"");
  if (ddp.options().hook_between_hosts)
    throw Error(
        "[ddp] comm_hook = \"auto\" does not choose what goes between hosts: leave comm_scope out, or name a "
        "hook");
  if (ddp.hook())
    throw Error("[ddp] comm_hook = \"auto\": the model has the hook '" + ddp.hook()->describe() +
                "' already; register none by hand");
  if (ddp.shards_optimizer())
    throw Error(
        "[ddp] comm_hook = \"auto\" does not work with shard_optimizer = true: name a hook, or leave "
        "shard_optimizer out");
  for (const int count : {steps_.settling, steps_.plain, steps_.deferred, steps_.first_window, steps_.window})
    if (count < 1) throw Error("each of ChoiceSteps must be 1 at least, but for those that are skipped");
  settings_.insert(settings_.begin(), HookSetting{"no hook", "no"});
  begin(Phase::settling);
}

void HookChooser::begin(Phase phase) {
  phase_ = phase;
  periods_.clear();
  observed_.clear();
  switch (phase) {
    case Phase::settling:
      left_ = steps_.settling;
      break;
    case Phase::plain:
      left_ = steps_.plain;
      break;
    case Phase::deferred:
      left_ = 1 + steps_.deferred;
      break;
    case Phase::proving: {
      const std::int64_t start = ddp_.hook() ? ddp_.hook()->first_full_step() : 0;
      left_ = static_cast<int>(start) + steps_.skipped + steps_.first_window;
      break;
    }
    case Phase::watching:
      left_ = steps_.window;
      break;
  }
}

void HookChooser::after_step() {
  if (world_->size() == 1) return;  // nothing is sent
  const auto now = Clock::now();
  if (last_) {
    periods_.push_back(seconds_of(now - *last_));
    if (phase_ == Phase::deferred) observe(now);
    if (--left_ == 0) end_phase();
  }
  last_ = Clock::now();  // what is decided counts towards no step
}

void HookChooser::observe(Clock::time_point now) {
  Observed step;
  const auto began = ddp_.backward_began_at();
  step.before = seconds_of(began - *last_);
  const std::lock_guard lock(moments_->mutex);
  for (const auto& ready : moments_->ready) step.ready.push_back(seconds_of(ready - began));
  step.after = seconds_of(now - moments_->averaged);
  observed_.push_back(std::move(step));
}

void HookChooser::end_phase() {
  switch (phase_) {
    case Phase::settling:
      return begin(Phase::plain);
    case Phase::plain:
      plain_ = agreed_median(periods_);
      moments_ = std::make_shared<BucketMoments>();
      ddp_.exchange_hook([this](const HookContext& context) {
        return std::make_unique<DeferredAverage>(context, moments_);
      });
      return begin(Phase::deferred);
    case Phase::deferred:
      return decide();
    case Phase::proving:
      return prove();
    case Phase::watching:
      return look();
  }
}

double HookChooser::agreed_median(std::vector<double> values) const {
  return means_over_ranks(*world_, {median(std::move(values))})[0];
}

StepPlan HookChooser::agreed_plan() const {
  std::vector<double> numbers;
  const auto add = [&](const auto& of) {
    std::vector<double> values;
    for (std::size_t i = 1; i < observed_.size(); ++i) values.push_back(of(observed_[i]));
    numbers.push_back(median(std::move(values)));
  };
  add([](const Observed& step) { return step.before; });
  add([](const Observed& step) { return step.after; });
  for (std::size_t bucket = 0; bucket < observed_.back().ready.size(); ++bucket)
    add([&](const Observed& step) { return step.ready.at(bucket); });
  numbers = means_over_ranks(*world_, numbers);
  StepPlan plan;
  plan.before_backward = numbers[0];
  plan.after_backward = numbers[1];
  for (std::size_t i = 2; i < numbers.size(); ++i) plan.buckets.push_back({numbers[i], {}});
  plan.backward = numbers.back();
  return plan;
}

void HookChooser::measure_machine() {
  if (!probe_group_) probe_group_ = world_->make_stage_group("hook-choice");
  std::int64_t largest = 0;
  for (const auto& bucket : ddp_.buckets()) largest = std::max(largest, bytes_of(bucket));
  const LinkCost link = measure_link(*world_, *probe_group_, largest,
                                     std::max(kLeastBudget, kLinkBudget * plain_), "the choice of a hook");
  machine_ = {cores_of_a_rank(*world_), link.full, link.half};
}

/// The largest all-reduce that a look at the link can afford, in steps as they are now.
void HookChooser::choose_probe() {
  probe_bytes_ = 0;
  const double affordable = kProbePart * steps_.window * watched_step_ / kLooks;
  for (const CollectiveTime& each : machine_.full.measured())
    if (each.seconds >= kLatencies * machine_.full.latency() && each.seconds <= affordable)
      probe_bytes_ = static_cast<std::int64_t>(each.bytes);
  probe_seconds_ = probe_link();
}

double HookChooser::seconds_with(const StepPlan& plan, std::vector<BucketCost> costs) const {
  StepPlan with = plan;
  for (std::size_t i = 0; i < with.buckets.size() && i < costs.size(); ++i)
    with.buckets[i].cost = std::move(costs[i]);
  return simulate(with, machine_).seconds;
}

std::vector<BucketCost> HookChooser::agreed_cost(const HookSetting& setting) const {
  std::vector<BucketCost> costs = measure_hook(
      [&](const HookContext& context) {
        return Registry::instance().build(setting.hook, setting.wrapper, setting.options, context);
      },
      world_->size(), ddp_.buckets(), /*hopeless_seconds=*/plain_);
  std::vector<double> numbers;
  for_each_number(costs, [&](double& number) { numbers.push_back(number); });
  numbers = means_over_ranks(*world_, numbers);
  auto next = numbers.begin();
  for_each_number(costs, [&](double& number) { number = *next++; });
  return costs;
}

void HookChooser::predict(const StepPlan& plan) {
  seconds_.assign(settings_.size(), 0);
  is_measured_.assign(settings_.size(), false);
  seconds_[0] = plain_;
  is_measured_[0] = true;
  std::vector<BucketCost> plain;
  for (const auto& bucket : ddp_.buckets()) {
    Send send;
    send.bytes = static_cast<double>(bytes_of(bucket));
    send.is_half = bucket.at(0).element_size() == 2;
    plain.push_back({{send}, 0});
  }
  const double alone = seconds_with(plan, {}), simulated = seconds_with(plan, plain);
  if (alone > plain_ * (1 - ChoiceRule().least_gain)) return;  // no hook could gain
  // What the simulation misses of the communication that was measured, it misses of any.
  const double scale = std::clamp((plain_ - alone) / (simulated - alone), 1 / kMostOff, kMostOff);
  const double budget = std::max(kLeastBudget, kHooksBudget * plain_);
  double spent = 0;
  std::string left_out;
  for (std::size_t i = 1; i < settings_.size(); ++i) {
    if (spent > budget) {
      left_out += (left_out.empty() ? "" : ", ") + settings_[i].name;
      continue;
    }
    const auto start = Clock::now();
    seconds_[i] = alone + scale * (seconds_with(plan, agreed_cost(settings_[i])) - alone);
    spent += means_over_ranks(*world_, {seconds_of(Clock::now() - start)})[0];
  }
  if (!left_out.empty())
    log("not considered, since measuring the others took " + ms(spent) + ": " + left_out);
}

std::size_t HookChooser::agreed_choice() const {
  std::vector<double> seconds = seconds_;
  for (std::size_t i = 1; i < seconds.size(); ++i)
    if (is_measured_[i] && i != in_use_) seconds[i] = 0;  // another one has beaten it
  const at::Tensor choice = at::tensor({static_cast<std::int64_t>(choose(seconds, in_use_))}, at::kLong);
  world_->broadcast({choice});
  return static_cast<std::size_t>(choice.item<std::int64_t>());
}

std::size_t HookChooser::fastest_other() const {
  std::size_t fastest = in_use_;
  for (std::size_t i = 0; i < seconds_.size(); ++i)
    if (i != in_use_ && seconds_[i] > 0 && (fastest == in_use_ || seconds_[i] < seconds_[fastest]))
      fastest = i;
  return fastest;
}

void HookChooser::use(std::size_t setting) {
  if (setting != in_use_) ++exchanges_;
  in_use_ = setting;
  predicted_ = seconds_[setting];
  if (setting == 0) return ddp_.exchange_hook({});
  ddp_.exchange_hook([&](const HookContext& context) {
    const HookSetting& chosen = settings_[setting];
    return Registry::instance().build(chosen.hook, chosen.wrapper, chosen.options, context);
  });
}

void HookChooser::decide() {
  const StepPlan plan = agreed_plan();
  measure_machine();
  predict(plan);
  const std::size_t choice = agreed_choice();
  use(choice);
  if (choice != 0) {
    log(settings_[choice].name + " is predicted to take " + ms(seconds_[choice]) + " a step; no hook takes " +
        ms(plain_));
  } else if (const std::size_t other = fastest_other(); other != 0) {
    log("no hook, which takes " + ms(plain_) + " a step; " + settings_[other].name +
        " is predicted to take " + ms(seconds_[other]));
  } else {
    log("no hook, which takes " + ms(plain_) +
        " a step: communication takes too little of it for a hook to gain");
  }
  begin(Phase::proving);
}

void HookChooser::prove() {
  periods_.erase(periods_.begin(), periods_.end() - steps_.first_window);
  const double measured = agreed_median(periods_);
  // What one hook takes beyond its prediction, the others will, as far as that is the prediction's fault.
  if (in_use_ != 0)
    for (std::size_t i = 1; i < seconds_.size(); ++i)
      if (!is_measured_[i]) seconds_[i] *= std::clamp(measured / predicted_, 1 / kMostBias, kMostBias);
  seconds_[in_use_] = watched_step_ = measured;
  is_measured_[in_use_] = true;
  const std::size_t choice = agreed_choice();
  if (in_use_ != 0)
    log(settings_[in_use_].name + " takes " + ms(measured) + " a step; predicted " + ms(predicted_) +
        ", no hook " + ms(plain_));
  if (choice == in_use_) {
    watch_ = ChoiceWatch(watch_rule_);
    choose_probe();
    return begin(Phase::watching);
  }
  log(settings_[choice].name + " instead of " + settings_[in_use_].name + ": it takes " +
      ms(seconds_[choice]) + " a step");
  use(choice);
  begin(Phase::proving);
}

double HookChooser::probe_link() const {
  if (probe_bytes_ == 0) return 0;
  return time_all_reduce(*world_, *probe_group_, probe_bytes_, "the choice of a hook");
}

void HookChooser::look() {
  const double probed = probe_link();
  const double probes =
      probe_bytes_ > 0 ? static_cast<double>(bytes_of(ddp_.parameters())) / static_cast<double>(probe_bytes_)
                       : 0;
  const Window window{agreed_median(periods_), watched_step_, probes * probed, probes * probe_seconds_};
  if (!watch_.sees_change(window)) return begin(Phase::watching);
  log("a step takes " + ms(window.step) + " instead of " + ms(window.step_before) +
      (probed > 0 ? ", an all-reduce of " + std::to_string(probe_bytes_) + " bytes " + ms(probed) +
                        " instead of " + ms(probe_seconds_)
                  : "") +
      ": choosing again");
  if (in_use_ != 0) use(0);
  begin(Phase::plain);
}

void HookChooser::log(const std::string& text) const {
  if (world_->rank() == 0) log::info("comm_hook auto: " + text);
}

}  // namespace hookline
