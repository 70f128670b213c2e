#include "parallel/accelerator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "tests/support/failure.h"
#include "tests/support/process.h"
#include "tests/support/run_ranks.h"

namespace hookline {
namespace {

using testing::failure_of;
using ::testing::HasSubstr;
using testing::run_ranks;

// Samples are rows of four numbers; the first is the sample's index.
struct Rows : torch::data::datasets::Dataset<Rows> {
  explicit Rows(std::size_t count_in) : count(count_in) {}
  torch::data::Example<> get(std::size_t index) override {
    const auto i = static_cast<float>(index);
    return {torch::tensor({i, std::sin(i), std::cos(i), 1.0f}), torch::tensor({std::sin(2 * i), i / 10})};
  }
  torch::optional<std::size_t> size() const override { return count; }
  std::size_t count;
};

// Fixed weights, since the ranks of these tests share one random generator; different on each rank before
// prepare().
torch::nn::Linear linear(int rank = 0) {
  torch::nn::Linear net(4, 2);
  const torch::NoGradGuard no_grad;
  net->weight.copy_(torch::arange(8).view({2, 4}) * 0.01 + rank);
  net->bias.fill_(0.1 + rank);
  return net;
}

at::Tensor flat(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& tensor : tensors) parts.push_back(tensor.detach().flatten());
  return torch::cat(parts);
}

bool same_on_all_ranks(Accelerator& accelerator, const at::Tensor& tensor) {
  const at::Tensor all = accelerator.gather(tensor.unsqueeze(0));
  return all.eq(tensor.unsqueeze(0)).all().item<bool>();
}

at::Tensor inputs_of(int rank, int step) {
  return torch::sin(torch::arange(12).to(torch::kFloat) * (1 + rank) + step).view({3, 4});
}
at::Tensor loss_of(const at::Tensor& output) { return (output - 1).pow(2).mean(); }

TEST(Accelerator, PrepareReturnsASingleArgumentUnwrapped) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Accelerator accelerator({}, world);
    auto net = linear(world->rank());
    auto model = accelerator.prepare(net);
    static_assert(std::is_same_v<decltype(model), DistributedModule<torch::nn::LinearImpl>>);
    EXPECT_EQ(accelerator.unwrap(model), net.ptr());
    EXPECT_FLOAT_EQ(net->bias[0].item<float>(), 0.1f) << "rank 0's parameters go to all";
    auto from_pointer = accelerator.prepare(linear().ptr());
    static_assert(std::is_same_v<decltype(from_pointer), DistributedModule<torch::nn::LinearImpl>>);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    auto optimizer = accelerator.prepare(sgd);
    static_assert(std::is_same_v<decltype(optimizer), PreparedOptimizer<torch::optim::SGD>>);
    EXPECT_EQ(&optimizer.optimizer(), &sgd);
    auto loader = accelerator.prepare(hookline::data_loader(Rows(8), {.batch_size = 2}));
    static_assert(std::is_same_v<decltype(loader), DataLoader<Rows>>);
    EXPECT_EQ(loader.size(), 2);
  });
}

TEST(Accelerator, PreparesInAnyOrderAndTrainsRanksToEqualParameters) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Accelerator accelerator({}, world);
    const auto train = [&](auto& model, auto& optimizer, auto& loader) {
      for (int epoch = 0; epoch < 2; ++epoch) {
        for (auto& batch : loader) {
          optimizer.zero_grad();
          accelerator.backward((model->forward(batch.data * 0.1) - batch.target).pow(2).mean());
          optimizer.step();
        }
      }
      const at::Tensor trained = flat(model.parameters());
      EXPECT_TRUE(trained.isfinite().all().template item<bool>());
      EXPECT_TRUE(same_on_all_ranks(accelerator, trained));
      return trained;
    };
    const auto rows = [] { return hookline::data_loader(Rows(16), {.batch_size = 4}); };
    auto first_net = linear(world->rank()), second_net = linear(world->rank());
    torch::optim::SGD first_sgd(first_net->parameters(), 0.1), second_sgd(second_net->parameters(), 0.1);
    auto [loader, model] = accelerator.prepare(rows(), first_net);
    auto optimizer = accelerator.prepare(first_sgd);
    const at::Tensor first = train(model, optimizer, loader);
    auto [second_optimizer, second_loader, second_model] =
        accelerator.prepare(second_sgd, rows(), second_net);
    EXPECT_TRUE(torch::equal(train(second_model, second_optimizer, second_loader), first));
    EXPECT_FALSE(torch::equal(first, flat(linear()->parameters())));
    EXPECT_EQ(accelerator.steps_done(), 8);
  });
}

TEST(Accelerator, GivesEachRankItsOwnPartOfTheSamples) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    RunConfig config;
    config.training.seed = 5;
    Accelerator accelerator(config, world);
    auto loader = accelerator.prepare(hookline::data_loader(Rows(20), {.batch_size = 5}));
    std::vector<at::Tensor> seen;
    for (auto& batch : loader) seen.push_back(batch.data.select(1, 0));
    const at::Tensor all = accelerator.gather(torch::cat(seen));
    EXPECT_TRUE(torch::equal(std::get<0>(all.sort()), torch::arange(20).to(torch::kFloat)));
    EXPECT_FALSE(torch::equal(all, torch::arange(20).to(torch::kFloat))) << "shuffled";
  });
}

TEST(Accelerator, CommunicatesOnlyInTheLastStepOfAnAccumulation) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    RunConfig config;
    config.training.gradient_accumulation_steps = 3;
    Accelerator accelerator(config, world);
    auto net = linear(world->rank()), alone = linear();
    torch::optim::SGD sgd(net->parameters(), 0.1), alone_sgd(alone->parameters(), 0.1);
    auto [model, optimizer] = accelerator.prepare(net, sgd);
    for (int step = 0; step < 9; ++step) {
      const at::Tensor before = net->weight.detach().clone();
      accelerator.accumulate(model, [&, &model = model, &optimizer = optimizer] {
        EXPECT_EQ(accelerator.sync_gradients(), step % 3 == 2);
        accelerator.backward(loss_of(model->forward(inputs_of(world->rank(), step))));
        const double norm = accelerator.clip_grad_norm(model.parameters(), 1e6);
        EXPECT_EQ(norm > 0, step % 3 == 2);
        optimizer.step();
        optimizer.zero_grad();
      });
      EXPECT_EQ(torch::equal(net->weight, before), step % 3 != 2) << "step " << step;
    }
    EXPECT_EQ(model.ddp().communication_stats().steps, 3);
    EXPECT_EQ(accelerator.steps_done(), 3);
    for (int big_step = 0; big_step < 3; ++big_step) {
      std::vector<at::Tensor> inputs;
      for (int step = 3 * big_step; step < 3 * big_step + 3; ++step) {
        for (int rank = 0; rank < 2; ++rank) inputs.push_back(inputs_of(rank, step));
      }
      alone->zero_grad();
      loss_of(alone->forward(torch::cat(inputs))).backward();
      alone_sgd.step();
    }
    EXPECT_TRUE(torch::allclose(flat(net->parameters()), flat(alone->parameters()), 1e-5, 1e-6));
  });
}

TEST(Accelerator, AccumulatesForSeveralModelsAtOnce) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    RunConfig config;
    config.training.gradient_accumulation_steps = 2;
    Accelerator accelerator(config, world);
    auto [first, second] = accelerator.prepare(linear(), linear());
    for (int step = 0; step < 4; ++step) {
      accelerator.accumulate(first, second, [&, &first = first, &second = second] {
        accelerator.backward(loss_of(first->forward(inputs_of(world->rank(), step))));
        accelerator.backward(loss_of(second->forward(inputs_of(world->rank(), step))));
      });
      for (const auto& model : {first, second}) {
        const at::Tensor gradient = model.parameters()[0].grad();
        EXPECT_EQ(same_on_all_ranks(accelerator, gradient), step % 2 == 1) << "step " << step;
      }
    }
    EXPECT_EQ(first.ddp().communication_stats().steps, 2);
    EXPECT_EQ(second.ddp().communication_stats().steps, 2);
  });
}

TEST(Accelerator, CommunicatesInTheLastBatchOfAnEpochToo) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    RunConfig config;
    config.training.gradient_accumulation_steps = 3;
    Accelerator accelerator(config, world);
    auto [model, loader] = accelerator.prepare(linear(), hookline::data_loader(Rows(20), {.batch_size = 2}));
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::vector<bool> communicates;
      for (auto& batch : loader) {
        accelerator.accumulate(model, [&, &model = model] {
          communicates.push_back(accelerator.sync_gradients());
          accelerator.backward(loss_of(model->forward(batch.data)));
        });
      }
      EXPECT_THAT(communicates, ::testing::ElementsAre(false, false, true, false, true)) << "epoch " << epoch;
    }
    EXPECT_EQ(model.ddp().communication_stats().steps, 4);
  });
}

TEST(Accelerator, ContinuesAccumulatingAfterALoopOverAnotherLoader) {
  run_ranks(1, [](const std::shared_ptr<World>& world) {
    RunConfig config;
    config.training.gradient_accumulation_steps = 2;
    Accelerator accelerator(config, world);
    auto [model, training, validation] =
        accelerator.prepare(linear(), hookline::data_loader(Rows(8), {.batch_size = 2}),
                            hookline::data_loader(Rows(4), {.batch_size = 2}));
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::vector<bool> communicates;
      for ([[maybe_unused]] auto& batch : training) {
        accelerator.accumulate(model, [&] { communicates.push_back(accelerator.sync_gradients()); });
      }
      EXPECT_THAT(communicates, ::testing::ElementsAre(false, true, false, true)) << "epoch " << epoch;
      for ([[maybe_unused]] auto& batch : validation) EXPECT_FALSE(training.at_last_batch());
    }
  });
}

TEST(Accelerator, GathersInTheOrderOfRanks) {
  run_ranks(3, [](const std::shared_ptr<World>& world) {
    Accelerator accelerator({}, world);
    const std::int64_t rank = world->rank();
    const at::Tensor rows = accelerator.gather(torch::full({2, 2}, rank));
    EXPECT_TRUE(torch::equal(rows, torch::arange(3).repeat_interleave(4).view({6, 2})));
    EXPECT_EQ(rows.scalar_type(), at::kLong);
    EXPECT_TRUE(torch::equal(accelerator.gather(torch::tensor(10.0 * static_cast<double>(rank))),
                             torch::tensor({0.0, 10.0, 20.0})));
    const at::Tensor strided = (torch::arange(6).view({3, 2}) + 10 * rank).t();
    EXPECT_TRUE(torch::equal(accelerator.gather(strided)[5], torch::tensor({21, 23, 25})));
    EXPECT_EQ(accelerator.gather(torch::tensor({rank == 1})).sum().item<int>(), 1);
    const at::Tensor tracked = torch::ones({1}, torch::requires_grad());
    EXPECT_FALSE(accelerator.gather(tracked * 2).requires_grad());
  });
}

TEST(Accelerator, ReducesToTheSumOrTheMean) {
  run_ranks(3, [](const std::shared_ptr<World>& world) {
    Accelerator accelerator({}, world);
    const at::Tensor own = torch::full({2}, 1.0f + static_cast<float>(world->rank()));
    EXPECT_TRUE(accelerator.reduce(own).eq(6).all().item<bool>());
    EXPECT_TRUE(accelerator.reduce(own, "mean").eq(2).all().item<bool>());
    EXPECT_TRUE(own.eq(1 + world->rank()).all().item<bool>()) << "the argument stays as it was";
    EXPECT_EQ(accelerator.reduce(torch::tensor(2.5)).item<float>(), 7.5f);
    EXPECT_EQ(accelerator.reduce(torch::tensor({std::int64_t{4}}), "sum").item<std::int64_t>(), 12);
    EXPECT_EQ(failure_of<Error>([&] { accelerator.reduce(own, "max"); }),
              "reduce() can't do 'max': it takes \"sum\" or \"mean\"");
  });
}

TEST(Accelerator, ReducesEqualShapesWhateverTheirStrides) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Accelerator accelerator({}, world);
    const at::Tensor square = torch::arange(4).to(torch::kFloat).view({2, 2});
    const at::Tensor sum = accelerator.reduce(world->rank() == 0 ? square : square.t());
    EXPECT_TRUE(torch::equal(sum, square + square.t()));
  });
}

TEST(Accelerator, SaysOnEveryRankWhichTensorsDoNotMatch) {
  run_ranks(3, [](const std::shared_ptr<World>& world) {
    Accelerator accelerator({}, world);
    EXPECT_EQ(failure_of<Error>([&] { accelerator.gather(torch::zeros({world->rank() == 1 ? 3 : 2})); }),
              "the ranks differ: the tensor given to gather is Float [2] on rank 0 and Float [3] on rank 1; "
              "every rank "
              "must hold the same");
    EXPECT_EQ(
        failure_of<Error>(
            [&] { accelerator.reduce(torch::zeros({2}, world->rank() == 2 ? at::kDouble : at::kFloat)); }),
        "the ranks differ: the tensor given to reduce is Float [2] on rank 0 and Double [2] on rank 2; every "
        "rank must hold the same");
    EXPECT_EQ(accelerator.reduce(torch::tensor(1)).item<int>(), 3) << "and continues";
  });
}

TEST(Accelerator, ClipsAveragedGradientsToANorm) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Accelerator accelerator({}, world);
    auto model = accelerator.prepare(linear());
    accelerator.backward(model->forward(inputs_of(world->rank(), 0)).pow(2).sum() * 100);
    const double before = accelerator.clip_grad_norm(model.parameters(), 0.5);
    EXPECT_GT(before, 0.5);
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : model.parameters()) gradients.push_back(parameter.grad());
    EXPECT_NEAR(flat(gradients).norm().item<double>(), 0.5, 1e-3);
    EXPECT_TRUE(same_on_all_ranks(accelerator, flat(gradients)));
  });
}

TEST(Accelerator, TrainsOnGradientsThatAreBucketViews) {
  for (const bool prepared_clears : {true, false}) {
    run_ranks(2, [prepared_clears](const std::shared_ptr<World>& world) {
      const auto train = [&](bool views) {
        RunConfig config;
        config.ddp.gradient_as_bucket_view = views;
        Accelerator accelerator(config, world);
        auto net = linear(world->rank());
        torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
        auto [optimizer, model] = accelerator.prepare(sgd, net);
        for (int step = 0; step < 6; ++step) {
          accelerator.backward(loss_of(model->forward(inputs_of(world->rank(), step))));
          optimizer.step();
          if (prepared_clears) {
            optimizer.zero_grad();
          } else {
            sgd.zero_grad(/*set_to_none=*/step % 2 == 0);
          }
        }
        EXPECT_TRUE(same_on_all_ranks(accelerator, flat(net->parameters())));
        return flat(net->parameters());
      };
      EXPECT_TRUE(torch::equal(train(true), train(false)));
    });
  }
}

TEST(Accelerator, AccumulatesIntoGradientsThatAreBucketViews) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    const auto train = [&](bool views) {
      RunConfig config;
      config.ddp.gradient_as_bucket_view = views;
      config.training.gradient_accumulation_steps = 2;
      Accelerator accelerator(config, world);
      auto net = linear();
      torch::optim::SGD sgd(net->parameters(), 0.1);
      auto [optimizer, model] = accelerator.prepare(sgd, net);
      for (int step = 0; step < 6; ++step) {
        accelerator.accumulate(model, [&, &model = model, &optimizer = optimizer] {
          accelerator.backward(loss_of(model->forward(inputs_of(world->rank(), step))));
          optimizer.step();
          optimizer.zero_grad();
        });
      }
      return flat(net->parameters());
    };
    EXPECT_TRUE(torch::allclose(train(true), train(false), 1e-5, 1e-6));
  });
}

TEST(Accelerator, AttachesTheHookAndTheWrapperOfTheConfig) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    RunConfig config;
    config.ddp.comm_hook = "power_sgd";
    config.ddp.comm_wrapper = "bf16";
    config.ddp.comm_state_option = {{"matrix_approximation_rank", std::int64_t{2}},
                                    {"start_powerSGD_iter", std::int64_t{2}}};
    Accelerator accelerator(config, world);
    torch::nn::Linear net(64, 64);
    torch::optim::SGD sgd(net->parameters(), 0.01);
    auto [model, optimizer] = accelerator.prepare(net, sgd);
    for (int step = 0; step < 5; ++step) {
      optimizer.zero_grad();
      accelerator.backward(
          model->forward(torch::full({2, 64}, 0.1 * (1 + world->rank() + step))).pow(2).mean());
      optimizer.step();
    }
    EXPECT_TRUE(same_on_all_ranks(accelerator, flat(net->parameters())));
    const CommunicationStats report = model.ddp().communication_stats();
    EXPECT_EQ(report.pipeline, "power_sgd(rank=2, start=2) in bf16");
    EXPECT_EQ(report.bytes_per_step, 2 * (2 * (64 + 64) + 64));
    EXPECT_EQ(report.bytes_sent, 2 * 2 * (64 * 64 + 64) + 3 * report.bytes_per_step);
    EXPECT_THAT(accelerator.wire_summary(), HasSubstr("\npower_sgd(rank=2, start=2) in bf16 "));
  });
}

TEST(Accelerator, RefusesAHookOfTheConfigThatIsUnknown) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    RunConfig config;
    config.ddp.comm_hook = "power_sdg";
    Accelerator accelerator(config, world);
    EXPECT_EQ(failure_of<HookError>([&] { accelerator.prepare(linear()); }),
              "unknown communication hook 'power_sdg'; did you mean 'power_sgd'?");
  });
}

TEST(Accelerator, RefusesTheNameOfAMetricOnEveryRank) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Accelerator accelerator({}, world);
    EXPECT_EQ(failure_of<Error>([&] {
                accelerator.log({{"step", 1}});
              }),
              "a metric can't be called 'step': hookline adds a field of that name to every line of metrics");
  });
}

TEST(Accelerator, SummarizesTheTrafficOfPreparedModels) {
  run_ranks(1, [](const std::shared_ptr<World>& world) {
    Accelerator accelerator({}, world);
    EXPECT_EQ(accelerator.wire_summary(), "");
    auto model = accelerator.prepare(linear());
    accelerator.backward(loss_of(model->forward(inputs_of(0, 0))));
    EXPECT_THAT(accelerator.wire_summary(), HasSubstr("\nno hook "));
  });
}

TEST(Accelerator, WarnsOfAStepOnUnaveragedGradients) {
  for (const bool bare : {true, false}) {
    std::mutex mutex;
    std::string messages;
    const log::Redirect redirect([&](std::string_view text) {
      const std::lock_guard lock(mutex);
      messages += text;
    });
    run_ranks(2, [bare](const std::shared_ptr<World>& world) {
      Accelerator accelerator({}, world);
      auto net = linear();
      torch::optim::SGD sgd(net->parameters(), 0.1);
      auto [model, optimizer] = accelerator.prepare(net, sgd);
      accelerator.backward(loss_of(bare ? net->forward(inputs_of(0, 0)) : model->forward(inputs_of(0, 0))));
      optimizer.step();
    });
    EXPECT_EQ(messages.find("call the forward of what prepare() returned for the model") != std::string::npos,
              bare);
  }
}

/// While alive, sets the run folder of runs that start.
class RunFolder {
 public:
  RunFolder() { setenv("HOOKLINE_RUN_DIR", folder_.path().c_str(), 1); }
  ~RunFolder() { unsetenv("HOOKLINE_RUN_DIR"); }
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  std::string read(const std::string& file) const { return testing::read_file(folder_.path() / file); }
  nlohmann::json summary() const { return nlohmann::json::parse(read("summary.json")); }

 private:
  testing::TemporaryFolder folder_;
};

TEST(Accelerator, MeasuresTheStepsOfAllItsOptimizersTogether) {
  const RunFolder folder;
  run_ranks(1, [](const std::shared_ptr<World>& world) {
    Accelerator accelerator({}, world);
    auto generator = linear(), critic = linear();
    torch::optim::SGD generator_sgd(generator->parameters(), 0.1), critic_sgd(critic->parameters(), 0.1);
    auto [first, second] = accelerator.prepare(generator, critic);
    auto [first_optimizer, second_optimizer] = accelerator.prepare(generator_sgd, critic_sgd);
    for (int step = 0; step < 6; ++step) {
      accelerator.backward(loss_of(first->forward(inputs_of(0, step))));
      accelerator.backward(loss_of(second->forward(inputs_of(0, step))));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      first_optimizer.step();
      second_optimizer.step();
    }
    EXPECT_EQ(accelerator.steps_done(), 12) << "of optimizers";
  });
  const nlohmann::json summary = folder.summary();
  EXPECT_EQ(summary.at("steps"), 6);
  EXPECT_GE(summary.at("step_seconds"), 0.020);
  EXPECT_GE(summary.at("phase_seconds").at("other"), 0.020);
}

TEST(Accelerator, ContinuesItsCountsAfterARestart) {
  const RunFolder folder;
  for (int attempt = 0; attempt < 2; ++attempt) {
    run_ranks(2, [](const std::shared_ptr<World>& world) {
      Accelerator accelerator({}, world);
      auto model = accelerator.prepare(linear());
      for (int step = 0; step < 3; ++step) {
        accelerator.backward(loss_of(model->forward(inputs_of(world->rank(), step))));
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        accelerator.log({{"loss", 1}});
      }
    });
  }
  std::vector<double> seconds, bytes;
  std::istringstream lines(folder.read("metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    seconds.push_back(json.at("seconds"));
    bytes.push_back(json.at("bytes_sent"));
  }
  constexpr int kOfAStep = 4 * (4 * 2 + 2);
  EXPECT_THAT(bytes, ::testing::ElementsAre(kOfAStep, 2 * kOfAStep, 3 * kOfAStep, 4 * kOfAStep, 5 * kOfAStep,
                                            6 * kOfAStep));
  ASSERT_EQ(seconds.size(), 6u);
  for (std::size_t i = 1; i < seconds.size(); ++i) EXPECT_GE(seconds[i], seconds[i - 1] + 0.010) << i;
}

TEST(Accelerator, MeasuresOnlyOptimizersThatStep) {
  const RunFolder folder;
  run_ranks(1, [](const std::shared_ptr<World>& world) {
    Accelerator accelerator({}, world);
    auto net = linear();
    torch::optim::SGD sgd(net->parameters(), 0.1), for_later(net->parameters(), 0.01);
    auto [model, optimizer, later] = accelerator.prepare(net, sgd, for_later);
    for (int step = 0; step < 3; ++step) {
      accelerator.backward(loss_of(model->forward(inputs_of(0, step))));
      optimizer.step();
    }
  });
  const nlohmann::json summary = folder.summary();
  EXPECT_EQ(summary.at("steps"), 2) << "from the second step on it is known that the other does not step";
  EXPECT_TRUE(summary.contains("step_seconds"));
  EXPECT_EQ(summary.at("uncompressed_bytes_per_step"), 4 * (4 * 2 + 2));
}

TEST(Accelerator, SeedsTorch) {
  run_ranks(1, [](const std::shared_ptr<World>& world) {
    RunConfig config;
    config.training.seed = 42;
    Accelerator accelerator(config, world);
    const at::Tensor first = torch::randn({4});
    EXPECT_FALSE(torch::equal(torch::randn({4}), first));
    accelerator.set_seed(42);
    EXPECT_TRUE(torch::equal(torch::randn({4}), first));
  });
}

TEST(Accelerator, StopsAfterMaxSteps) {
  run_ranks(1, [](const std::shared_ptr<World>& world) {
    RunConfig config;
    config.training.max_steps = 2;
    Accelerator accelerator(config, world);
    auto net = linear();
    torch::optim::SGD sgd(net->parameters(), 0.1);
    auto optimizer = accelerator.prepare(sgd);
    EXPECT_EQ(accelerator.max_steps(), 2);
    for (int step = 0; step < 2; ++step) {
      EXPECT_FALSE(accelerator.should_stop());
      optimizer.step();
    }
    EXPECT_TRUE(accelerator.should_stop());
    EXPECT_FALSE(Accelerator({}, world).should_stop());
  });
}

TEST(Accelerator, KnowsItsPlaceAndPrintsOnTheMainRankOnly) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Accelerator accelerator({}, world);
    EXPECT_EQ(accelerator.process_index(), world->rank());
    EXPECT_EQ(accelerator.num_processes(), 2);
    EXPECT_EQ(accelerator.is_main_process(), world->rank() == 0);
    EXPECT_TRUE(accelerator.device().is_cpu());
  });
  ::testing::internal::CaptureStdout();
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Accelerator accelerator({}, world);
    accelerator.print("from rank " + std::to_string(world->rank()));
    accelerator.wait_for_everyone();
  });
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "from rank 0\n");
}

}  // namespace
}  // namespace hookline
