#include "launcher/cli/short_run/short_run.h"

#include <utility>

#include "config/schema/origin_text.h"
#include "launcher/cli/overrides.h"
#include "launcher/launch/launch_plan.h"
#include "launcher/launch/node_setup.h"

namespace hookline {

void ShortRunFlags::add_ranks_flags(VerbParser& parser) {
  config.add_file_flag(parser);
  config.add_profile_flag(parser);
  parser.add_text(
      "--processes-per-node", processes_per_node, "N",
      "Ranks on this host; else as many as the config says, or, if it says none, one per GPU, and at "
      "least 2 on a single host");
}

void ShortRunFlags::add_set_flag(VerbParser& parser) {
  parser.add_texts("--set", sets, "KEY=VALUE", "Any value of the config, such as launch.device=cpu");
}

std::vector<Override> ShortRunFlags::overrides(const std::string& verb, std::vector<Override> own) const {
  std::vector<Override> all = std::move(own);
  all.push_back({"launch.max_restarts", "0", verb});
  all.push_back({"training.checkpoint_every_steps", "none", verb});
  all.push_back({"training.resume", "no", verb});
  all.push_back({"logging.status", "off", verb});
  if (!processes_per_node.empty())
    all.push_back({"launch.processes_per_node", processes_per_node, "--processes-per-node"});
  for (Override& set : overrides_from_sets(sets)) all.push_back(std::move(set));
  expect_each_key_once(all);
  return all;
}

void take_two_ranks(RunConfig& config) {
  if (!is_given(config, "launch.processes_per_node") && ranks_of(config.launch) == 1 &&
      !has_many_nodes(config.launch))
    config.launch.processes_per_node = 2;
}

}  // namespace hookline
