#include "config/sharding_checks.h"

#include <string>
#include <utility>

#include "hooks/option.h"

namespace hookline {
namespace {

const std::string kStrategy = "fsdp.sharding_strategy";

/// Where the later one of two keys was set, which brought them together.
const Given& later_of(const Collected& collected, const std::string& key) {
  const Given& strategy = collected.keys.at(kStrategy).back();
  const Given& other = collected.keys.at(key).back();
  return other.order > strategy.order ? other : strategy;
}

}  // namespace

void check_sharding(const Collected& collected, const RunConfig& config,
                    std::vector<Diagnostic>& diagnostics) {
  const auto warn = [&](const std::string& key, const std::string& note) {
    diagnostics.push_back(without_effect(collected.keys.at(key).back(), note));
  };
  const std::string strategy = to_text(config.fsdp.sharding_strategy);
  if (config.fsdp.sharding_strategy == "no_shard") {
    if (config.fsdp.comm_hook != "no")
      warn("fsdp.comm_hook", "the model is not sharded: set sharding_strategy, or comm_hook in [ddp]");
    return;
  }
  const auto refuse = [&](const std::string& key, const std::string& what, const std::string& instead) {
    diagnostics.push_back(diagnostic_at(later_of(collected, key).place, Severity::error,
                                        what + " does not work with sharding_strategy " + strategy,
                                        "it needs whole gradients, which no rank has: " + instead +
                                            ", or sharding_strategy = \"no_shard\"; " + key + " is set at " +
                                            config.origins.at(key).where + ", sharding_strategy at " +
                                            config.origins.at(kStrategy).where));
  };
  const std::string in_half = "set comm_hook = \"fp16\" or \"bf16\" in [fsdp]";
  if (config.ddp.comm_hook != "no")
    refuse("ddp.comm_hook", "[ddp] comm_hook " + to_text(config.ddp.comm_hook), in_half);
  if (config.ddp.comm_wrapper != "no")
    refuse("ddp.comm_wrapper", "[ddp] comm_wrapper " + to_text(config.ddp.comm_wrapper), in_half);
  if (!config.training.record_gradients.empty())
    refuse("training.record_gradients", "record_gradients", "leave it out");
  const DdpConfig defaults;
  const std::pair<const char*, bool> of_ddp[] = {
      {"ddp.broadcast_buffers", config.ddp.broadcast_buffers != defaults.broadcast_buffers},
      {"ddp.bucket_cap_mb", config.ddp.bucket_cap_mb != defaults.bucket_cap_mb},
      {"ddp.find_unused_parameters", config.ddp.find_unused_parameters},
      {"ddp.gradient_as_bucket_view", config.ddp.gradient_as_bucket_view},
      {"ddp.static_graph", config.ddp.static_graph}};
  for (const auto& [key, is_set] : of_ddp)
    if (is_set) warn(key, "it is DDP's, and sharding_strategy is " + strategy);
}

}  // namespace hookline
