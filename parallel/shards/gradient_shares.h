// The gradients of a model whose optimizer is sharded: of each, one share is the ranks' average.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/even_share.h"

namespace hookline {

/// After a backward that communicates, this rank's share of each gradient holds the average, and the rest is
/// this rank's own gradient. If the program runs a further backward on top, the averaged share is set aside
/// and added back after the next average, so that nothing is averaged twice.
///
/// The running backward may call it for different parameters on different threads, one for each device.
/// Otherwise not synchronised.
class GradientShares {
 public:
  /// Throws Error, which names it, if a parameter has gaps in memory.
  GradientShares(std::vector<std::string> names, std::vector<at::Tensor> parameters, int rank, int ranks);

  const std::vector<std::string>& names() const { return names_; }
  const std::vector<at::Tensor>& parameters() const { return parameters_; }
  Share share_of(std::size_t index, int rank) const;

  /// This rank's share of the gradient of parameter `index`, which has one: a view, [share].
  at::Tensor piece(std::size_t index);

  /// Autograd is about to add to the gradient of parameter `index`.
  void before_gradient(std::size_t index);
  /// Gradients are about to be averaged, also of parameters that this rank's backward does not reach.
  void before_average();
  /// They have been.
  void after_average();

  /// This rank's gradient for a checkpoint in the middle of a step. Averaging it over the ranks later gives
  /// the averages so far plus the mean of what was added since.
  at::Tensor own_gradient(std::size_t index) const;
  /// Forgets what was averaged or put aside: the gradients now come from elsewhere, and are this rank's own.
  void forget();
  /// Drops what was put aside for parameters whose gradient the program has dropped.
  void drop();

  /// An optimizer is about to step parameter `index` by this rank's share of its gradient.
  void before_step(std::size_t index);

  /// Bytes sent to gather parameters, counted as half of what an all-reduce of them takes.
  std::atomic<std::int64_t> gathered_bytes{0};

 private:
  /// An element outside of this rank's share, as the backward has left it.
  using Sample = std::array<std::byte, 16>;
  enum class Holds {
    own,            // nothing that was averaged
    average,        // in this rank's share
    average_aside,  // the same, put aside; nothing was added since
    others_on_top,  // this rank's own gradient of later backwards; the averaged share is put aside
  };
  struct Gradient {
    Holds holds = Holds::own;
    at::Tensor aside;  // the share, [count]
    Sample sample{};
  };

  void put_aside(std::size_t index);
  Sample sample_of(std::size_t index) const;

  std::vector<std::string> names_;
  std::vector<at::Tensor> parameters_;
  int rank_, ranks_;
  std::vector<Gradient> gradients_;
  bool was_stepped_ = false, told_of_change_ = false;
  std::atomic<bool> told_of_drop_ = false;
};

}  // namespace hookline
