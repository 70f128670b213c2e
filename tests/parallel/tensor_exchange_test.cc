// Exchanges tensors of every dtype between ranks: they are transferred, or refused before the collective
// could break the World.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "parallel/accelerator.h"
#include "tests/support/failure.h"
#include "tests/support/run_ranks.h"

namespace hookline {
namespace {

using testing::failure_of;
using testing::run_ranks;
using WorldPtr = std::shared_ptr<World>;

TEST(TensorExchange, GathersEveryDtype) {
  run_ranks(2, [](const WorldPtr& world) {
    Accelerator accelerator({}, world);
    const std::int64_t rank = world->rank();
    for (const auto type : {at::kShort, at::kUInt16, at::kUInt32, at::kUInt64, at::kBool, at::kFloat8_e4m3fn,
                            at::kComplexFloat, at::kComplexDouble, at::kBFloat16, at::kChar}) {
      const at::Tensor all = accelerator.gather(torch::full({2, 3}, rank).to(type));
      EXPECT_EQ(all.scalar_type(), type);
      EXPECT_TRUE(all.to(at::kComplexDouble)
                      .equal(torch::arange(2).repeat_interleave(6).view({4, 3}).to(at::kComplexDouble)))
          << type;
    }
    const at::Tensor turned =
        torch::complex(torch::ones({2}), torch::full({2}, 1.0F + static_cast<float>(rank)));
    EXPECT_TRUE(
        at::imag(accelerator.gather(turned.conj())).equal(torch::tensor({-1.0F, -1.0F, -2.0F, -2.0F})));
    EXPECT_EQ(accelerator.gather(torch::zeros({0, 3})).sizes(), (std::vector<std::int64_t>{0, 3}));
    EXPECT_EQ(accelerator.gather(torch::zeros({2, 0})).sizes(), (std::vector<std::int64_t>{4, 0}));
    EXPECT_EQ(accelerator.reduce(torch::zeros({0})).numel(), 0);
    EXPECT_TRUE(at::view_as_real(accelerator.reduce(turned)).select(1, 1).equal(torch::tensor({3.0F, 3.0F})));
  });
}

TEST(TensorExchange, RefusesSumsTheBackendLacksAndContinues) {
  run_ranks(2, [](const WorldPtr& world) {
    Accelerator accelerator({}, world);
    const auto refusal = [](const std::string& dtype, const std::string& to,
                            const std::string& call = "reduce", const std::string& instead = "gather") {
      return call + "() can't add up tensors of dtype " + dtype +
             ", which the ranks' backend has no sum of: convert the tensor first, for example with "
             "tensor.to(torch::" +
             to + "), or " + instead + "() it";
    };
    const auto no_dense_tensor = [](const std::string& what) {
      return "gather() takes a dense tensor, and this one is " + what +
             ": give it a defined tensor, such as what to_dense() or dequantize() returns";
    };
    const auto failure = [&](at::ScalarType type) {
      return failure_of<Error>([&] { accelerator.reduce(torch::ones({2}).to(type)); });
    };
    EXPECT_EQ(failure(at::kShort), refusal("Short", "kLong"));
    EXPECT_EQ(failure(at::kBool), refusal("Bool", "kLong"));
    EXPECT_EQ(failure(at::kUInt16), refusal("UInt16", "kLong"));
    EXPECT_EQ(failure(at::kFloat8_e4m3fn), refusal("Float8_e4m3fn", "kFloat"));
    EXPECT_EQ(failure_of<Error>([&] { accelerator.gather(torch::ones({2}).to_sparse()); }),
              no_dense_tensor("sparse"));
    EXPECT_EQ(failure_of<Error>([&] { accelerator.gather({}); }), no_dense_tensor("undefined"));
    at::Tensor shorts = torch::ones({2}, at::kShort);
    EXPECT_EQ(failure_of<Error>([&] { accelerator.world().all_reduce(shorts); }),
              refusal("Short", "kLong", "all_reduce", "all_gather"));
    EXPECT_EQ(accelerator.reduce(torch::tensor(1)).item<int>(), 2) << "the World continues";
  });
}

TEST(TensorExchange, RefusesReductionsThatDifferBetweenRanks) {
  run_ranks(2, [](const WorldPtr& world) {
    Accelerator accelerator({}, world);
    EXPECT_EQ(
        failure_of<Error>([&] { accelerator.reduce(torch::ones({2}), world->rank() == 0 ? "sum" : "mean"); }),
        "the ranks differ: the reduction given to reduce is \"sum\" on rank 0 and \"mean\" on rank 1; every "
        "rank must hold the same");
    EXPECT_EQ(failure_of<Error>([&] { accelerator.reduce(torch::ones({2}), "avg"); }),
              "reduce() can't do 'avg': it takes \"sum\" or \"mean\"");
    EXPECT_EQ(accelerator.reduce(torch::tensor(1)).item<int>(), 2) << "the World continues";
  });
}

TEST(TensorExchange, PreparesAModelWithBuffersOfEveryDtype) {
  struct NetImpl : torch::nn::Module {
    explicit NetImpl(int rank) {
      line = register_module("line", torch::nn::Linear(4, 2));
      for (const auto type : {at::kShort, at::kUInt16, at::kBool, at::kComplexFloat, at::kFloat8_e4m3fn})
        register_buffer(c10::toString(type), torch::full({3}, 1 - rank).to(type));
      register_buffer("none", torch::zeros({0}));
    }
    at::Tensor forward(const at::Tensor& x) { return line->forward(x); }
    torch::nn::Linear line{nullptr};
  };
  run_ranks(2, [](const WorldPtr& world) {
    Accelerator accelerator({}, world);
    auto model = accelerator.prepare(std::make_shared<NetImpl>(world->rank()));
    accelerator.backward(model->forward(torch::ones({1, 4})).sum());
    for (const at::Tensor& buffer : model->buffers())
      EXPECT_TRUE(buffer.to(at::kComplexFloat).eq(1).all().item<bool>()) << buffer.scalar_type();
  });
}

}  // namespace
}  // namespace hookline
