// Accelerator::save_state and load_state: the contents of a checkpoint, and the errors for unusable ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "base/log.h"
#include "base/text/count_text.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/tensor_file.h"
#include "parallel/accelerator.h"
#include "parallel/tensors/safetensors.h"
#include "tests/support/failure.h"
#include "tests/support/logged_messages.h"
#include "tests/support/process.h"
#include "tests/support/run_ranks.h"

namespace hookline {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::failure_of;
using ::testing::HasSubstr;
using testing::Messages;
using ::testing::Not;
using testing::run_ranks;
using testing::TemporaryFolder;

struct Rows : torch::data::datasets::Dataset<Rows> {
  torch::data::Example<> get(std::size_t index) override {
    const auto i = static_cast<float>(index);
    return {torch::sin(torch::arange(32).to(torch::kFloat) * (i + 1)), torch::full({4}, i / 10)};
  }
  torch::optional<std::size_t> size() const override { return 48; }
};

RunConfig power_sgd() {
  RunConfig config;
  config.ddp.comm_hook = "power_sgd";
  config.ddp.comm_state_option["start_powerSGD_iter"] = std::int64_t{2};
  config.ddp.comm_state_option["min_compression_rate"] = 1.0;
  return config;
}

torch::nn::Sequential small_net(std::int64_t width = 24) {
  return torch::nn::Sequential(torch::nn::Linear(32, width), torch::nn::BatchNorm1d(width),
                               torch::nn::Linear(width, 4));
}

/// Trains four steps on each rank and saves; then calls `body` with the objects.
template <class Body>
void train_and_save(Accelerator& accelerator, const fs::path& folder, const Body& body) {
  auto net = small_net();
  torch::optim::Adam adam(net->parameters(), 1e-3);
  auto [model, optimizer, loader] =
      accelerator.prepare(net.ptr(), adam, data_loader(Rows(), {.batch_size = 2}));
  int batches = 0;
  for (auto& batch : loader) {
    accelerator.backward((model->forward(batch.data) - batch.target).pow(2).mean());
    optimizer.step();
    optimizer.zero_grad();
    if (++batches == 4) break;
  }
  EXPECT_TRUE(accelerator.save_state(folder));
  body(*net, adam, loader);
}

void save_sample(const fs::path& folder, int ranks, const RunConfig& config = power_sgd()) {
  run_ranks(ranks, [&](const std::shared_ptr<World>& world) {
    Accelerator accelerator(config, world);
    train_and_save(accelerator, folder, [](auto&...) {});
  });
}

std::vector<std::string> names_of(const fs::path& file) {
  std::vector<std::string> names;
  for (const TensorRow& row : read_tensor_header(file).tensors) names.push_back(row.name);
  return names;
}

TEST(Checkpoint, HoldsEachThingUnderItsName) {
  const TemporaryFolder scratch;
  const fs::path folder = scratch.path() / "state";
  save_sample(folder, 2);
  EXPECT_THAT(names_of(folder / "model.safetensors"),
              ElementsAre("0.bias", "0.weight", "1.bias", "1.num_batches_tracked", "1.running_mean",
                          "1.running_var", "1.weight", "2.bias", "2.weight"));
  EXPECT_THAT(names_of(folder / "hook.safetensors"), ElementsAre("bucket0.p", "bucket0.q"));
  const auto optimizer = names_of(folder / "optimizer.safetensors");
  EXPECT_THAT(optimizer, ::testing::Contains("state.0.exp_avg"));
  EXPECT_THAT(optimizer, ::testing::Contains("state.5.exp_avg_sq"));
  // Running statistics differ between ranks until the next forward, so rank 1 saves its own; parameters are
  // stored once.
  EXPECT_THAT(names_of(folder / "rank_0.safetensors"), ElementsAre("hook:bucket0.error", "random:cpu"));
  EXPECT_THAT(names_of(folder / "rank_1.safetensors"),
              ElementsAre("hook:bucket0.error", "model:1.running_mean", "model:1.running_var", "random:cpu"));
  const Manifest manifest = read_manifest(folder);
  EXPECT_EQ(manifest.step, 4);
  EXPECT_EQ(manifest.world_size, 2);
  EXPECT_EQ(manifest.hook, "power_sgd(rank=1, start=2)");
}

TEST(Checkpoint, IsReadByPythonsSafetensors) {
  const TemporaryFolder scratch;
  const fs::path folder = scratch.path() / "state";
  std::string expected;
  run_ranks(2, [&](const std::shared_ptr<World>& world) {
    Accelerator accelerator(power_sgd(), world);
    train_and_save(accelerator, folder, [&](torch::nn::SequentialImpl& net, auto&...) {
      if (world->rank() != 0) return;
      for (const auto& parameter : net.named_parameters()) {
        char line[100];
        std::snprintf(line, sizeof line, "%s %.6f\n", parameter.key().c_str(),
                      parameter.value().to(torch::kDouble).sum().item<double>());
        expected += line;
      }
    });
  });
  if (!fs::exists(PYTHON_PROGRAM))
    GTEST_SKIP() << "no " PYTHON_PROGRAM ", the Python with torch and safetensors";
  testing::ProcessOptions options;
  options.arguments = {"-c",
                       "import sys, torch, safetensors.torch as s\n"
                       "t = s.load_file(sys.argv[1])\n"
                       "for k in ['0.weight', '0.bias', '1.weight', '1.bias', '2.weight', '2.bias']:\n"
                       "    print(k, '%.6f' % t[k].double().sum())\n"
                       "r = s.load_file(sys.argv[2])\n"
                       "torch.set_rng_state(r['random:cpu'])\n",
                       folder / "model.safetensors", folder / "rank_1.safetensors"};
  const testing::ProcessResult result = testing::run_process(PYTHON_PROGRAM, options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, expected);
}

TEST(Checkpoint, ResumesOnAnotherNumberOfRanksAndLogsWhatIsLost) {
  const TemporaryFolder scratch;
  const fs::path folder = scratch.path() / "state";
  save_sample(folder, 2);
  const NamedTensors saved = read_safetensors(folder / "model.safetensors");
  for (const int ranks : {1, 3, 4}) {
    const Messages messages;
    run_ranks(ranks, [&](const std::shared_ptr<World>& world) {
      Accelerator accelerator(power_sgd(), world);
      auto net = small_net();
      torch::optim::Adam adam(net->parameters(), 1e-3);
      auto [model, optimizer, loader] =
          accelerator.prepare(net.ptr(), adam, data_loader(Rows(), {.batch_size = 2}));
      accelerator.load_state(folder);
      EXPECT_EQ(accelerator.steps_done(), 4);
      for (const auto& parameter : net->named_parameters())
        EXPECT_TRUE(parameter.value().equal(saved.at(parameter.key())));
      // 2 ranks consumed 4 batches of 2 samples each: 16 of 48.
      std::int64_t left = 0;
      for (auto& batch : loader) {
        ++left;
        accelerator.backward((model->forward(batch.data) - batch.target).pow(2).mean());
        optimizer.step();
        optimizer.zero_grad();
      }
      EXPECT_EQ(left, (ranks == 1 ? 24 - 8 : ranks == 3 ? 8 - 2 : 6 - 2));
    });
    const std::string told = messages.text();
    EXPECT_THAT(told,
                HasSubstr("warning: not restored from '" + folder.string() + "' (saved by 2 ranks, now " +
                          std::to_string(ranks) +
                          "): what power_sgd(rank=1, start=2) kept on each rank, such as error feedback\n"));
    if (ranks > 2) {
      EXPECT_THAT(told, HasSubstr("): random numbers of the " + count_text(ranks - 2, "rank") +
                                  " that the saved run did not have\n"));
    }
    EXPECT_EQ(told.find("the exact place in epoch 0: 4 samples will be seen again, since the samples are "
                        "divided into other batches now\n") != std::string::npos,
              ranks == 3);
  }
}

/// The error of load_state on two ranks with the objects that `prepare` creates.
template <class Prepare>
std::string load_failure(const fs::path& folder, const Prepare& prepare) {
  std::string message;
  run_ranks(2, [&](const std::shared_ptr<World>& world) {
    Accelerator accelerator(power_sgd(), world);
    const std::string failure =
        failure_of([&] { prepare(accelerator, [&] { accelerator.load_state(folder); }); });
    if (world->rank() == 0) message = failure;
  });
  return message;
}

TEST(Checkpoint, OfAnotherModelIsRefused) {
  const TemporaryFolder scratch;
  const fs::path folder = scratch.path() / "state";
  save_sample(folder, 2);
  const std::string what =
      "the model of the checkpoint '" + folder.string() + "' is not that of the program: ";
  const auto into = [&](auto net) {
    return load_failure(folder, [&](Accelerator& accelerator, const auto& load) {
      auto copy = std::dynamic_pointer_cast<torch::nn::SequentialImpl>(net()->clone());
      auto model = accelerator.prepare(copy);
      load();
    });
  };
  EXPECT_EQ(into([] { return small_net(25); }), what + "'0.bias' is Float [24] there and Float [25] here");
  EXPECT_EQ(into([] { return torch::nn::Sequential(torch::nn::Linear(32, 24)); }),
            what + "it has '1.bias', which the program's does not have");
  EXPECT_EQ(into([] {
              return torch::nn::Sequential(torch::nn::Linear(32, 24), torch::nn::BatchNorm1d(24),
                                           torch::nn::Linear(24, 4), torch::nn::Linear(4, 4));
            }),
            what + "it has no '3.bias'");
}

TEST(Checkpoint, OfAnotherOptimizerIsRefused) {
  const TemporaryFolder scratch;
  const fs::path folder = scratch.path() / "state";
  save_sample(folder, 2);
  const std::string what =
      "the optimizer of the checkpoint '" + folder.string() + "' is not that of the program: ";
  EXPECT_EQ(load_failure(folder,
                         [](Accelerator& accelerator, const auto& load) {
                           auto net = small_net();
                           torch::optim::SGD sgd(net->parameters(), 0.1);
                           auto optimizer = accelerator.prepare(sgd);
                           load();
                         }),
            what + "it is Adam, and the program's is SGD");
  EXPECT_EQ(load_failure(folder,
                         [](Accelerator& accelerator, const auto& load) {
                           auto net = small_net();
                           torch::optim::Adam adam({net->parameters()[0]}, 0.1);
                           auto optimizer = accelerator.prepare(adam);
                           load();
                         }),
            what + "its group 0 has 6 parameters, and the program's has 1");
  EXPECT_EQ(load_failure(folder,
                         [](Accelerator& accelerator, const auto& load) {
                           auto net = small_net(20);
                           torch::optim::Adam adam(net->parameters(), 0.1);
                           auto optimizer = accelerator.prepare(adam);
                           load();
                         }),
            what + "its 'state.0.exp_avg' is not of the shape of the program's parameter");
}

TEST(Checkpoint, RestoresAStateSavedBeforeTheFirstStep) {
  const TemporaryFolder scratch;
  run_ranks(2, [&](const std::shared_ptr<World>& world) {
    Accelerator accelerator({}, world);
    auto net = torch::nn::Linear(4, 2);
    torch::optim::Adam adam(net->parameters(), 1e-2);
    auto [model, optimizer] = accelerator.prepare(net, adam);
    EXPECT_TRUE(accelerator.save_state(scratch.path() / "first"));
    const auto train = [&, &model = model, &optimizer = optimizer] {
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        model->forward(torch::ones({2, 4}) * (1 + world->rank())).pow(2).sum().backward();
        optimizer.step();
      }
      return net->weight.detach().clone();
    };
    const at::Tensor once = train();
    accelerator.load_state(scratch.path() / "first");
    EXPECT_FALSE(net->weight.grad().defined());
    EXPECT_EQ(accelerator.steps_done(), 0);
    EXPECT_TRUE(train().equal(once));
  });
}

TEST(Checkpoint, IsRefusedOnEveryRankIfDamaged) {
  const TemporaryFolder scratch;
  const fs::path folder = scratch.path() / "state";
  save_sample(folder, 2);
  fs::resize_file(folder / "rank_1.safetensors", 1000);
  const std::string what = "the checkpoint '" + folder.string() + "' can't be used: ";
  run_ranks(2, [&](const std::shared_ptr<World>& world) {
    Accelerator accelerator(power_sgd(), world);
    EXPECT_THAT(failure_of([&] { accelerator.load_state(folder); }),
                HasSubstr(what + "'" + (folder / "rank_1.safetensors").string() + "' has 1000 bytes where "));
    EXPECT_EQ(failure_of([&] { accelerator.load_state(scratch.path() / "none"); }),
              "the checkpoint '" + (scratch.path() / "none").string() + "' can't be used: '" +
                  (scratch.path() / "none/manifest.json").string() + "' can't be read: '" +
                  (scratch.path() / "none").string() + "' is not a checkpoint");
  });
}

TEST(Checkpoint, OfAnotherHookDoesNotRestoreHookState) {
  const TemporaryFolder scratch;
  const fs::path folder = scratch.path() / "state";
  save_sample(folder, 2);
  const Messages messages;
  run_ranks(2, [&](const std::shared_ptr<World>& world) {
    RunConfig config = power_sgd();
    config.ddp.comm_wrapper = "fp16";
    Accelerator accelerator(config, world);
    auto net = small_net();
    auto model = accelerator.prepare(net.ptr());
    accelerator.load_state(folder);
    model->forward(torch::ones({2, 32}));
  });
  EXPECT_THAT(messages.text(),
              HasSubstr("(saved by 2 ranks, now 2): the state of the hook, which was power_sgd(rank=1, "
                        "start=2) and is now power_sgd(rank=1, start=2) in fp16\n"));
}

TEST(Checkpoint, ReplacesThePreviousOne) {
  const TemporaryFolder scratch;
  const fs::path folder = scratch.path() / "state";
  save_sample(folder, 3);
  save_sample(folder, 2);
  EXPECT_EQ(read_manifest(folder).world_size, 2);
  EXPECT_FALSE(fs::exists(folder / "rank_2.safetensors"));
  EXPECT_FALSE(fs::exists(part_of(folder)));
}

TEST(Checkpoint, LogsAFailedSaveAndLetsTheRunContinue) {
  const TemporaryFolder scratch;
  scratch.write("file", "");
  const Messages messages;
  run_ranks(2, [&](const std::shared_ptr<World>& world) {
    Accelerator accelerator(power_sgd(), world);
    auto net = small_net();
    auto model = accelerator.prepare(net.ptr());
    EXPECT_FALSE(accelerator.save_state(scratch.path() / "file/state"));
    model->forward(torch::ones({2, 32})).sum().backward();
    EXPECT_TRUE(accelerator.save_state(scratch.path() / "state"));
  });
  EXPECT_THAT(
      messages.text(),
      HasSubstr("error: the checkpoint '" + (scratch.path() / "file/state").string() +
                "' was not saved, and training continues: the folder '" +
                (scratch.path() / "file/state.part").string() + "' can't be made: Not a directory\n"));
}

/// An object of the program, serialized as torch does.
struct Counter {
  void save(torch::serialize::OutputArchive& archive) const { archive.write("count", torch::tensor(count)); }
  void load(torch::serialize::InputArchive& archive) {
    at::Tensor saved;
    archive.read("count", saved);
    count = saved.item<std::int64_t>();
  }
  std::int64_t count = 0;
};

TEST(Checkpoint, HoldsObjectsOfTheProgram) {
  const TemporaryFolder scratch;
  const fs::path folder = scratch.path() / "state";
  run_ranks(2, [&](const std::shared_ptr<World>& world) {
    for (const bool saves : {true, false}) {
      Accelerator accelerator({}, world);
      at::Tensor average = saves ? torch::full({3}, 1.5 + world->rank()) : at::Tensor();
      double best = saves ? 1.0 / 3 : 0;
      float rate = saves ? 0.1F : 0;
      std::int64_t seen = saves ? std::int64_t{1} << 60 : 0;
      bool warm = saves;
      std::string name = saves ? "first" : "";
      Counter counter{saves ? 5 : 0};
      auto net = torch::nn::Linear(2, 2);
      torch::optim::SGD sgd(net->parameters(), 0.1);
      torch::optim::StepLR schedule(sgd, 3, 0.5);
      accelerator.register_for_checkpointing("average", average);
      accelerator.register_for_checkpointing("best", best);
      accelerator.register_for_checkpointing("rate", rate);
      accelerator.register_for_checkpointing("seen", seen);
      accelerator.register_for_checkpointing("warm", warm);
      accelerator.register_for_checkpointing("name", name);
      accelerator.register_for_checkpointing("counter", counter);
      accelerator.register_for_checkpointing("schedule", schedule);
      if (saves) {
        for (int i = 0; i < 4; ++i) schedule.step();
        EXPECT_TRUE(accelerator.save_state(folder));
        continue;
      }
      accelerator.load_state(folder);
      EXPECT_TRUE(average.equal(torch::full({3}, 1.5 + world->rank()))) << "each rank gets its own";
      EXPECT_EQ(best, 1.0 / 3);
      EXPECT_EQ(rate, 0.1F);
      EXPECT_EQ(seen, std::int64_t{1} << 60);
      EXPECT_TRUE(warm);
      EXPECT_EQ(name, "first");
      EXPECT_EQ(counter.count, 5);
      for (int i = 0; i < 3; ++i) schedule.step();
      EXPECT_DOUBLE_EQ(sgd.param_groups()[0].options().get_lr(), 0.05) << "the seventh step halves the rate";
    }
  });
}

TEST(Checkpoint, RefusesInvalidNames) {
  run_ranks(1, [&](const std::shared_ptr<World>& world) {
    Accelerator accelerator({}, world);
    int number = 0;
    accelerator.register_for_checkpointing("number", number);
    EXPECT_EQ(
        failure_of([&] { accelerator.register_for_checkpointing("number", number); }),
        "register_for_checkpointing: 'number' is registered already: each object needs a name of its own");
    EXPECT_EQ(failure_of([&] { accelerator.register_for_checkpointing("../etc", number); }),
              "register_for_checkpointing: '../etc' can't name a file: use letters, digits, '_' and '-'");
  });
}

}  // namespace
}  // namespace hookline
