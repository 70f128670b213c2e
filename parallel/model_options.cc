#include "parallel/model_options.h"

#include <string>

namespace hookline {

DdpOptions ddp_options_of(const RunConfig& config, std::size_t model) {
  const DdpConfig& ddp = config.ddp;
  DdpOptions options;
  options.broadcast_buffers = ddp.broadcast_buffers;
  options.bucket_limits = BucketLimits::from(ddp.bucket_cap_mb);
  options.find_unused_parameters = ddp.find_unused_parameters;
  options.gradient_as_bucket_view = ddp.gradient_as_bucket_view;
  options.static_graph = ddp.static_graph;
  options.hook_between_hosts = ddp.comm_scope == "between_hosts";
  options.record_gradients = config.training.record_gradients;
  options.record_gradients_steps = config.training.record_gradients_steps;
  // Otherwise a second model's files would have the names of the first one's.
  if (!options.record_gradients.empty() && model > 0)
    options.record_gradients /= "model" + std::to_string(model);
  return options;
}

FsdpOptions fsdp_options_of(const FsdpConfig& config) {
  FsdpOptions options;
  options.reshard_after_forward = config.sharding_strategy == "full_shard";
  if (config.comm_hook != "no") options.wire = config.comm_hook == "fp16" ? at::kHalf : at::kBFloat16;
  return options;
}

}  // namespace hookline
