// The collectives of a process group, tried with inputs whose results are known.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "parallel/world/world.h"

namespace hookline {

/// A collective call; throws Error that names the element which is wrong on this rank.
struct Collective {
  std::string name;  // "all-reduce"
  std::function<void(World&, at::ScalarType)> expect_right;
  bool is_between_two = false;  // a send and a receive
};

/// The device for tensors that one rank sends to another. Gloo reduces and gathers tensors on a GPU, but
/// sends only from the CPU.
c10::Device device_of_sends(const World& world);

const std::vector<Collective>& collectives();

/// Waits for sends, receives and reduce-scatters, which World::wait can't watch, since Gloo gives them no
/// future. If a rank exits, its connections close and this call fails. If a rank is stopped, only the
/// self-test's time limit ends it.
void wait_without_future(const c10::intrusive_ptr<c10d::Work>& work);

/// The dtypes in which the sums of collectives() over `ranks` are exact.
std::vector<at::ScalarType> dtypes_for(int ranks);

/// "float16"
std::string dtype_name(at::ScalarType dtype);

}  // namespace hookline
