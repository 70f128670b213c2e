#include "parallel/choice/hook_in_use.h"

#include <memory>
#include <utility>

#include "hooks/registry/registry.h"
#include "parallel/ddp/between_hosts.h"

namespace hookline {

bool has_scopes(const World& world) {
  return world.device().is_cpu() && world.uses_shared_memory() && !world.uses_nccl() &&
         !world.layout().is_one_host() && world.layout().most_ranks() > 1;
}

void use_setting(World& world, Ddp& ddp, const HookSetting& setting, const BucketParameters& buckets) {
  const Ddp::HookMaker make_hook = [&](const HookContext& context) {
    HookContext own = setting.between_hosts ? ddp.context_between_hosts() : context;
    own.buckets_are_final = true;
    auto hook = Registry::instance().build(setting.hook, setting.wrapper, setting.options, std::move(own));
    if (setting.between_hosts) hook = std::make_unique<BetweenHosts>(world, std::move(hook));
    return hook;
  };
  ddp.exchange_hook(make_hook, buckets);
}

}  // namespace hookline
