#include "launcher/launch/node_setup.h"

#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/random_hex.h"
#include "base/route.h"
#include "base/text/bytes_text.h"
#include "checkpoint/checksum.h"
#include "config/schema/node_count.h"
#include "config/schema/origin_text.h"
#include "config/schema/schema.h"
#include "config/visible_gpus.h"
#include "launcher/launch/script_kind.h"
#include "launcher/process/machine.h"
#include "launcher/process/own_address.h"
#include "launcher/process/shell.h"

namespace hookline {
namespace {

NodeCount nodes_of(const LaunchConfig& config) { return *NodeCount::parse(config.nnodes); }

/// Without the program, and the interpreter in front of it.
std::vector<std::string> arguments_of(const Program& program) {
  const std::ptrdiff_t first = program.executable == program.file ? 1 : 3;
  return {program.arguments.begin() + first, program.arguments.end()};
}

/// What must be equal on all nodes: what is trained, and the values that decide what is communicated, and
/// when.
std::map<std::string, std::string> common_to_nodes(const RunConfig& config, const Program& program,
                                                   int ranks) {
  std::map<std::string, std::string> common;
  common["hookline"] = HOOKLINE_VERSION;
  // Where it lies may differ between hosts.
  common["program"] = shell_line({program.file.filename().string()});
  const std::vector<std::string> arguments = arguments_of(program);
  common["arguments"] = arguments.empty() ? "(none)" : shell_line(arguments);
  common["rendezvous.run_id"] = to_text(config.rendezvous.run_id);
  // What "auto" becomes on this host.
  const int gpus = config.launch.device == "cpu" ? 0 : visible_gpus();
  common["launch.device"] = gpus > 0 ? "cuda" : "cpu";
  common["launch.backend"] = config.launch.backend != "auto" ? config.launch.backend
                             : gpus >= ranks                 ? "nccl"
                                                             : "gloo";
  for (const KeyRow& row : schema()) {
    const std::string& name = row.option.name;
    const bool is_common =
        (row.table == "ddp" && name != "plugins") || row.table == kAutoHookTable || row.table == "fsdp" ||
        (row.table == "launch" && (name == "nnodes" || name == "max_restarts" || name == "restart")) ||
        (row.table == "training" &&
         (name == "max_steps" || name == "gradient_accumulation_steps" || name == "seed" ||
          name == "resume" || name == "checkpoint_dir" || name == "checkpoint_every_steps"));
    if (is_common) common[row.key()] = to_text(row.get(config));
  }
  for (const auto& [name, value] : config.ddp.comm_state_option)
    common[std::string(kHookOptionTable) + "." + name] = to_text(value);
  // They travel to the other nodes, and are shown where they differ.
  constexpr std::size_t kLongest = 64 << 10;
  for (auto& [key, value] : common) {
    if (value.size() <= kLongest) continue;
    value = bytes_text(value.size()) + " with the checksum " + checksum_of(value.data(), value.size());
  }
  return common;
}

/// Logs an error and returns false if the token that is given can't be used.
bool take_given_token(const RendezvousConfig& meeting, RunSecret& secret) {
  try {
    const auto given = take_given_secret(meeting.token_file, meeting.insecure);
    if (!given) return true;
    secret = *given;
    if (meeting.insecure && secret.kind == RunSecret::Kind::token)
      log::warning(
          "[rendezvous] insecure = true has no effect beside a token: only nodes that have the one in " +
          secret.from + " may join");
    return true;
  } catch (const Error& error) {
    log::error(error.what());
    return false;
  }
}

std::string run_id_from(const RunConfig& config, const std::map<std::string, std::string>& common) {
  if (config.rendezvous.run_id != kDerivedRunId) return config.rendezvous.run_id;
  Checksum sum;
  for (const auto& [key, value] : common) {
    const std::string line = key + "=" + value + "\n";
    sum.add(line.data(), line.size());
  }
  return sum.text();
}

/// The address at which C++ ranks of this host will listen, as they choose it themselves. Empty if that is
/// not known yet: it follows from how the nodes have met, or from the program.
std::string address_of_ranks(const std::string& main_address, bool has_agent_store) {
  if (has_agent_store || is_name_of_loopback(main_address) || std::getenv("GLOO_SOCKET_IFNAME")) return "";
  std::string ignored;
  return own_address_towards(main_address, ignored);
}

/// An id for this start of the launcher, different from all others.
std::string new_id() { return random_hex(8) + "-" + std::to_string(getpid()); }

RestartPolicy restart_policy(const RunConfig& config) {
  const LaunchConfig& launch = config.launch;
  return {launch.max_restarts, launch.restart == "always",
          std::chrono::duration<double>(launch.restart_delay_seconds),
          config.training.checkpoint_every_steps.has_value()};
}

}  // namespace

bool has_many_nodes(const LaunchConfig& config) { return nodes_of(config).total() > 1; }

bool node_rank_fits(const RunConfig& config) {
  const LaunchConfig& launch = config.launch;
  if (!launch.node_rank || *launch.node_rank < nodes_of(launch).total()) return true;
  log::error("node_rank is " + std::to_string(*launch.node_rank) + " (" +
             origin_text(config.origins.at("launch.node_rank")) + "), and nnodes is " + launch.nnodes +
             ": nodes are counted from 0");
  return false;
}

std::string run_id_of(const RunConfig& config, const Program& program, int ranks) {
  return run_id_from(config, common_to_nodes(config, program, ranks));
}

std::optional<NodeSetup> node_setup(const RunConfig& config, const Program& program, int ranks) {
  const NodeCount nodes = nodes_of(config.launch);
  const RendezvousConfig& meeting = config.rendezvous;
  const auto origin = [&](const char* key) { return " (" + origin_text(config.origins.at(key)) + ")"; };
  if (meeting.main_address.empty()) {
    log::error("nnodes is " + config.launch.nnodes + origin("launch.nnodes") +
               ", but no address is set where they meet\n  set [rendezvous] main_address to the name or "
               "address of the "
               "host of rank 0");
    return std::nullopt;
  }
  NodeSetup setup;
  bool is_here = false;
  try {
    is_here = is_own_address(meeting.main_address);
  } catch (const std::exception& error) {
    log::error(error.what() + origin("rendezvous.main_address"));
    return std::nullopt;
  }
  if (config.launch.node_rank == 0 && !is_here) {
    log::error("main_address '" + meeting.main_address + "'" + origin("rendezvous.main_address") +
               " is not this host's, and node_rank is 0\n  addresses of this host: " + own_addresses());
    return std::nullopt;
  }
  if (!has_family_of(meeting.main_address)) {
    log::error("main_address '" + meeting.main_address + "'" + origin("rendezvous.main_address") +
               " can't be reached from this host, which has no address of its family\n  addresses of this "
               "host: " +
               own_addresses());
    return std::nullopt;
  }
  using Seconds = std::chrono::duration<double>;
  setup.meeting.serves = config.launch.node_rank ? *config.launch.node_rank == 0 : is_here;
  setup.meeting.may_join = !config.launch.node_rank;
  setup.meeting.address = meeting.main_address;
  setup.meeting.name = meeting.meeting_name.empty() ? meeting.main_address : meeting.meeting_name;
  setup.meeting.port = static_cast<int>(meeting.main_port);
  setup.meeting.node = new_id();
  setup.meeting.join_timeout = Seconds(config.launch.join_timeout_seconds);
  setup.meeting.node_timeout = Seconds(meeting.node_timeout_seconds);
  if (!take_given_token(meeting, setup.meeting.secret)) return std::nullopt;
  setup.hello.host = host_name();
  setup.hello.ranks = ranks;
  if (config.launch.node_rank) setup.hello.node_rank = static_cast<int>(*config.launch.node_rank);
  setup.hello.common = common_to_nodes(config, program, ranks);
  setup.meeting.run_id = run_id_from(config, setup.hello.common);
  setup.limits = {nodes.least,
                  nodes.most,
                  setup.meeting.join_timeout,
                  Seconds(meeting.last_call_seconds),
                  setup.meeting.node_timeout,
                  nodes.spares};
  setup.policy = restart_policy(config);
  setup.has_agent_store = has_agent_store(config, program);
  setup.hello.ranks_address = address_of_ranks(meeting.main_address, setup.has_agent_store);
  setup.grace = Seconds(config.launch.grace_period_seconds);
  return setup;
}

bool take_own_token(NodeSetup& setup) {
  RunSecret& secret = setup.meeting.secret;
  if (secret.kind != RunSecret::Kind::user) return true;
  try {
    secret = own_secret();
    return true;
  } catch (const Error& error) {
    log::error(error.what());
    return false;
  }
}

bool has_agent_store(const RunConfig& config, const Program& program) {
  return runs_python(program) || (has_many_nodes(config.launch) && !script_kind(program).empty());
}

NodeSetup own_setup(const RunConfig& config, const Program& program, int ranks) {
  NodeSetup setup;
  setup.meeting.alone = true;
  setup.meeting.address = NodePlace().main_address;
  setup.meeting.node = new_id();
  setup.hello.host = host_name();
  setup.hello.ranks = ranks;
  setup.policy = restart_policy(config);
  setup.has_agent_store = has_agent_store(config, program);
  return setup;
}

}  // namespace hookline
