#include "launcher/cli/verbs/sweep/sweep_facts.h"

#include <sched.h>

#include <ctime>
#include <string>
#include <vector>

#include "base/text/count_text.h"
#include "base/text/time_text.h"
#include "config/visible_gpus.h"
#include "launcher/process/machine.h"
#include "launcher/process/shell.h"

namespace hookline {

SweepMachine machine_for_trials() {
  SweepMachine machine;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) == 0)
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &cores)) machine.cores.push_back(core);
  machine.gpus = visible_gpus();
  return machine;
}

Assignments same_in(const SweepFile& sweep) {
  Assignments same = sweep.fixed;
  if (sweep.baseline)
    std::erase_if(same, [&](const auto& fixed) {
      const auto own = sweep.baseline->find(fixed.first);
      return own != sweep.baseline->end() && own->second != fixed.second;
    });
  return same;
}

SweepFacts facts_of(const std::filesystem::path& file, const SweepFile& sweep, const SweepMachine& machine,
                    const std::vector<std::string>& arguments) {
  SweepFacts facts;
  facts.name = file.stem().string();
  std::vector<std::string> command = {"hookline", "sweep"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  facts.command = shown_shell_line(command);
  facts.machine = host_name() + ", " + count_text(machine.cores.size(), "core");
  if (machine.gpus > 0) facts.machine += ", " + count_text(static_cast<std::size_t>(machine.gpus), "GPU");
  facts.began = file_time_text(std::time(nullptr));
  facts.metric = sweep.settings.metric;
  facts.goal = sweep.settings.goal;
  facts.metric_value = sweep.settings.metric_value;
  facts.same = same_in(sweep);
  return facts;
}

}  // namespace hookline
