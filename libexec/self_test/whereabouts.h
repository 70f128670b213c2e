// Which rank is at which step, seen from outside of collectives.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <string>

namespace hookline {

class World;

/// Each rank notes in the store where it is. It uses its own connection, since World's may be waiting for
/// something.
class Whereabouts {
 public:
  explicit Whereabouts(const World& world);

  /// Sets this rank's step. All ranks have the same steps, in the same order.
  void step(const std::string& name);

  /// The ranks that are behind others, "rank 1 is still at broadcast"; empty if there are none. May be called
  /// from any thread.
  std::string behind() const;

 private:
  std::string key(int rank) const;

  c10::intrusive_ptr<c10d::Store> told_, asked_;
  int rank_, size_;
  int steps_ = 0;
};

}  // namespace hookline
