// One unit of a sharded model: its parameters and gradients, whole or this rank's pieces.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hooks/fsdp/shard_channel.h"
#include "parallel/shards/flat_parameter.h"
#include "parallel/world/world.h"

namespace hookline {

/// Gathers a unit's parameters, which are whole from then on, and frees them again. During a backward its
/// gradients are unsharded, and are added to those that no_sync() accumulated; the gradients of the shards
/// from before it are put aside until the backward is over.
///
/// Fsdp decides when and in which order units are gathered. Not synchronised.
class ShardedUnit {
 public:
  /// `name`: of the module, for errors. `position`: among the model's units. `channel`: for gathers, which
  /// every rank starts in the same order.
  ShardedUnit(std::string name, std::size_t position, std::vector<std::shared_ptr<FlatParameter>> flats,
              std::shared_ptr<ShardChannel> channel);

  const std::string& name() const { return name_; }
  std::size_t position() const { return position_; }
  const std::vector<std::shared_ptr<FlatParameter>>& flats() const { return flats_; }

  /// Starts the all-gather, unless the parameters are whole or on their way: false then.
  bool start_gather(ShardOperation::Kind kind);
  /// Waits for it. The parameters are whole then. `what` names it in an error.
  void finish_gather(World& world, const std::string& what);
  /// Releases the channel; nothing can be gathered afterwards.
  void leave_channel() { channel_.reset(); }
  /// Frees the unsharded parameters' memory, after waiting for a gather in progress. From then until
  /// use_pieces(), using a parameter throws.
  void release(World& world);
  /// Makes the module's parameters unsharded tensors, which can be used only while they are gathered.
  void use_wholes();
  /// Makes the module's parameters this rank's pieces. Call it after release().
  void use_pieces();
  bool is_allocated() const { return is_allocated_; }

  /// Throws Error, which names it, if a parameter was given other memory than it got here.
  void expect_own_memory() const;
  /// Throws Error, which names it, if a whole parameter was given memory of other sizes.
  void expect_changes_fit() const;
  /// Applies changes of the whole parameters to the shards, also where the parameters were given other
  /// memory.
  void keep_changes();
  /// Parameters have their own memory again.
  void drop_changes();

  /// Puts aside what gradients there are.
  void begin_backward();
  bool is_gathering() const { return !gathering_.empty(); }
  bool is_in_backward() const { return in_backward_; }
  /// A whole gradient, of the trained flat parameter `flat`, has come: it need not stay where autograd put
  /// it.
  void collect_gradient(std::size_t flat, std::size_t index) {
    trained_flats_[flat]->collect_gradient(index);
  }
  /// True if any parameter requires a gradient now; a program may freeze some for a while.
  bool trains() const;
  /// How many do.
  std::size_t trained() const;
  /// One gradient for each trained flat parameter, in the layout of the whole, undefined if all of it is
  /// frozen now; ends the backward.
  std::vector<at::Tensor> take_gradients();
  /// Ends a backward that does not communicate; its unsharded gradients are kept for the next one.
  void keep_gradients();
  /// Adds `shard`, the averaged gradient of trained flat parameter `index`, to the gradient from before the
  /// backward.
  void add_gradient(std::size_t index, const at::Tensor& shard);
  /// Abandons a backward: restores the gradients from before it, and drops the gradients that no_sync()
  /// accumulated.
  void forget_backward();

  const std::map<std::string, at::Tensor>& waiting_gradients() const { return waiting_; }
  void set_waiting_gradients(std::map<std::string, at::Tensor> gradients) { waiting_ = std::move(gradients); }

  /// Bytes of all parameters when they are whole.
  std::int64_t whole_bytes() const;
  const std::vector<std::shared_ptr<FlatParameter>>& trained_flats() const { return trained_flats_; }

 private:
  template <class Action>
  void for_each_trained(const Action& action);
  void end_backward();

  std::string name_;
  std::vector<std::shared_ptr<FlatParameter>> flats_, trained_flats_;
  std::size_t position_;
  std::shared_ptr<ShardChannel> channel_;
  std::vector<ShardWork> gathering_;
  bool is_allocated_ = false, is_whole_ = false, in_backward_ = false;
  std::map<std::string, at::Tensor> put_aside_;  // gradients of pieces, by parameter
  std::map<std::string, at::Tensor> waiting_;    // whole gradients that were not communicated
};

}  // namespace hookline
