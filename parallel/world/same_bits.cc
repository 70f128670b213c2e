#include "parallel/world/same_bits.h"

#include <ATen/ops/full.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>

namespace hookline {

std::vector<bool> same_bits_as_rank_zero(World& world, const std::vector<at::Tensor>& tensors) {
  std::string bytes;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor whole = tensor.detach().cpu().contiguous();
    bytes.append(static_cast<const char*>(whole.const_data_ptr()), whole.nbytes());
  }
  const auto hash = static_cast<std::int64_t>(std::hash<std::string>()(bytes));
  std::vector<std::int64_t> hashes;
  for (const at::Tensor& one :
       world.all_gather(at::full({1}, hash, at::TensorOptions(at::kLong).device(world.device()))))
    hashes.push_back(one.item<std::int64_t>());
  std::vector<bool> same;
  for (const std::int64_t one : hashes) same.push_back(one == hashes[0]);
  return same;
}

bool same_bits_on_all_ranks(World& world, const at::Tensor& tensor) {
  const std::vector<bool> same = same_bits_as_rank_zero(world, {tensor});
  return std::all_of(same.begin(), same.end(), [](bool one) { return one; });
}

}  // namespace hookline
