#include "parallel/world/model_signature.h"

#include <ATen/ops/full.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/lines.h"

namespace hookline {
namespace {

std::string pack(const Signature& signature) {
  std::string text;
  for (const SignatureLine& line : signature) text += line.name + '\t' + line.shape + '\n';
  return text;
}

Signature unpack(const std::string& text) {
  Signature signature;
  for (const std::string_view line : lines_of(text)) {
    const auto tab = line.find('\t');
    signature.push_back({std::string(line.substr(0, tab)), std::string(line.substr(tab + 1))});
  }
  return signature;
}

/// The first difference, as a sentence.
std::string difference(const Signature& zero, const Signature& other, int rank) {
  const std::string there = "rank " + std::to_string(rank);
  for (std::size_t i = 0; i < std::min(zero.size(), other.size()); ++i) {
    if (zero[i].name != other[i].name) {
      return "in the place of " + zero[i].name + " on rank 0, " + there + " has " + other[i].name;
    }
    if (zero[i].shape != other[i].shape) {
      return zero[i].name + " is " + zero[i].shape + " on rank 0 and " + other[i].shape + " on " + there;
    }
  }
  return zero.size() > other.size() ? zero[other.size()].name + " of rank 0 is missing on " + there
                                    : other[zero.size()].name + " of " + there + " is missing on rank 0";
}

bool all_equal(World& world, std::int64_t value) {
  const at::Tensor own = at::full({1}, value, at::kLong);
  const std::vector<at::Tensor> values = world.all_gather(own);
  return std::all_of(values.begin(), values.end(), [&](const at::Tensor& other) { return other.equal(own); });
}

/// Keeps rank 0's process, which may hold the store, alive until every rank has read why it must exit.
void wait_for_readers(World& world, const std::string& prefix) {
  const auto readers = [&](int more) { return world.store().add(prefix + "/readers", more); };
  std::int64_t so_far = readers(1);
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (world.rank() == 0 && so_far < world.size() && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    so_far = readers(0);
  }
}

}  // namespace

SignatureLine signature_line(std::string name, const at::Tensor& tensor) {
  SignatureLine line{std::move(name), "undefined"};
  if (!tensor.defined()) return line;
  std::ostringstream shape;
  shape << c10::toString(tensor.scalar_type()) << ' ' << tensor.sizes();
  if (!tensor.is_contiguous()) shape << " with strides " << tensor.strides();
  line.shape = shape.str();
  return line;
}

Signature model_signature(const torch::nn::Module& module) {
  Signature signature;
  for (const auto& parameter : module.named_parameters()) {
    signature.push_back(signature_line("parameter '" + parameter.key() + "'", parameter.value()));
    if (!parameter.value().requires_grad()) signature.back().shape += " without gradient";
  }
  for (const auto& buffer : module.named_buffers())
    signature.push_back(signature_line("buffer '" + buffer.key() + "'", buffer.value()));
  return signature;
}

void agree_on_signature(World& world, const Signature& signature) {
  // A hash from every rank settles the usual case without leaving anything in the store.
  const std::string own = pack(signature);
  if (all_equal(world, static_cast<std::int64_t>(std::hash<std::string>()(own)))) return;
  const std::string prefix = world.unique_prefix("model");
  const auto key = [&](int rank) { return prefix + "/" + std::to_string(rank); };
  world.store().set(key(world.rank()), std::vector<std::uint8_t>(own.begin(), own.end()));
  std::string of_zero, problem;
  for (int rank = 0; rank < world.size(); ++rank) {
    const std::vector<std::uint8_t> bytes = world.store().get(key(rank));
    const std::string text(bytes.begin(), bytes.end());
    if (rank == 0) of_zero = text;
    if (problem.empty() && text != of_zero) problem = difference(unpack(of_zero), unpack(text), rank);
  }
  wait_for_readers(world, prefix);
  throw Error("the ranks differ: " + problem + "; every rank must hold the same");
}

}  // namespace hookline
