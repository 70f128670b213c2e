// Each collective of a process group, with numbers whose result is known.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "parallel/world/process_group.h"

namespace hookline {

/// A collective call; throws Error that names the element which is wrong on this rank.
struct Collective {
  std::string name;  // "all-reduce"
  std::function<void(World&, at::ScalarType)> expect_right;
  bool is_between_two = false;  // a send and a receive
};

/// Where tensors must lie that a rank sends to another. Gloo reduces and gathers what lies on a GPU, but sends only from the CPU.
c10::Device device_of_sends(const World& world);

const std::vector<Collective>& collectives();

/// For what World::wait can't watch, since Gloo gives it no future: sends, receives and reduce-scatters. A rank that is gone
/// ends it, as its connection is closed; one that stopped does not, but for the self-test's time limit.
void wait_without_future(const c10::intrusive_ptr<c10d::Work>& work);

/// Those in which the sums of collectives() over `ranks` are exact.
std::vector<at::ScalarType> dtypes_for(int ranks);

/// "float16"
std::string dtype_name(at::ScalarType dtype);

}  // namespace hookline
