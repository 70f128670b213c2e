#include "config/checks/sharding_checks.h"

#include <string>
#include <utility>

#include "hooks/catalog/option.h"

namespace hookline {
namespace {

const std::string kStrategy = "fsdp.sharding_strategy";
const std::string kOptimizer = "ddp.shard_optimizer";
const std::string kHook = "ddp.comm_hook";

class ShardingChecks {
 public:
  ShardingChecks(const Collected& collected, const Catalog& catalog, const RunConfig& config,
                 std::vector<Diagnostic>& diagnostics)
      : collected_(collected),
        catalog_(catalog),
        config_(config),
        diagnostics_(diagnostics),
        strategy_(to_text(config.fsdp.sharding_strategy)) {}

  void run() {
    if (config_.fsdp.sharding_strategy == "no_shard") {
      if (config_.fsdp.comm_hook != "no")
        warn("fsdp.comm_hook", "the model is not sharded: set sharding_strategy, or comm_hook in [ddp]");
      check_optimizer();
      return;
    }
    const std::string whole = "it needs whole gradients, which no rank has: ";
    const std::string in_half = whole + "set comm_hook = \"fp16\" or \"bf16\" in [fsdp] instead of it";
    if (config_.ddp.comm_hook != "no")
      refuse_with_strategy(kHook, "[ddp] comm_hook " + to_text(config_.ddp.comm_hook), in_half);
    if (config_.ddp.comm_wrapper != "no")
      refuse_with_strategy("ddp.comm_wrapper", "[ddp] comm_wrapper " + to_text(config_.ddp.comm_wrapper),
                           in_half);
    if (config_.ddp.shard_optimizer)
      refuse_with_strategy(
          kOptimizer, "[ddp] shard_optimizer",
          "a sharded model's optimizer steps each rank's pieces anyway: leave shard_optimizer out");
    if (!config_.training.record_gradients.empty())
      refuse_with_strategy("training.record_gradients", "record_gradients",
                           whole + "leave record_gradients out");
    const DdpConfig defaults;
    const std::pair<const char*, bool> of_ddp[] = {
        {"ddp.broadcast_buffers", config_.ddp.broadcast_buffers != defaults.broadcast_buffers},
        {"ddp.bucket_cap_mb", config_.ddp.bucket_cap_mb != defaults.bucket_cap_mb},
        {"ddp.find_unused_parameters", config_.ddp.find_unused_parameters},
        {"ddp.gradient_as_bucket_view", config_.ddp.gradient_as_bucket_view},
        {"ddp.static_graph", config_.ddp.static_graph},
        {"ddp.comm_scope", config_.ddp.comm_scope != defaults.comm_scope}};
    for (const auto& [key, is_set] : of_ddp)
      if (is_set) warn(key, "it is DDP's, and sharding_strategy is " + strategy_);
  }

 private:
  /// Reports settings that do not work with shard_optimizer: comm_scope, comm_hook = "auto", and hooks that
  /// do not average, with which each rank would step its part by its own gradients alone.
  void check_optimizer() {
    if (config_.ddp.shard_optimizer && config_.ddp.comm_scope != DdpConfig().comm_scope)
      refuse(kOptimizer, "ddp.comm_scope",
             "shard_optimizer does not work with comm_scope " + to_text(config_.ddp.comm_scope),
             "each rank averages its own shares of the gradients over all ranks: leave one of the two out");
    if (config_.ddp.shard_optimizer && config_.ddp.comm_hook == kAutoHook)
      refuse(kOptimizer, kHook, "shard_optimizer does not work with comm_hook \"auto\"",
             "a sharded optimizer keeps the hook that it begins with: name a hook, or leave shard_optimizer "
             "out");
    const HookRow* const hook = catalog_.find_hook(config_.ddp.comm_hook);
    if (!config_.ddp.shard_optimizer || !hook || hook->averages) return;
    refuse(kOptimizer, kHook, "shard_optimizer does not work with comm_hook " + to_text(hook->name),
           hook->name +
               " does not average gradients, and each rank would step its part of the parameters by its own "
               "gradients alone: leave one of the two out");
  }

  void warn(const std::string& key, const std::string& note) {
    diagnostics_.push_back(without_effect(collected_.keys.at(key).back(), note));
  }

  /// Reports an error at the key that was set later, which made the combination.
  void refuse(const std::string& first, const std::string& second, const std::string& message,
              const std::string& note) {
    const Given& one = collected_.keys.at(first).back();
    const Given& other = collected_.keys.at(second).back();
    const auto is_set_at = [&](const std::string& key) {
      const std::string name = key == kStrategy ? "sharding_strategy" : key;
      return name + (key == first ? " is set at " : " at ") + config_.origins.at(key).where;
    };
    diagnostics_.push_back(diagnostic_at((one.order > other.order ? one : other).place, Severity::error,
                                         message, note + "; " + is_set_at(first) + ", " + is_set_at(second)));
  }

  void refuse_with_strategy(const std::string& key, const std::string& what, const std::string& note) {
    refuse(key, kStrategy, what + " does not work with sharding_strategy " + strategy_,
           note + ", or set sharding_strategy = \"no_shard\"");
  }

  const Collected& collected_;
  const Catalog& catalog_;
  const RunConfig& config_;
  std::vector<Diagnostic>& diagnostics_;
  std::string strategy_;
};

}  // namespace

void check_sharding(const Collected& collected, const Catalog& catalog, const RunConfig& config,
                    std::vector<Diagnostic>& diagnostics) {
  ShardingChecks(collected, catalog, config, diagnostics).run();
}

}  // namespace hookline
