// Imports flags as torch/distributed/run.py defines them.
#include <map>

#include "launcher/import/launch_line.h"
#include "launcher/import/launchers.h"

namespace hookline {
namespace {

struct Endpoint {
  std::string host, port;
};

Endpoint endpoint_of(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  const bool is_bare_ipv6 = !text.starts_with('[') && text.find(':') != colon;
  if (colon == text.npos || is_bare_ipv6 || text.ends_with(']')) return {without_brackets(text), ""};
  return {without_brackets(text.substr(0, colon)), text.substr(colon + 1)};
}

const std::map<std::string, std::string>& keys() {
  static const std::map<std::string, std::string> rows = {
      {"nnodes", "launch.nnodes"},
      {"nproc-per-node", "launch.processes_per_node"},
      {"max-restarts", "launch.max_restarts"},
      {"master-addr", "rendezvous.main_address"},
      {"master-port", "rendezvous.main_port"},
      {"rdzv-id", "rendezvous.run_id"},
      {"log-dir", "logging.dir"},
      {"log-line-prefix-template", "logging.prefix_template"},
      {"shutdown-timeout", "launch.grace_period_seconds"},
  };
  return rows;
}

const std::map<std::string, std::string>& reasons_to_leave_out() {
  static const std::map<std::string, std::string> rows = {
      {"rdzv-backend", "not needed, since all nodes join at rendezvous.main_address"},
      {"standalone", "a run on one host needs neither an address nor a port"},
      {"monitor-interval", "not needed, since the launcher notices at once when a rank exits"},
      {"start-method", "the launcher always starts ranks as separate processes"},
      {"role", "all ranks have the same role"},
      {"local-addr", "each node finds its own address"},
      {"signals-to-handle", "the launcher always handles SIGTERM, SIGINT, SIGHUP and SIGQUIT"},
      {"event-log-handler", "hookline has no event log"},
      {"logs-specs", "names a Python class"},
      {"duplicate-stdout-filters", "hookline does not filter output lines"},
      {"duplicate-stderr-filters", "hookline does not filter output lines"},
      {"use-agent-store",
       "with several hosts or a Python program, the launcher serves the store; otherwise, rank 0 does"},
      {"no-use-agent-store",
       "with several hosts or a Python program, the launcher serves the store; otherwise, rank 0 does"},
      {"use-env", "ranks always get their numbers in environment variables"},
      {"virtual-local-rank", "each rank uses the GPU of its LOCAL_RANK"},
  };
  return rows;
}

const FlagTable& torchrun_flags() {
  static const FlagTable flags = [] {
    FlagTable made;
    made.may_be_short = true;
    made.switches = {"standalone",         "module",  "no-python",         "run-path", "use-agent-store",
                     "no-use-agent-store", "use-env", "virtual-local-rank"};
    made.short_names = {{'m', "module"}, {'r', "redirects"}, {'t', "tee"}};
    made.valued = {"node-rank", "rdzv-endpoint", "rdzv-conf",         "numa-binding",
                   "redirects", "tee",           "local-ranks-filter"};
    for (const auto& rows : {keys(), reasons_to_leave_out()})
      for (const auto& [name, unused] : rows)
        if (!made.switches.contains(name)) made.valued.insert(name);
    return made;
  }();
  return flags;
}

class TorchrunReader {
 public:
  Imported read(const LaunchLine& line) {
    result_.kind = "a command line of torchrun";
    LaunchArguments arguments = split_arguments(line, torchrun_flags(), result_);
    std::map<std::string, std::function<void(const LaunchFlag&)>> settings;
    for (const auto* names : {&torchrun_flags().valued, &torchrun_flags().switches})
      for (const std::string& name : *names) {  // torchrun reads PET_NNODES where --nnodes is not given
        std::string variable = "PET_" + name;
        for (char& c : variable)
          c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
        settings[variable] = [this, name, &arguments](const LaunchFlag& set) {
          for (const LaunchFlag& each : arguments.flags)
            if (each.name == name) return result_.leave_out(set.from, each.from + " overrides it");
          arguments.flags.push_back({name, set.value, set.from, false, set.defaults});
        };
      }
    settings["TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"] = [this](const LaunchFlag& set) {
      result_.carry("logging.prefix_template", set.value, set.from);
    };
    take_surroundings(line, settings, result_);
    for (const LaunchFlag& flag : arguments.flags)
      if (flag.name == "nnodes") nnodes_ = flag.value;
    for (const LaunchFlag& flag : arguments.flags) take(flag);
    take_streams(redirects_, tee_, result_);
    take_program(arguments.program, is_module_, result_);
    tell_of_defaults(line, arguments, key_of, result_);
    return std::move(result_);
  }

 private:
  void take(const LaunchFlag& flag) {
    const std::string &name = flag.name, &value = flag.value;
    if (name == "node-rank") {
      result_.leave_out(flag.from,
                        "all nodes share one config, and their ranks follow the order in which they join: to "
                        "choose this node's, launch with --set launch.node_rank=" +
                            value);
    } else if (name == "redirects" || name == "tee") {
      (name == "tee" ? tee_ : redirects_) = flag;
    } else if (name == "module" || name == "no-python" || name == "run-path") {
      is_module_ = is_module_ || name == "module";  // shows in the program's command
    } else if (flag.is_open && !key_of(name).empty()) {
      result_.leave_out(flag.from, only_a_shell_knows(key_of(name)));
    } else if (name == "nproc-per-node" && (value == "gpu" || value == "auto")) {
      result_.carry("launch.processes_per_node", "auto", flag.from);
    } else if (name == "nproc-per-node" && value == "cpu") {
      result_.leave_out(flag.from, "one rank per core is rarely intended: set launch.processes_per_node");
    } else if (name == "nproc-per-node" && value == "xpu") {
      result_.leave_out(flag.from, "ranks run on CPUs or NVIDIA GPUs, not on XPUs");
    } else if (name == "rdzv-endpoint") {
      const Endpoint at = endpoint_of(value);
      result_.carry("rendezvous.main_address", at.host, flag.from);
      if (!at.port.empty() && at.port != "0") result_.carry("rendezvous.main_port", at.port, flag.from);
    } else if (name == "rdzv-conf") {
      take_rdzv_conf("--rdzv-conf", value, result_);
    } else if (name == "numa-binding") {
      if (value == "node" || value == "exclusive")
        result_.carry("launch.binding", value == "node" ? "numa" : "core", flag.from);
      else
        result_.leave_out(flag.from, "set launch.binding to none, core or numa");
    } else if (name == "local-ranks-filter" && (nnodes_.empty() || nnodes_ == "1" || nnodes_ == "1:1")) {
      result_.carry("logging.show_ranks", value, flag.from);
    } else if (name == "local-ranks-filter") {
      result_.leave_out(
          flag.from,
          "logging.show_ranks numbers ranks across all hosts: set it to the ranks that you want to see");
    } else if (const auto key = keys().find(name); key != keys().end()) {
      result_.carry(key->second, name == "master-addr" ? without_brackets(value) : value, flag.from);
    } else {
      const auto reason = reasons_to_leave_out().find(name);
      result_.leave_out(flag.from, reason != reasons_to_leave_out().end()
                                       ? reason->second
                                       : "hookline does not know this flag of torchrun");
    }
  }

  static std::string key_of(const std::string& name) {
    static const std::map<std::string, std::string> others = {
        {"rdzv-endpoint", "rendezvous.main_address"},
        {"rdzv-conf", "launch.join_timeout_seconds"},
        {"numa-binding", "launch.binding"},
        {"local-ranks-filter", "logging.show_ranks"},
        {"redirects", "logging.show"},
        {"tee", "logging.show"},
    };
    if (const auto other = others.find(name); other != others.end()) return other->second;
    const auto key = keys().find(name);
    return key == keys().end() ? "" : key->second;
  }

  Imported result_;
  LaunchFlag redirects_, tee_;
  std::string nnodes_;
  bool is_module_ = false;
};

}  // namespace

Imported import_torchrun(const LaunchLine& line) { return TorchrunReader().read(line); }

}  // namespace hookline
