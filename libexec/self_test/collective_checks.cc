#include "libexec/self_test/collective_checks.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "torch_versions/single_collectives.h"

namespace hookline {
namespace {

constexpr std::int64_t kElements = 1001;  // odd, and more than one packet
using Tensors = std::vector<at::Tensor>;

/// The input of `rank`, from element `first` on: 0, 1 or 2, in an order that differs from rank to rank.
at::Tensor given(const World& world, int rank, at::ScalarType dtype, std::int64_t count = kElements,
                 std::int64_t first = 0) {
  constexpr std::int64_t kPrime = 65521, kStep = 7919;  // no common factor of kStep and kPrime - 1
  const std::int64_t factor = 1 + kStep * (rank + 1) % (kPrime - 1);
  const at::Tensor numbers = at::arange(first + 1, first + count + 1, at::kLong) * factor;
  return numbers.remainder(kPrime).remainder(3).to(world.device(), dtype);
}

at::Tensor sum_of_all(const World& world, at::ScalarType dtype, std::int64_t count = kElements,
                      std::int64_t first = 0) {
  at::Tensor sum = given(world, 0, at::kLong, count, first);
  for (int rank = 1; rank < world.size(); ++rank) sum += given(world, rank, at::kLong, count, first);
  return sum.to(dtype);
}

/// A tensor of a value that every collective must overwrite.
at::Tensor blank(const World& world, at::ScalarType dtype, std::int64_t count = kElements) {
  return at::full({count}, 77, at::TensorOptions(dtype).device(world.device()));
}

/// Throws Error unless `is` equals `wanted`.
void expect_equal(const at::Tensor& is, const at::Tensor& wanted, int rank) {
  const at::Tensor wrong = is.ne(wanted).cpu();
  if (!wrong.any().item<bool>()) return;
  const auto at = wrong.to(at::kByte).argmax().item<std::int64_t>();
  throw Error("rank " + std::to_string(rank) + " got " + std::to_string(is[at].item<double>()) +
              " as element " + std::to_string(at) + " of " + dtype_name(is.scalar_type()) + ", and " +
              std::to_string(wanted[at].item<double>()) + " is right");
}

void broadcast(World& world, at::ScalarType dtype) {
  const int root = world.size() - 1;
  Tensors tensors{world.rank() == root ? given(world, root, dtype) : blank(world, dtype)};
  c10d::BroadcastOptions options;
  options.rootRank = root;
  world.wait(world.group()->broadcast(tensors, options), "a broadcast");
  expect_equal(tensors[0], given(world, root, dtype), world.rank());
}

void all_reduce(World& world, at::ScalarType dtype) {
  const at::Tensor tensor = given(world, world.rank(), dtype);
  world.all_reduce(tensor);
  expect_equal(tensor, sum_of_all(world, dtype), world.rank());
}

void reduce(World& world, at::ScalarType dtype) {
  Tensors tensors{given(world, world.rank(), dtype)};
  world.wait(world.group()->reduce(tensors), "a reduce");
  if (world.rank() == 0) expect_equal(tensors[0], sum_of_all(world, dtype), 0);
}

void all_gather(World& world, at::ScalarType dtype) {
  const Tensors parts = world.all_gather(given(world, world.rank(), dtype));
  for (int rank = 0; rank < world.size(); ++rank)
    expect_equal(parts[static_cast<std::size_t>(rank)], given(world, rank, dtype), world.rank());
}

void gather(World& world, at::ScalarType dtype) {
  Tensors inputs{given(world, world.rank(), dtype)};
  std::vector<Tensors> outputs;
  if (world.rank() == 0) {
    outputs.emplace_back();
    for (int rank = 0; rank < world.size(); ++rank) outputs[0].push_back(blank(world, dtype));
  }
  world.wait(world.group()->gather(outputs, inputs), "a gather");
  for (int rank = 0; rank < world.size() && world.rank() == 0; ++rank)
    expect_equal(outputs[0][static_cast<std::size_t>(rank)], given(world, rank, dtype), 0);
}

void scatter(World& world, at::ScalarType dtype) {
  Tensors outputs{blank(world, dtype)};
  std::vector<Tensors> inputs;
  if (world.rank() == 0) {
    inputs.emplace_back();
    for (int rank = 0; rank < world.size(); ++rank) inputs[0].push_back(given(world, rank, dtype));
  }
  world.wait(world.group()->scatter(outputs, inputs), "a scatter");
  expect_equal(outputs[0], given(world, world.rank(), dtype), world.rank());
}

void reduce_scatter(World& world, at::ScalarType dtype) {
  at::Tensor input = given(world, world.rank(), dtype, kElements * world.size());
  at::Tensor output = blank(world, dtype);
  wait_without_future(torch_versions::reduce_scatter_single(*world.group(), output, input));
  expect_equal(output, sum_of_all(world, dtype, kElements, kElements * world.rank()), world.rank());
}

void all_to_all(World& world, at::ScalarType dtype) {
  at::Tensor input = given(world, world.rank(), dtype, kElements * world.size());
  at::Tensor output = blank(world, dtype, kElements * world.size());
  world.wait(torch_versions::all_to_all_single(*world.group(), output, input), "an all-to-all");
  Tensors wanted;
  for (int rank = 0; rank < world.size(); ++rank)
    wanted.push_back(given(world, rank, dtype, kElements, kElements * world.rank()));
  expect_equal(output, at::cat(wanted), world.rank());
}

/// Sends to the next rank and receives from the previous one.
void send_and_receive(World& world, at::ScalarType dtype) {
  if (world.size() == 1) return;
  const int next = (world.rank() + 1) % world.size();
  const int previous = (world.rank() + world.size() - 1) % world.size();
  const c10::Device device = device_of_sends(world);
  Tensors sent{given(world, world.rank(), dtype).to(device)}, received{blank(world, dtype).to(device)};
  const auto send = [&] { return world.group()->send(sent, next, 1); };
  const auto receive = [&] { return world.group()->recv(received, previous, 1); };
  // NCCL runs a rank's sends and receives in order, so a rank must receive first where its neighbours send
  // first.
  const bool sends_first = world.rank() % 2 == 0;
  const auto first = sends_first ? send() : receive();
  const auto second = sends_first ? receive() : send();
  wait_without_future(first);
  wait_without_future(second);
  expect_equal(received[0], given(world, previous, dtype).to(device), world.rank());
}

}  // namespace

c10::Device device_of_sends(const World& world) {
  return world.uses_nccl() ? world.device() : c10::Device(c10::kCPU);
}

void wait_without_future(const c10::intrusive_ptr<c10d::Work>& work) { work->wait(); }

const std::vector<Collective>& collectives() {
  static const std::vector<Collective> all = {
      {"broadcast", broadcast},
      {"all-reduce", all_reduce},
      {"reduce", reduce},
      {"all-gather", all_gather},
      {"gather", gather},
      {"scatter", scatter},
      {"reduce-scatter", reduce_scatter},
      {"all-to-all", all_to_all},
      {"send and receive", send_and_receive, true},
  };
  return all;
}

std::vector<at::ScalarType> dtypes_for(int ranks) {
  std::vector<at::ScalarType> dtypes = {at::kFloat, at::kDouble, at::kLong, at::kInt};
  // A sum is at most twice the number of ranks.
  if (2 * ranks <= 2048) dtypes.push_back(at::kHalf);
  if (2 * ranks <= 256) dtypes.push_back(at::kBFloat16);
  if (2 * ranks <= 255) dtypes.push_back(at::kByte);
  return dtypes;
}

std::string dtype_name(at::ScalarType dtype) { return std::string(c10::getDtypeNames(dtype).first); }

}  // namespace hookline
