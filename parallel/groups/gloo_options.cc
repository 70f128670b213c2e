#include "parallel/groups/gloo_options.h"

#include <sched.h>

#include <future>

namespace hookline {

c10::intrusive_ptr<c10d::ProcessGroupGloo::Options> gloo_options(const std::string& address,
                                                                 std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  // The device starts its event thread, which inherits the policy of the thread that makes it. Where the
  // kernel refuses the policy, it stays as it was: everything works, only slower.
  const auto make_device = [&] {
    const sched_param none{};
    if (::sched_getscheduler(0) == SCHED_OTHER) ::sched_setscheduler(0, SCHED_BATCH, &none);
    // Gloo's own default is the address of the host's name, which is often a loopback address.
    return c10d::ProcessGroupGloo::createDeviceForHostname(address);
  };
  options->devices.push_back(std::async(std::launch::async, make_device).get());
  return options;
}

}  // namespace hookline
