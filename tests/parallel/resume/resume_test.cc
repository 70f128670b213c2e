// A run that is stopped and resumed from its checkpoint ends bit for bit like an uninterrupted one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "hooks/registry/registry.h"
#include "parallel/accelerator.h"
#include "tests/support/process.h"
#include "tests/support/run_ranks.h"
#include "tests/support/waves.h"

namespace hookline {
namespace {

using testing::run_ranks;
using testing::TemporaryFolder;

// Sample i holds functions of i.
struct Waves : torch::data::datasets::Dataset<Waves> {
  torch::data::Example<> get(std::size_t index) override {
    const auto i = static_cast<float>(index);
    return {torch::sin(torch::arange(24).to(torch::kFloat) * (i + 1)), torch::cos(torch::arange(6) + i)};
  }
  torch::optional<std::size_t> size() const override { return 24; }
};

// Large enough for two buckets of 1 MiB, and for what PowerSGD compresses.
struct NetImpl : torch::nn::Module {
  NetImpl() {
    wide = register_module("wide", torch::nn::Linear(24, 600));
    deep = register_module("deep", torch::nn::Linear(600, 600));
    norm = register_module("norm", torch::nn::BatchNorm1d(600));
    head = register_module("head", torch::nn::Linear(600, 6));
    testing::set_to_waves(*this, 0.1);
  }
  at::Tensor forward(const at::Tensor& x) {
    return head->forward(norm->forward(torch::relu(deep->forward(torch::relu(wide->forward(x))))));
  }
  torch::nn::Linear wide{nullptr}, deep{nullptr}, head{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};
TORCH_MODULE(Net);

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor>)>;

std::unique_ptr<torch::optim::Optimizer> momentum_sgd(std::vector<at::Tensor> parameters) {
  return std::make_unique<torch::optim::SGD>(std::move(parameters),
                                             torch::optim::SGDOptions(0.05).momentum(0.9));
}

struct Job {
  RunConfig config;
  int ranks = 2;
  MakeOptimizer optimizer = momentum_sgd;
  std::int64_t batches = 14;  // over epochs of 6, 4 or 3 for 2, 3 or 4 ranks
};

/// Every parameter and buffer of one rank, in one tensor.
at::Tensor all_of(torch::nn::Module& module) {
  std::vector<at::Tensor> parts;
  for (const auto& tensor : module.parameters())
    parts.push_back(tensor.detach().flatten().to(torch::kDouble));
  for (const auto& tensor : module.buffers()) parts.push_back(tensor.detach().flatten().to(torch::kDouble));
  return torch::cat(parts);
}

/// Trains from batch `first` up to (excluding) `last`; loads `from` first and saves to `to` afterwards.
std::vector<at::Tensor> train(const Job& job, std::int64_t first, std::int64_t last, const std::string& from,
                              const std::string& to) {
  std::vector<at::Tensor> results(static_cast<std::size_t>(job.ranks));
  run_ranks(job.ranks, [&](const std::shared_ptr<World>& world) {
    Accelerator accelerator(job.config, world);
    Net net;
    const auto bare = job.optimizer(net->parameters());
    auto [model, optimizer, loader] =
        accelerator.prepare(net, *bare, data_loader(Waves(), {.batch_size = 2}));
    if (!from.empty()) accelerator.load_state(from);
    for (std::int64_t batch_number = first; batch_number < last;) {
      for (auto& batch : loader) {
        accelerator.accumulate(model, [&, &model = model, &optimizer = optimizer] {
          accelerator.backward((model->forward(batch.data) - batch.target).pow(2).mean());
          optimizer.step();
          optimizer.zero_grad();
        });
        if (++batch_number == last) break;
      }
    }
    if (!to.empty()) {
      EXPECT_TRUE(accelerator.save_state(to));
    }
    results[static_cast<std::size_t>(world->rank())] = all_of(*net);
  });
  return results;
}

void expect_equal_bits(const std::vector<at::Tensor>& one, const std::vector<at::Tensor>& other,
                       const std::string& what) {
  for (std::size_t rank = 0; rank < one.size(); ++rank) {
    EXPECT_TRUE(one[rank].equal(other[rank])) << what << ", rank " << rank << ": largest difference "
                                              << (one[rank] - other[rank]).abs().max().item<double>();
  }
}

/// Stops the job after each batch of `stops`, resumes it with fresh objects, and compares.
void expect_resumes(const Job& job, const std::vector<std::int64_t>& stops) {
  const auto whole = train(job, 0, job.batches, "", "");
  for (const std::int64_t stop : stops) {
    const TemporaryFolder scratch;
    const std::string folder = scratch.path() / "state";
    train(job, 0, stop, "", folder);
    expect_equal_bits(whole, train(job, stop, job.batches, folder, ""),
                      "stopped after batch " + std::to_string(stop));
  }
}

Job job_with(const std::string& hook, const std::string& wrapper, int ranks) {
  Job job;
  job.ranks = ranks;
  job.config.ddp.comm_hook = hook;
  job.config.ddp.comm_wrapper = wrapper;
  job.config.ddp.bucket_cap_mb = 1;
  for (const OptionRow& option : Registry::instance().catalog().find_hook(hook)->options) {
    if (option.name == "start_powerSGD_iter") job.config.ddp.comm_state_option[option.name] = std::int64_t{3};
  }
  return job;
}

struct Case {
  std::string hook, wrapper;
  int ranks;

  friend void PrintTo(const Case& c, std::ostream* out) {
    *out << c.hook << " in " << c.wrapper << " on " << c.ranks;
  }
};

class EveryHook : public ::testing::TestWithParam<Case> {};

TEST_P(EveryHook, ResumesBitForBit) {
  const Case& c = GetParam();
  // Stops before buckets are rebuilt, before PowerSGD starts, while it runs, and in a later epoch.
  expect_resumes(job_with(c.hook, c.wrapper, c.ranks), {1, 2, 5, 9});
}

std::vector<Case> every_combination() {
  std::vector<Case> cases;
  const Catalog& catalog = Registry::instance().catalog();
  for (const HookRow& hook : catalog.hooks()) {
    for (const WrapperRow& wrapper : catalog.wrappers()) {
      if (wrapper.name != "no" && (!hook.wrappable || hook.half_precision)) continue;
      for (const int ranks : {2, 3, 4}) cases.push_back({hook.name, wrapper.name, ranks});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Resume, EveryHook, ::testing::ValuesIn(every_combination()), [](const auto& of) {
  return of.param.hook + "_in_" + of.param.wrapper + "_on_" + std::to_string(of.param.ranks);
});

TEST(Resume, WorksInTheMiddleOfAnAccumulation) {
  for (const std::string hook : {"no", "power_sgd"}) {
    Job job = job_with(hook, "no", 3);
    job.config.training.gradient_accumulation_steps = 3;
    job.batches = 20;
    expect_resumes(job, {1, 4, 13});
  }
}

TEST(Resume, WorksWithEveryDdpOption) {
  for (const std::string option :
       {"gradient_as_bucket_view", "find_unused_parameters", "static_graph", "own buffers"}) {
    Job job = job_with("power_sgd", "fp16", 3);
    job.config.ddp.gradient_as_bucket_view = option == "gradient_as_bucket_view";
    job.config.ddp.find_unused_parameters = option == "find_unused_parameters";
    job.config.ddp.static_graph = option == "static_graph";
    job.config.ddp.broadcast_buffers = option != "own buffers";
    SCOPED_TRACE(option);
    expect_resumes(job, {1, 6});
    job.config.training.gradient_accumulation_steps = 2;
    expect_resumes(job, {7});
  }
}

TEST(Resume, WorksIfPowerSgdRedrawsItsStartEachStep) {
  Job job = job_with("power_sgd", "no", 2);
  job.config.ddp.comm_state_option["warm_start"] = false;
  expect_resumes(job, {5, 6});
  job.config.ddp.comm_state_option["use_error_feedback"] = false;
  expect_resumes(job, {5});
}

/// An optimizer that hookline does not know: its steps shrink, and it saves its own state.
struct SlowingDown : torch::optim::Optimizer {
  explicit SlowingDown(std::vector<at::Tensor> parameters)
      : Optimizer(std::move(parameters), std::make_unique<torch::optim::SGDOptions>(0.1)) {}
  at::Tensor step(LossClosure = nullptr) override {
    const torch::NoGradGuard no_grad;
    ++steps;
    for (at::Tensor& parameter : param_groups()[0].params())
      if (parameter.grad().defined()) parameter.sub_(parameter.grad(), 0.1 / static_cast<double>(steps));
    return {};
  }
  void save(torch::serialize::OutputArchive& archive) const override {
    archive.write("steps", torch::tensor(steps));
  }
  void load(torch::serialize::InputArchive& archive) override {
    at::Tensor saved;
    archive.read("steps", saved);
    steps = saved.item<std::int64_t>();
  }
  std::int64_t steps = 0;
};

TEST(Resume, WorksWithEveryOptimizer) {
  const std::vector<std::pair<std::string, MakeOptimizer>> optimizers{
      {"Adam",
       [](auto p) {
         return std::make_unique<torch::optim::Adam>(p, torch::optim::AdamOptions(1e-3).amsgrad(true));
       }},
      {"AdamW", [](auto p) { return std::make_unique<torch::optim::AdamW>(p, 1e-3); }},
      {"Adagrad",
       [](auto p) {
         return std::make_unique<torch::optim::Adagrad>(p, torch::optim::AdagradOptions(1e-2).lr_decay(0.1));
       }},
      {"RMSprop",
       [](auto p) {
         return std::make_unique<torch::optim::RMSprop>(
             p, torch::optim::RMSpropOptions(1e-3).momentum(0.5).centered(true));
       }},
      {"of the program", [](auto p) { return std::make_unique<SlowingDown>(p); }},
  };
  for (const auto& [name, make] : optimizers) {
    SCOPED_TRACE(name);
    Job job = job_with("fp16", "no", 2);
    job.optimizer = make;
    expect_resumes(job, {3});
  }
}

}  // namespace
}  // namespace hookline
