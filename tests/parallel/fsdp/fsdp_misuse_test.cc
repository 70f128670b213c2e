// Misuse of a sharded model: reported on all ranks, without a hang and without ending the process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "parallel/hookline.h"
#include "parallel/watch/rank_position.h"
#include "tests/support/failure.h"
#include "tests/support/process.h"
#include "tests/support/run_ranks.h"
#include "tests/support/waves.h"

namespace hookline {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using testing::failure_of;
using ::testing::HasSubstr;
using testing::run_ranks;

RunConfig config_of(const std::string& strategy) {
  RunConfig config;
  config.fsdp.sharding_strategy = strategy;
  return config;
}

/// Units u0, u1, … from `widths[i]` to `widths[i + 1]`, and a head outside any unit; `run` is the test's
/// forward.
struct ChainImpl : torch::nn::Module {
  using Forward = std::function<at::Tensor(ChainImpl&, at::Tensor)>;
  ChainImpl(const std::vector<std::int64_t>& widths, Forward run_in) : run(std::move(run_in)) {
    for (std::size_t i = 0; i + 1 < widths.size(); ++i)
      units.push_back(
          register_module("u" + std::to_string(i), FsdpUnit<torch::nn::Linear>(widths[i], widths[i + 1])));
    head = register_module("head", torch::nn::Linear(widths.back(), 2));
    testing::set_to_waves(*this);
  }
  at::Tensor forward(const at::Tensor& x) { return run(*this, x); }
  Forward run;
  std::vector<FsdpUnit<torch::nn::Linear>> units;
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Chain);

at::Tensor all_units(ChainImpl& net, at::Tensor x) {
  for (auto& unit : net.units) x = torch::tanh(unit->forward(x));
  return net.head->forward(x);
}

const std::vector<std::int64_t> kWidths{4, 4, 4, 4};

at::Tensor inputs(std::int64_t width = 4) { return torch::ones({2, width}); }

using Program = std::function<void(Accelerator&, DistributedModule<ChainImpl>&, int rank)>;

/// The errors that the faulty `program` throws on each rank, after one good step.
std::vector<std::string> failures_of(int ranks, const std::string& strategy,
                                     const ChainImpl::Forward& forward, const Program& program,
                                     const std::vector<std::int64_t>& widths = kWidths) {
  std::vector<std::string> failures(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](const std::shared_ptr<World>& world) {
    Accelerator accelerator(config_of(strategy), world);
    Chain net(widths, all_units);
    auto model = accelerator.prepare(net);
    model->forward(inputs()).sum().backward();
    net->run = forward;
    failures[static_cast<std::size_t>(world->rank())] =
        failure_of<std::exception>([&] { program(accelerator, model, world->rank()); });
  });
  return failures;
}

void expect_all(const std::vector<std::string>& failures,
                const ::testing::Matcher<const std::string&>& matches) {
  for (std::size_t rank = 0; rank < failures.size(); ++rank)
    EXPECT_THAT(failures[rank], matches) << "on rank " << rank;
}

void train(DistributedModule<ChainImpl>& model, int steps = 3) {
  for (int step = 0; step < steps; ++step) model->forward(inputs()).sum().backward();
}

void evaluate(DistributedModule<ChainImpl>& model) {
  const torch::NoGradGuard no_grad;
  model->forward(inputs());
}

TEST(FsdpMisuse, NamesTheUnitsOfAnEvaluationOnOneRankOnly) {
  for (const char* strategy : {"full_shard", "shard_grad_op"}) {
    const auto failures =
        failures_of(2, strategy, all_units, [](Accelerator&, DistributedModule<ChainImpl>& model, int rank) {
          if (rank == 0) evaluate(model);
          train(model);
        });
    expect_all(
        failures,
        AllOf(HasSubstr("the ranks run different units"),
              HasSubstr(": rank 0 begins a forward without gradients and gathers the parameters of the model "
                        "itself, and rank 1 begins a forward and ")));
  }
}

TEST(FsdpMisuse, EndsAnEvaluationOfOneRankWhileTheOthersWaitElsewhere) {
  const auto failures =
      failures_of(3, "full_shard", all_units, [](Accelerator& accelerator, auto& model, int rank) {
        if (rank == 0) evaluate(model);
        accelerator.wait_for_everyone();
      });
  expect_all(
      failures,
      AllOf(HasSubstr("the ranks wait for each other, "),
            HasSubstr(": rank 0 in step 1 of a sharded model: gathering the parameters of the model itself; "
                      "ranks 1 and 2 in wait_for_everyone. "),
            HasSubstr(": every rank must run the forward of a sharded model, in an evaluation too")));
}

// The first save also creates a process group.
TEST(FsdpMisuse, EndsAnEvaluationOfOneRankWhileTheOthersSave) {
  const testing::TemporaryFolder folder;
  const auto failures =
      failures_of(2, "full_shard", all_units, [&](Accelerator& accelerator, auto& model, int rank) {
        if (rank == 0) evaluate(model);
        accelerator.save_state(folder.path() / "saved");
        accelerator.wait_for_everyone();
      });
  expect_all(failures, AllOf(HasSubstr("the ranks wait for each other, "),
                             HasSubstr(": rank 0 in step 1 of a sharded model: gathering "),
                             HasSubstr("; rank 1 in ")));
}

TEST(FsdpMisuse, DistinguishesModelsThatRanksTrainInAnotherOrder) {
  std::vector<std::string> failures(2);
  run_ranks(2, [&](const std::shared_ptr<World>& world) {
    Accelerator accelerator(config_of("full_shard"), world);
    auto first = accelerator.prepare(Chain(kWidths, all_units));
    auto second = accelerator.prepare(Chain(kWidths, all_units));
    failures[static_cast<std::size_t>(world->rank())] = failure_of<std::exception>([&] {
      evaluate(world->rank() == 0 ? first : second);
      evaluate(world->rank() == 0 ? second : first);
    });
  });
  expect_all(
      failures,
      HasSubstr("rank 0 in step 0 of a sharded model: gathering the parameters of the model itself; rank 1 "
                "in step 0 of sharded model 2: gathering the parameters of the model itself. "));
}

TEST(FsdpMisuse, NamesAUnitThatOneRankSkips) {
  for (const char* strategy : {"full_shard", "shard_grad_op"}) {
    run_ranks(2, [&](const std::shared_ptr<World>& world) {
      Accelerator accelerator(config_of(strategy), world);
      Chain net(kWidths, [&](ChainImpl& chain, at::Tensor x) {
        for (std::size_t i = 0; i < chain.units.size(); ++i)
          if (i != 1 || world->rank() == 0) x = torch::tanh(chain.units[i]->forward(x));
        return chain.head->forward(x);
      });
      auto model = accelerator.prepare(net);
      // In the first step, when no order of units is known yet.
      EXPECT_THAT(failure_of<std::exception>([&] { train(model); }),
                  AllOf(HasSubstr("the ranks run different units"),
                        ContainsRegex("rank 0 begins a forward and gathers [a-z ]*'u1'"),
                        ContainsRegex("rank 1 begins a forward and gathers [a-z ]*'u2'")));
    });
    // And in a later step, when units are gathered ahead.
    const auto failures = failures_of(2, strategy, all_units, [](Accelerator&, auto& model, int rank) {
      if (rank == 1)
        model.module()->run = [](ChainImpl& net, at::Tensor x) {
          return net.head->forward(net.units[2]->forward(net.units[0]->forward(x)));
        };
      train(model);
    });
    expect_all(failures, AllOf(HasSubstr("the ranks run different units"), HasSubstr("'u1'")));
  }
}

TEST(FsdpMisuse, NamesUnitsOfOtherSizesInAnotherOrder) {
  run_ranks(3, [](const std::shared_ptr<World>& world) {
    Accelerator accelerator(config_of("full_shard"), world);
    Chain net(std::vector<std::int64_t>{4, 400, 4, 9, 4}, [&](ChainImpl& chain, const at::Tensor& x) {
      const std::size_t first = world->rank() == 2 ? 2 : 0;
      at::Tensor y = x;
      for (const std::size_t i : {first, first + 1, 2 - first, 3 - first}) y = chain.units[i]->forward(y);
      return chain.head->forward(y);
    });
    auto model = accelerator.prepare(net);
    EXPECT_THAT(failure_of<std::exception>([&] { train(model); }),
                AllOf(ContainsRegex("rank 0 begins a forward and gathers [a-z ]*'u0'"),
                      ContainsRegex("rank 2 begins a forward and gathers [a-z ]*'u2'")));
  });
}

TEST(FsdpMisuse, EndsTheWaitsThatOneRanksNoSyncOrSummonCauses) {
  for (const char* strategy : {"full_shard", "shard_grad_op"}) {
    auto failures = failures_of(2, strategy, all_units, [](Accelerator&, auto& model, int rank) {
      if (rank == 0)
        model.no_sync([&] { train(model); });
      else
        train(model);
    });
    expect_all(failures,
               AllOf(HasSubstr("the ranks wait for each other"),
                     HasSubstr("rank 1 in step 2 of a sharded model: averaging the gradients of '")));
    failures = failures_of(2, strategy, all_units, [](Accelerator&, auto& model, int rank) {
      if (rank == 0) model.summon_full_params([] {});
      train(model);
    });
    expect_all(failures,
               HasSubstr("rank 0 is in summon_full_params and gathers the parameters of the model itself"));
  }
}

TEST(FsdpMisuse, PrepareFindsAUnitThatIsNotOneOnAnotherRank) {
  struct SometimesImpl : torch::nn::Module {
    explicit SometimesImpl(bool is_unit) {
      if (is_unit)
        register_module("block", FsdpUnit<torch::nn::Linear>(4, 4));
      else
        register_module("block", torch::nn::Linear(4, 4));
      register_module("out", FsdpUnit<torch::nn::Linear>(4, 4));
    }
    at::Tensor forward(const at::Tensor& x) { return x; }
  };
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    for (const int with_unit : {0, 1}) {
      Accelerator accelerator(config_of("full_shard"), world);
      const bool is_unit = world->rank() == with_unit;
      const auto on = [&](int rank) {
        return std::string("Float [4, 4] of ") +
               (rank == with_unit ? "the FsdpUnit 'block'" : "no FsdpUnit") + " on rank " +
               std::to_string(rank);
      };
      EXPECT_EQ(failure_of([&] { accelerator.prepare(std::make_shared<SometimesImpl>(is_unit)); }),
                "the ranks differ: parameter 'block.weight' is " + on(0) + " and " + on(1) +
                    "; every rank must hold the same");
    }
  });
}

TEST(FsdpMisuse, NamesAParameterThatWasLoadedAfterPrepare) {
  const auto load = [](const Chain& net) {
    Chain other(kWidths, all_units);
    std::stringstream file;
    torch::save(other->units[1].ptr()->parameters(), file);
    torch::NoGradGuard no_grad;
    std::vector<at::Tensor> loaded;
    torch::load(loaded, file);
    const at::Tensor& weight = net->units[1]->weight;
    if (weight.dim() == 1)
      weight.set_(loaded[0]);  // as torch::load does
    else
      weight.set_data(loaded[0]);  // a sharded parameter refuses set_ by itself
  };
  const std::string of_unit =
      "the parameter 'u1.weight' was given other memory after the model was sharded, as torch::load, "
      "set_data and "
      "Module::to do, and what it holds would be lost: load the model before prepare(), or inside "
      "summon_full_params on every rank; change a parameter's values in place";
  for (const char* strategy : {"full_shard", "shard_grad_op"}) {
    using Moment =
        std::function<void(DistributedModule<ChainImpl>&, Chain&, const std::function<void()>& change)>;
    const std::vector<std::pair<const char*, Moment>> moments{
        {"before the first step", [](auto&, auto&, const auto& change) { change(); }},
        {"between steps",
         [](auto& model, auto&, const auto& change) {
           train(model, 2);
           change();
         }},
        {"between forward and backward",
         [](auto& model, auto&, const auto& change) {
           train(model, 1);
           const at::Tensor loss = model->forward(inputs()).sum();
           change();
           failure_of<std::exception>([&] { loss.backward(); });  // autograd's own check may come first
         }},
        {"in no_sync",
         [](auto& model, auto&, const auto& change) {
           model.no_sync([&] {
             train(model, 1);
             change();
           });
         }},
        {"between the forward and the backward of no_sync",
         [](auto& model, auto&, const auto& change) {
           model.no_sync([&] {
             const at::Tensor loss = model->forward(inputs()).sum();
             change();
             failure_of<std::exception>([&] { loss.backward(); });  // autograd's own check may come first
           });
         }},
        {"in the forward",
         [](auto& model, Chain& net, const auto& change) {
           net->run = [&](ChainImpl& chain, at::Tensor x) {
             x = chain.units[0]->forward(x);
             change();
             return x;
           };
           failure_of<std::exception>([&] { model->forward(inputs()); });
           net->run = all_units;
         }},
    };
    for (const auto& [when, moment] : moments) {
      for (const bool in_unit : {true, false}) {
        run_ranks(2, [&, when = when, moment = moment](const std::shared_ptr<World>& world) {
          Accelerator accelerator(config_of(strategy), world);
          Chain net(kWidths, all_units);
          torch::optim::SGD sgd(net->parameters(), 0.1);
          auto [model, optimizer] = accelerator.prepare(net, sgd);
          moment(model, net, [&] {
            if (in_unit)
              load(net);
            else
              net->head->bias.set_data(torch::full({2}, 7.0f));
          });
          const auto message = in_unit ? ::testing::HasSubstr(of_unit)
                                       : HasSubstr("the parameter 'head.bias' was given other memory");
          EXPECT_THAT(failure_of<std::exception>([&] { model->forward(inputs()); }), message) << when;
          EXPECT_THAT(failure_of<std::exception>([&] { optimizer.step(); }), message) << when;
          EXPECT_THAT(failure_of<std::exception>([&] { model.summon_full_params([] {}); }), message) << when;
          EXPECT_THAT(failure_of<std::exception>([&] { model->forward(inputs()); }), message)
              << when << ", asked again";
        });
      }
    }
  }
}

TEST(FsdpMisuse, LoadsInsideSummonFullParametersAndNamesWhatDoesNotFit) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Accelerator accelerator(config_of("full_shard"), world);
    Chain net(kWidths, all_units), other(kWidths, all_units);
    {
      const torch::NoGradGuard no_grad;
      for (auto& parameter : other->parameters()) parameter.fill_(0.25);
    }
    std::stringstream file;
    torch::save(other, file);
    auto model = accelerator.prepare(net);
    train(model, 1);
    model.summon_full_params([&] { torch::load(net, file); });
    train(model, 1);
    model.summon_full_params([&] {
      for (const auto& parameter : net->parameters()) EXPECT_TRUE(parameter.eq(0.25).all().item<bool>());
    });
    EXPECT_EQ(failure_of([&] {
                model.summon_full_params([&] {
                  const torch::NoGradGuard no_grad;
                  net->units[0]->bias.fill_(9);
                  net->head->bias.set_data(torch::ones({1}));
                });
              }),
              "the parameter 'head.bias' of a sharded model has sizes [2], and was given [1] in "
              "summon_full_params: load what was saved from the same model");
    train(model, 1);
    model.summon_full_params([&] { EXPECT_TRUE(net->units[0]->bias.eq(0.25).all().item<bool>()); });
  });
}

TEST(FsdpMisuse, RefusesOptimizersThatNeedWholeTensors) {
  const std::string message =
      "LBFGS can't train a sharded model: it computes with all gradients at once, and each rank holds a "
      "piece of "
      "them. Use SGD, Adam, AdamW, Adagrad or RMSprop, or set [fsdp] sharding_strategy = \"no_shard\"";
  run_ranks(2, [&](const std::shared_ptr<World>& world) {
    Accelerator accelerator(config_of("full_shard"), world);
    Chain net(kWidths, all_units), later(kWidths, all_units);
    torch::optim::LBFGS lbfgs(net->parameters());
    EXPECT_EQ(failure_of([&] { accelerator.prepare(net, lbfgs); }), message);
    torch::optim::LBFGS first(later->parameters());
    Accelerator another(config_of("full_shard"), world);
    EXPECT_EQ(failure_of([&] { another.prepare(first, later); }), message);
    EXPECT_EQ(later->units[0]->weight.dim(), 2) << "nothing was cut";
    Accelerator plain(RunConfig{}, world);
    plain.prepare(later, first);
  });
}

struct LeakyImpl : torch::nn::Module {
  LeakyImpl() { weight = register_parameter("weight", torch::ones({4, 4})); }
  at::Tensor forward(const at::Tensor& x) { return x.defined() ? x.matmul(weight) : weight.view({16}); }
  at::Tensor weight;
};
TORCH_MODULE(Leaky);
struct LeakyNetImpl : torch::nn::Module {
  LeakyNetImpl() {
    inner = register_module("inner", FsdpUnit<Leaky>());
    bias = register_parameter("bias", torch::ones({4}));
  }
  at::Tensor forward(const std::string& what) {
    if (what == "unit") return inner->forward(at::Tensor()).sum();
    if (what == "model") return bias.narrow(0, 1, 2);
    if (what == "parameter") return bias;
    return inner->forward(torch::ones({2, 4})) + bias;
  }
  FsdpUnit<Leaky> inner{nullptr};
  at::Tensor bias;
};
TORCH_MODULE(LeakyNet);

TEST(FsdpMisuse, NamesAParameterThatAForwardReturns) {
  for (const bool with_gradients : {true, false}) {
    run_ranks(2, [&](const std::shared_ptr<World>& world) {
      Accelerator accelerator(config_of("full_shard"), world);
      auto model = accelerator.prepare(LeakyNet());
      const torch::AutoGradMode mode(with_gradients);
      EXPECT_EQ(
          failure_of([&] { model->forward("unit"); }),
          "the forward of the unit 'inner' returns a view of the parameter 'inner.weight', whose memory is "
          "freed afterwards: return a copy, such as weight.clone()");
      for (const char* what : {"model", "parameter"})
        EXPECT_THAT(failure_of([&] { model->forward(what); }),
                    ::testing::StartsWith("the forward of the sharded model returns a view of the parameter "
                                          "'bias', "));
      EXPECT_EQ(model->forward("").sum().item<float>(), 2 * 4 * 5);
    });
  }
}

TEST(RankPosition, RoundTripsThroughTheStore) {
  RankPosition position;
  EXPECT_TRUE(unpack_position(pack(position)).started.empty());
  EXPECT_FALSE(unpack_position(pack(position)).waits);
  EXPECT_FALSE(unpack_position(pack(position)).pending);
  position.started = {{"fsdp-gathers/0", 17}, {"world", 3}};
  position.waits = RankPosition::Wait{"world", 2, "step 3 of a model: gathering 'a b'"};
  const RankPosition same = unpack_position(pack(position));
  EXPECT_EQ(same.started, position.started);
  ASSERT_TRUE(same.waits);
  EXPECT_EQ(same.waits->sequence, "world");
  EXPECT_EQ(same.waits->number, 2);
  EXPECT_EQ(same.waits->what, "step 3 of a model: gathering 'a b'");
  EXPECT_FALSE(same.pending);
  position.pending = RankPosition::Pending{41, "step 3 of\na hook"};
  const RankPosition pending = unpack_position(pack(position));
  ASSERT_TRUE(pending.waits && pending.pending);
  EXPECT_EQ(pending.waits->what, same.waits->what);
  EXPECT_EQ(pending.pending->number, 41);
  EXPECT_EQ(pending.pending->what, "step 3 of a hook");
}

TEST(RankPosition, IsADeadlockOnlyIfNoRankCanProceed) {
  const auto at = [](std::int64_t gathers, std::int64_t scatters, std::optional<std::string> waits) {
    RankPosition position;
    position.started = {{"gathers", gathers}, {"scatters", scatters}};
    if (waits)
      position.waits = RankPosition::Wait{*waits, (*waits == "gathers" ? gathers : scatters) - 1, *waits};
    return position;
  };
  EXPECT_EQ(
      find_deadlock({at(3, 1, "gathers"), at(2, 2, "scatters")}),
      "the ranks wait for each other, each in a call that another has not reached: rank 0 in gathers; rank 1 "
      "in scatters. Every rank must make the same calls in the same order");
  EXPECT_FALSE(find_deadlock({at(3, 1, "gathers"), at(2, 2, std::nullopt)})) << "rank 1 computes";
  EXPECT_FALSE(find_deadlock({at(3, 1, "gathers"), at(3, 1, "gathers")})) << "on its way";
  EXPECT_FALSE(find_deadlock({at(3, 1, "gathers"), at(3, 2, "scatters")})) << "rank 0 gets there";
  // Rank 2 is computing and will reach what rank 1 waits for, which will then reach what rank 0 waits for.
  EXPECT_FALSE(find_deadlock({at(3, 2, "gathers"), at(2, 2, "scatters"), at(3, 1, std::nullopt)}));
}

}  // namespace
}  // namespace hookline
