#include "launcher/wizard/detect.h"

#include "config/visible_gpus.h"
#include "launcher/process/machine.h"
#include "launcher/rendezvous/own_address.h"
#include "launcher/schedulers/surroundings.h"

namespace hookline {

Detected detect() {
  Detected here;
  here.cores = usable_cores();
  here.gpus = visible_gpus();
  if (const auto scheduler = surroundings(facts_here(host_name()))) here.scheduler = scheduler->scheduler;
  for (const Interface& each : own_interfaces()) {
    if (each.is_ipv4 && each.is_up && !each.is_loopback)
      here.interfaces.push_back(each.address + " (" + each.name + ")");
  }
  return here;
}

}  // namespace hookline
