#include "parallel/world/text_exchange.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "base/error.h"
#include "parallel/tensors/byte_tensor.h"

namespace hookline {
namespace {

/// The bytes of `text`, padded with zeros to `length`.
at::Tensor bytes_of(std::string text, std::int64_t length) {
  text.resize(static_cast<std::size_t>(length));
  return tensor_of_bytes(text);
}

std::string text_of(const at::Tensor& bytes, std::int64_t length) {
  return bytes_of_tensor(bytes.narrow(0, 0, length));
}

std::vector<at::Tensor> all_gather(World& world, const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                   const at::Tensor& own, const std::string& what) {
  std::vector<std::vector<at::Tensor>> all(1);
  for (int rank = 0; rank < world.size(); ++rank) all[0].push_back(at::zeros_like(own));
  std::vector<at::Tensor> input{own};
  world.run_on_all([&] { return group->allgather(all, input); }, what);
  return all[0];
}

}  // namespace

std::string problem_of(const std::function<void()>& action) {
  try {
    action();
    return "";
  } catch (const RunFailed&) {
    throw;
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::vector<std::string> exchange_texts(World& world, const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                        const std::string& text, const std::string& what) {
  const at::Tensor own_length = at::full({1}, static_cast<std::int64_t>(text.size()), at::kLong);
  std::vector<std::int64_t> lengths;
  for (const at::Tensor& length : all_gather(world, group, own_length, what))
    lengths.push_back(length.item<std::int64_t>());
  const std::int64_t longest = std::max<std::int64_t>(1, *std::max_element(lengths.begin(), lengths.end()));
  const std::vector<at::Tensor> bytes = all_gather(world, group, bytes_of(text, longest), what);
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < bytes.size(); ++rank)
    texts.push_back(text_of(bytes[rank], lengths[rank]));
  return texts;
}

std::string text_of_rank_zero(World& world, const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                              const std::string& text, const std::string& what) {
  std::vector<at::Tensor> length{at::full({1}, static_cast<std::int64_t>(text.size()), at::kLong)};
  world.run_on_all([&] { return group->broadcast(length); }, what);
  const auto count = length[0].item<std::int64_t>();
  std::vector<at::Tensor> bytes{bytes_of(world.rank() == 0 ? text : "", std::max<std::int64_t>(1, count))};
  world.run_on_all([&] { return group->broadcast(bytes); }, what);
  return text_of(bytes[0], count);
}

std::string problem_of_any(World& world, const std::string& what, const std::function<void()>& action) {
  for (std::string& problem : exchange_texts(world, world.group(), problem_of(action), what)) {
    if (!problem.empty()) return std::move(problem);
  }
  return "";
}

}  // namespace hookline
