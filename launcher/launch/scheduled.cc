#include "launcher/launch/scheduled.h"

#include <netdb.h>

#include <csignal>
#include <memory>
#include <string>

#include "base/log.h"
#include "config/schema/node_count.h"
#include "config/schema/origin_text.h"
#include "launcher/process/machine.h"
#include "launcher/schedulers/slurm_job.h"
#include "launcher/schedulers/surroundings.h"

namespace hookline {
namespace {

/// This host's name, with its domain if that is known.
std::string full_host_name() {
  const std::string name = host_name();
  addrinfo hints = {};
  hints.ai_flags = AI_CANONNAME;
  addrinfo* found = nullptr;
  if (getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return name;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  return found->ai_canonname ? found->ai_canonname : name;
}

bool resolves(const std::string& host) {
  addrinfo* found = nullptr;
  const bool there = getaddrinfo(host.c_str(), nullptr, nullptr, &found) == 0;
  if (there) freeaddrinfo(found);
  return there;
}

/// The address of a node that Slurm may know by a name of its own; `host` if Slurm does not say.
std::string address_by_slurm(const std::string& host) {
  if (resolves(host)) return host;
  try {
    Signals signals;  // for this question only: the launch makes its own later
    const std::string address = node_address(host, signals);
    return address.empty() ? host : address;
  } catch (const Interrupted& by) {
    std::raise(by.signal);  // nothing runs yet: the default action ends this process
  } catch (const SlurmError& error) {
    log::warning("Slurm does not say the address of '" + host + "', which does not resolve: " + error.what());
  }
  return host;
}

/// May the scheduler override this key? It may override a file, which is the same on all nodes and may have
/// been written for other machines, but not the command line or a variable, which are meant for this job.
bool yields(const RunConfig& config, const std::string& key) {
  return config.origins.at(key).kind <= OriginKind::file;
}

/// Logs which value of the config the scheduler overrides, if the two differ.
void tell_what_won(const RunConfig& config, const std::string& key, const std::string& former,
                   const std::string& value, const std::string& from) {
  if (!is_given(config, key) || former == value) return;
  log::info(from + " sets " + key + " to " + value + ", overriding " + former + " (" +
            origin_text(config.origins.at(key)) + "); --set " + key + "=VALUE overrides both");
}

/// Logs what the scheduler's variables leave open, and what is used instead.
void tell_what_is_unsaid(const RunConfig& config, const Surroundings& place) {
  for (const std::string& note : place.notes) log::warning(note);
  if (place.unsaid.empty() || (place.is_node_count_unsaid && is_given(config, "launch.nnodes"))) return;
  const std::string& address = config.rendezvous.main_address;
  const bool is_alone = NodeCount::parse(config.launch.nnodes)->total() == 1;
  if (is_alone && place.nodes == 0)
    log::warning(
        place.unsaid +
        "; this launch runs alone, as a run of one node\n  if it is one of several, set [launch] nnodes "
        "and node_rank, and [rendezvous] main_address; set nnodes = 1 if it is not");
  else if (!place.main_address.empty() || address.empty())
    log::warning(place.unsaid);
  else
    log::info(place.unsaid + ": rendezvous.main_address stays " + address + " (" +
              origin_text(config.origins.at("rendezvous.main_address")) + ")");
}

}  // namespace

bool complete_by_scheduler(RunConfig& config) {
  const bool in_a_pod = environment_variable("JOB_COMPLETION_INDEX").has_value();
  auto place = surroundings(facts_here(in_a_pod ? full_host_name() : host_name()));
  if (!place) return true;
  const auto came_from = [&](const char* key, const std::string& where) {
    config.origins[key] = {OriginKind::environment, where};
  };
  if (is_given(config, "launch.nnodes") && NodeCount::parse(config.launch.nnodes)->total() == 1) return true;
  const bool is_ranked = !yields(config, "launch.node_rank");
  if (!place->problem.empty() && !(place->is_problem_unless_ranked && is_ranked)) {
    log::error(place->problem);
    return false;
  }
  if (!is_given(config, "launch.nnodes") && place->nodes > 0) {
    config.launch.nnodes = std::to_string(place->nodes);
    came_from("launch.nnodes", place->nodes_from);
  }
  tell_what_is_unsaid(config, *place);
  if (NodeCount::parse(config.launch.nnodes)->total() == 1) return true;
  if (yields(config, "launch.node_rank") && !place->rank_from.empty()) {
    const auto& former = config.launch.node_rank;
    tell_what_won(config, "launch.node_rank", former ? std::to_string(*former) : "auto",
                  std::to_string(place->node_rank), place->rank_from);
    config.launch.node_rank = place->node_rank;
    came_from("launch.node_rank", place->rank_from);
  }
  if (yields(config, "rendezvous.main_address") && !place->main_address.empty()) {
    if (place->address_from.starts_with("SLURM_"))
      place->main_address = address_by_slurm(place->main_address);
    tell_what_won(config, "rendezvous.main_address", config.rendezvous.main_address, place->main_address,
                  place->address_from);
    config.rendezvous.main_address = place->main_address;
    config.rendezvous.meeting_name = place->run_id;
    came_from("rendezvous.main_address", place->address_from);
  }
  if (!is_given(config, "rendezvous.main_port")) {
    config.rendezvous.main_port = place->main_port;
    came_from("rendezvous.main_port", place->scheduler + "'s job");
  }
  if (!is_given(config, "rendezvous.run_id") && !place->run_id.empty()) {
    config.rendezvous.run_id = place->run_id;
    came_from("rendezvous.run_id", place->scheduler + "'s job");
  }
  log::info(place->scheduler + ": " +
            (config.launch.node_rank ? "node " + std::to_string(*config.launch.node_rank) : "one node") +
            " of " + config.launch.nnodes +
            (config.rendezvous.main_address.empty()
                 ? ""
                 : "; the nodes meet at " + config.rendezvous.main_address));
  return true;
}

}  // namespace hookline
