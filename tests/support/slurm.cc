#include "support/slurm.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>

#include "support/free_port.h"

namespace hookline::testing {
Slurm::Slurm() {
  if (geteuid() != 0) {
    problem_ = "Slurm's daemons can't be started here (run as root)";
    return;
  }
  for (const char* program :
       {"/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/sbin/munged", "/usr/bin/srun"}) {
    if (!std::filesystem::exists(program)) {
      problem_ = std::string("no ") + program + " here (Debian's slurm-wlm and munge)";
      return;
    }
  }
  host_.emplace(1);  // which has a link: Slurm listens nowhere if all addresses are those of loopback
  if (!host_->ok() || !host_->enter(0)) {
    problem_ = "no network namespace can be made here";
    return;
  }
  const std::string folder = folder_.path().string(), host = host_name();
  for (const char* below : {"state", "run", "log"}) std::filesystem::create_directory(folder_.path() / below);
  std::string key(1024, '\0');
  std::ifstream("/dev/urandom", std::ios::binary).read(key.data(), static_cast<std::streamsize>(key.size()));
  std::filesystem::permissions(folder_.write("run/munge.key", key), std::filesystem::perms::owner_read);
  std::string config = "ClusterName=test\nSlurmctldHost=" + host +
                       "(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n"
                       "AuthType=auth/munge\nAuthInfo=socket=" +
                       folder +
                       "/run/munge.socket\n"
                       "SlurmctldPort=" +
                       std::to_string(free_port()) + "\nStateSaveLocation=" + folder +
                       "/state\n"
                       "SlurmdSpoolDir=" +
                       folder + "/spool-%n\nSlurmctldPidFile=" + folder +
                       "/run/slurmctld.pid\n"
                       "SlurmdPidFile=" +
                       folder + "/run/slurmd-%n.pid\nSlurmctldLogFile=" + folder +
                       "/log/slurmctld\n"
                       "SlurmdLogFile=" +
                       folder +
                       "/log/slurmd-%n\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n"
                       "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nSchedulerType=sched/"
                       "builtin\nMpiDefault=none\n"
                       "ReturnToService=2\nFirstJobId=" +
                       std::to_string(free_port()) + "\n";  // so that two clusters' jobs have different names
  for (const char* node : {"n1", "n2"})
    config += "NodeName=" + std::string(node) + " NodeHostname=" + host +
              " NodeAddr=127.0.0.1 Port=" + std::to_string(free_port()) + " CPUs=1 State=UNKNOWN\n";
  config += "PartitionName=main Nodes=n1,n2 Default=YES MaxTime=10 State=UP\n";
  folder_.write("slurm.conf", config);

  const auto start = [&](const std::string& program, std::vector<std::string> arguments) {
    daemons_.push_back(std::make_unique<Process>(program, options(std::move(arguments))));
  };
  start("/usr/sbin/munged",
        {"--foreground", "--force", "--key-file=" + folder + "/run/munge.key",
         "--socket=" + folder + "/run/munge.socket", "--pid-file=" + folder + "/run/munged.pid",
         "--seed-file=" + folder + "/run/munged.seed", "--log-file=" + folder + "/log/munged"});
  eventually([&] { return std::filesystem::exists(folder_.path() / "run/munge.socket"); });
  start("/usr/sbin/slurmctld", {"-D", "-c"});
  for (const char* node : {"n1", "n2"}) start("/usr/sbin/slurmd", {"-D", "-N", node});
  const bool ready = eventually([&] {
    const std::string states = run("/usr/bin/sinfo", {"-h", "-o", "%T %D"}).out;
    return states.find("idle 2") != std::string::npos;
  });
  if (!ready) problem_ = "Slurm's nodes did not come up:\n" + read_file(folder_.path() / "log/slurmctld");
}

Slurm::~Slurm() {
  if (problem_.empty()) {
    // The jobs of a test that failed would outlive the daemons.
    run("/usr/bin/scancel", {"--full", "--signal=KILL", "--user=root"});
    eventually([&] { return run("/usr/bin/squeue", {"--noheader"}).out.empty(); }, std::chrono::seconds(10));
  }
  // In reverse order of their start, so that each can stop what it started.
  std::reverse(daemons_.begin(), daemons_.end());
  for (const auto& daemon : daemons_) {
    daemon->signal(SIGTERM);
    eventually([&] { return !is_running(daemon->pid()); }, std::chrono::seconds(5));
  }
}

ProcessOptions Slurm::options(std::vector<std::string> arguments) const {
  ProcessOptions options;
  options.arguments = std::move(arguments);
  options.environment = {{"SLURM_CONF", (folder_.path() / "slurm.conf").string()},
                         {"OMP_NUM_THREADS", "1"},
                         {"CUDA_VISIBLE_DEVICES", ""}};
  options.limit = std::chrono::minutes(4);
  return options;
}

ProcessResult Slurm::run(const std::string& command, std::vector<std::string> arguments) const {
  return run_process(command, options(std::move(arguments)));
}

}  // namespace hookline::testing
