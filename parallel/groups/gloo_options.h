// What Gloo groups are made with.
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace hookline {

/// Options of a Gloo group that listens on `address`, an IP address of this machine, and whose operations
/// fail after `timeout`. Throws c10::Error if this machine has no such address.
///
/// Gloo's event thread never takes a core from another thread that runs there (SCHED_BATCH), unless this
/// process has a policy other than SCHED_OTHER. Without SCHED_BATCH, the event thread would often displace
/// the thread that is sending on the same connection and therefore holds its lock, and would then retry
/// without a pause until the kernel's next tick: 4 ms on many machines, in which nothing is sent. See
/// Pair::handleEvents in gloo/transport/tcp/pair.cc.
c10::intrusive_ptr<c10d::ProcessGroupGloo::Options> gloo_options(const std::string& address,
                                                                 std::chrono::milliseconds timeout);

}  // namespace hookline
