#include "launcher/wizard/detect.h"

#include <unistd.h>

#include "base/route.h"
#include "config/visible_gpus.h"
#include "launcher/process/machine.h"
#include "launcher/rank/program.h"
#include "launcher/schedulers/surroundings.h"

namespace hookline {

namespace {

/// Are Slurm's commands and its config here? The commands may be installed without a cluster.
bool can_submit_to_slurm() {
  try {
    find_program({"sbatch"}, search_path());
  } catch (const ProgramError&) {
    return false;
  }
  if (environment_variable("SLURM_CONF")) return true;
  for (const char* config : {"/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf"})
    if (access(config, R_OK) == 0) return true;
  return false;
}

}  // namespace

Detected detect() {
  Detected here;
  here.cores = usable_cores();
  here.gpus = visible_gpus();
  if (const auto scheduler = surroundings(facts_here(host_name()))) here.scheduler = scheduler->scheduler;
  if (can_submit_to_slurm()) here.submitters.push_back("slurm");
  for (const Interface& each : own_interfaces()) {
    if (each.is_ipv4 && each.is_up && !each.is_loopback)
      here.interfaces.push_back(each.address + " (" + each.name + ")");
  }
  return here;
}

}  // namespace hookline
