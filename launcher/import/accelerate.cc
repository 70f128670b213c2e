// Imports keys and values as accelerate/commands/config/config_args.py writes them.
#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>

#include "config/schema/schema.h"
#include "launcher/import/accelerate_config.h"
#include "launcher/import/launchers.h"

namespace hookline {
namespace {

/// Distributed types other than data parallelism on CPUs or NVIDIA GPUs, and what changes without them.
const std::map<std::string, std::string>& other_types() {
  static const std::map<std::string, std::string> rows = {
      {"MEGATRON_LM", "tensor and pipeline parallelism are Megatron's: every rank holds the whole model"},
      {"TP", "tensors are not split between ranks: every rank holds the whole model"},
      {"XLA", "TPUs need torch_xla: ranks run on CPUs or NVIDIA GPUs"},
      {"TPU", "TPUs need torch_xla: ranks run on CPUs or NVIDIA GPUs"},
      {"MULTI_NPU", "ranks run on CPUs or NVIDIA GPUs, not on NPUs"},
      {"MULTI_MLU", "ranks run on CPUs or NVIDIA GPUs, not on MLUs"},
      {"MULTI_SDAA", "ranks run on CPUs or NVIDIA GPUs, not on SDAA devices"},
      {"MULTI_MUSA", "ranks run on CPUs or NVIDIA GPUs, not on MUSA devices"},
      {"MULTI_XPU", "ranks run on CPUs or NVIDIA GPUs, not on XPUs"},
      {"MULTI_HPU", "ranks run on CPUs or NVIDIA GPUs, not on HPUs"},
      {"MULTI_NEURON", "ranks run on CPUs or NVIDIA GPUs, not on Neuron cores"},
  };
  return rows;
}

const std::map<std::string, std::string>& keys_without_counterpart() {
  static const std::map<std::string, std::string> rows = {
      {"rdzv_backend", "not needed, since all nodes join at rendezvous.main_address"},
      {"same_network", "all nodes must be able to reach rendezvous.main_address"},
      {"main_training_function", "not needed, since the program starts at its own main()"},
      {"downcast_bf16", "applies to TPUs only"},
      {"tpu_env", "applies to TPUs only"},
      {"tpu_name", "applies to TPUs only"},
      {"tpu_zone", "applies to TPUs only"},
      {"tpu_use_cluster", "applies to TPUs only"},
      {"tpu_use_sudo", "applies to TPUs only"},
      {"commands", "applies to TPU pods only"},
      {"command_file", "applies to TPU pods only"},
      {"mixed_precision",
       "the program chooses its precision itself (at::autocast); comm_hook = \"fp16\" or \"bf16\" halves "
       "gradient traffic"},
      {"dynamo_config", "TorchDynamo does not compile C++ programs"},
      {"dynamo_backend", "TorchDynamo does not compile C++ programs"},
      {"megatron_lm_config", "applies to Megatron-LM only"},
      {"parallelism_config", "hookline is data-parallel only"},
      {"ipex_config", "applies to Intel's PyTorch extension for Python only"},
      {"fp8_config", "applies to Transformer Engine for Python only"},
      {"mpirun_config",
       "under mpirun, hookline launch reads the node's rank and the hosts from the environment"},
      {"monitor_interval", "not needed, since the launcher notices at once when a rank exits"},
      {"role", "all ranks have the same role"},
      {"quiet",
       "not needed, since the launcher shows the failing rank's last output, and no stack trace of its own"},
  };
  return rows;
}

/// Keys of Accelerate's that have another name here.
const std::map<std::string, std::string>& renamed() {
  static const std::map<std::string, std::string> rows = {
      {"num_cpu_threads_per_process", "launch.omp_num_threads"},
      {"log_dir", "logging.dir"},
  };
  return rows;
}

/// Keys of fsdp_config that have no counterpart here, and why.
const std::map<std::string, std::string>& fsdp_without_counterpart() {
  static const std::map<std::string, std::string> rows = {
      {"fsdp_auto_wrap_policy", "the program chooses the units: hookline::FsdpUnit<Block>"},
      {"fsdp_transformer_layer_cls_to_wrap", "the program chooses the units: hookline::FsdpUnit<Block>"},
      {"fsdp_min_num_params", "the program chooses the units: hookline::FsdpUnit<Block>"},
      {"fsdp_offload_params", "parameters always stay on the device"},
      {"fsdp_activation_checkpointing", "hookline has no activation checkpointing"},
      {"fsdp_activation_checkpointing_offload", "hookline has no activation checkpointing"},
      {"fsdp_state_dict_type", "checkpoints always hold whole tensors, which any number of ranks can load"},
      {"fsdp_backward_prefetch", "hookline always prefetches the next unit"},
      {"fsdp_backward_prefetch_policy", "hookline always prefetches the next unit"},
      {"fsdp_forward_prefetch", "hookline always prefetches the next unit"},
      {"fsdp_cpu_ram_efficient_loading", "applies to Hugging Face models in Python only"},
      {"fsdp_sync_module_states", "all ranks always start with rank 0's parameters"},
      {"fsdp_use_orig_params",
       "the optimizer always works on the original parameters, each cut to this rank's piece"},
  };
  return rows;
}

/// The first key of hookline, in any table, that has this name; `name` itself if there is none.
std::string key_named(const std::string& name) {
  for (const KeyRow& row : schema())
    if (row.option.name == name) return row.key();
  return name == "comm_state_option" ? kHookOptionTable : name;
}

constexpr const char* kNoMapping = "must be a mapping of keys to values";

class AccelerateConfigReader {
 public:
  AccelerateConfigReader(const AccelerateConfig& config, Imported& result)
      : root_(config.root), flags_(config.flags), unknown_(config.unknown), result_(result) {}

  void read() {
    type();
    ranks();
    fsdp();
    default_stage();
    for (const auto& entry : root_) {
      const std::string key = entry.first.as<std::string>();
      if (!seen_.contains(key)) key_alone(key, entry.second);
    }
  }

 private:
  /// Where a value is from: the flag that has set it, else its line in the file.
  std::string from(const std::string& key, const std::string& text) const {
    const auto flag = flags_.find(key);
    return flag == flags_.end() ? key + ": " + text : flag->second;
  }

  std::optional<std::string> value(const std::string& key) {
    seen_.insert(key);
    const YAML::Node node = root_[key];
    return node && !is_nothing(node) ? std::optional(text_of(node)) : std::nullopt;
  }

  std::optional<std::int64_t> number(const std::string& key) {
    const auto text = value(key);
    if (!text) return std::nullopt;
    try {
      return root_[key].as<std::int64_t>();
    } catch (const YAML::Exception&) {
      throw ImportError(name_of(key) + ": must be an integer, not '" + *text + "'");
    }
  }

  bool is_true(const std::string& key) const {
    const auto boolean = boolean_of(root_[key]);
    if (!boolean)
      throw ImportError(name_of(key) + ": '" + text_of(root_[key]) +
                        "' is neither true nor false: write one of the two");
    return *boolean;
  }

  /// "--num_machines" if a flag set the key, else the key itself.
  std::string name_of(const std::string& key) const { return flags_.contains(key) ? "--" + key : key; }

  void carry(const std::string& key, const std::string& to, const std::string& from) {
    result_.carry(key, to, from);
  }

  void type() {
    const std::string environment = value("compute_environment").value_or("LOCAL_MACHINE");
    if (environment != "LOCAL_MACHINE")
      result_.leave_out("compute_environment: " + environment,
                        "hookline launch runs on the hosts where you start it; hookline submit starts it in "
                        "a scheduler's job");
    const std::string type = value("distributed_type").value_or("NO");
    const bool wants_cpu = value("use_cpu") && is_true("use_cpu");
    if (type == "MULTI_CPU" || wants_cpu) {
      carry(
          "launch.device", "cpu",
          type == "MULTI_CPU" ? from("distributed_type", type) : from("use_cpu", text_of(root_["use_cpu"])));
    } else if (const auto other = other_types().find(type); other != other_types().end()) {
      result_.leave_out(from("distributed_type", type), other->second);
    } else if (type != "MULTI_GPU" && type != "NO" && type != "FSDP" && type != "DEEPSPEED") {
      throw ImportError("distributed_type: '" + type + "' is not a type that Accelerate has");
    }
  }

  /// Accelerate counts processes of all machines together.
  void ranks() {
    const std::int64_t machines = number("num_machines").value_or(1);
    const auto processes = number("num_processes");
    const auto rank = value("machine_rank"), address = value("main_process_ip"),
               port = value("main_process_port");
    if (machines < 1) throw ImportError(name_of("num_machines") + ": must be at least 1");
    const bool is_unknown = unknown_.contains("num_machines");
    if (machines > 1 || is_unknown) {
      if (!is_unknown)
        carry("launch.nnodes", std::to_string(machines), from("num_machines", std::to_string(machines)));
      if (rank)
        result_.leave_out(from("machine_rank", *rank),
                          "all nodes share one config, and their ranks follow the order in which they join: "
                          "to choose this node's, launch with --set launch.node_rank=" +
                              *rank);
      if (address)
        carry("rendezvous.main_address", without_brackets(*address), from("main_process_ip", *address));
      if (port == "0")
        result_.leave_out(from("main_process_port", "0"),
                          "all hosts must know the port: set rendezvous.main_port");
      else if (port)
        carry("rendezvous.main_port", *port, from("main_process_port", *port));
    } else {
      constexpr const char* kOneHost = "a run on one host needs neither an address nor a port";
      if (address) result_.leave_out(from("main_process_ip", *address), kOneHost);
      if (port) result_.leave_out(from("main_process_port", *port), kOneHost);
      if (rank && *rank != "0")
        result_.leave_out(from("machine_rank", *rank), "a run on one host has one node");
    }
    if (processes && is_unknown)
      result_.leave_out(from("num_processes", std::to_string(*processes)),
                        "it counts the ranks of all hosts, and only a shell knows how many hosts there are: "
                        "launch with --set launch.processes_per_node=N");
    else if (processes)
      ranks_of_all(*processes, machines);
  }

  void ranks_of_all(std::int64_t processes, std::int64_t machines) {
    const std::string origin = from("num_processes", std::to_string(processes));
    if (processes == -1) {
      result_.leave_out(origin, "is a placeholder: set launch.processes_per_node");
    } else if (processes < 1) {
      throw ImportError(name_of("num_processes") + ": must be at least 1");
    } else if (processes % machines != 0) {
      result_.leave_out(
          origin,
          std::to_string(machines) +
              " hosts can't share them equally: on each, launch with --set launch.processes_per_node=N");
    } else {
      carry("launch.processes_per_node", std::to_string(processes / machines),
            origin + (machines > 1 ? " on " + std::to_string(machines) + " machines" : ""));
    }
  }

  void key_alone(const std::string& key, const YAML::Node& node) {
    if (is_nothing(node)) return;
    const std::string text = text_of(node);
    const std::string origin = from(key, text);
    const auto without = keys_without_counterpart().find(key);
    if (key == "enable_cpu_affinity") {
      if (is_true(key)) carry("launch.binding", "numa", origin);
    } else if (key == "debug") {
      if (is_true(key)) carry("logging.level", "debug", origin);
    } else if (key == "gpu_ids") {
      if (text == "all") return;
      result_.leave_out(origin, "launch with CUDA_VISIBLE_DEVICES=" + text);
      result_.environment.emplace_back("CUDA_VISIBLE_DEVICES", text);
    } else if ((key == "deepspeed_config" || key == "ddp_kwargs" || key == "ddp_config") && !node.IsMap()) {
      result_.leave_out(origin, kNoMapping);
    } else if (key == "deepspeed_config") {
      deepspeed(node);
    } else if (without != keys_without_counterpart().end()) {
      const bool is_large = node.IsMap() || node.IsSequence();
      if (!is_off(node)) result_.leave_out(is_large ? key : origin, without->second);
    } else if (key == "ddp_kwargs" || key == "ddp_config") {
      for (const auto& entry : node) {  // users add this part themselves, with hookline's names
        const std::string option = entry.first.as<std::string>();
        own("ddp." + option, entry.second, key + "." + option);
      }
    } else {
      const auto other = renamed().find(key);
      own(other == renamed().end() ? key_named(key) : other->second, node, key);
    }
  }

  void own(const std::string& key, const YAML::Node& node, const std::string& name) {
    const auto flag = flags_.find(name);
    if (take_own_key(key, node, name, flag == flags_.end() ? "" : flag->second, result_)) return;
    result_.leave_out(node.IsScalar() ? from(name, text_of(node)) : name, "hookline has no such key");
  }

  /// Version 1 names a strategy, in fsdp_sharding_strategy or, later, in fsdp_reshard_after_forward. In
  /// version 2 the latter is a boolean, and the former has no effect.
  void fsdp() {
    const YAML::Node config = root_["fsdp_config"];
    seen_.insert("fsdp_config");
    if (config && !config.IsMap() && !is_nothing(config))
      result_.leave_out("fsdp_config: " + text_of(config), kNoMapping);
    const bool is_given = config && config.IsMap() && config.size() > 0;
    if (value("distributed_type") != "FSDP") {
      if (is_given) without_fsdp(config);
      return;
    }
    static const std::map<std::string, std::string> strategies = {{"FULL_SHARD", "full_shard"},
                                                                  {"1", "full_shard"},
                                                                  {"true", "full_shard"},
                                                                  {"SHARD_GRAD_OP", "shard_grad_op"},
                                                                  {"2", "shard_grad_op"},
                                                                  {"false", "shard_grad_op"},
                                                                  {"NO_SHARD", "no_shard"},
                                                                  {"3", "no_shard"},
                                                                  {"NO_RESHARD", "shard_grad_op"},
                                                                  {"full_shard", "full_shard"},
                                                                  {"shard_grad_op", "shard_grad_op"},
                                                                  {"no_shard", "no_shard"}};
    std::string strategy = "full_shard", origin = from("distributed_type", "FSDP");
    if (!is_given) return carry("fsdp.sharding_strategy", strategy, origin);
    const bool is_second = config["fsdp_version"] && text_of(config["fsdp_version"]) == "2";
    for (const auto& entry : config) {
      const std::string key = entry.first.as<std::string>(), text = text_of(entry.second);
      const std::string here = from("fsdp_config." + key, text);
      const auto without = fsdp_without_counterpart().find(key);
      if (key == "fsdp_version" || is_nothing(entry.second)) continue;
      if (key == "fsdp_sharding_strategy" && is_second) {
        result_.leave_out(here, "has no effect in FSDP version 2, which uses fsdp_reshard_after_forward");
      } else if (key == "fsdp_sharding_strategy" || key == "fsdp_reshard_after_forward" ||
                 key == "sharding_strategy") {
        const auto known = strategies.find(value_of(entry.second));
        if (known == strategies.end()) {
          result_.leave_out(here, "a model is sharded over all ranks, or not at all");
        } else {
          strategy = known->second;
          origin = here;
        }
      } else if (without == fsdp_without_counterpart().end()) {
        own("fsdp." + key, entry.second, "fsdp_config." + key);
      } else if (!is_off(entry.second) && text != "NO_WRAP") {
        result_.leave_out(here, without->second);
      }
    }
    carry("fsdp.sharding_strategy", strategy, origin);
  }

  /// Without FSDP these keys have no effect, in Accelerate either.
  void without_fsdp(const YAML::Node& config) {
    constexpr const char* kNoEffect = "has no effect unless distributed_type is FSDP";
    bool has_others = false;
    for (const auto& entry : config) {
      const auto flag = flags_.find("fsdp_config." + entry.first.as<std::string>());
      if (flag == flags_.end())
        has_others = true;
      else
        result_.leave_out(flag->second, kNoEffect);
    }
    if (has_others) result_.leave_out("fsdp_config", kNoEffect);
  }

  /// Accelerate uses stage 2 unless another one is named.
  void default_stage() {
    const YAML::Node config = root_["deepspeed_config"];
    const bool is_named =
        config && config.IsMap() && (config["zero_stage"] || config["deepspeed_config_file"]);
    if (value("distributed_type") == "DEEPSPEED" && !is_named)
      carry("fsdp.sharding_strategy", "shard_grad_op",
            from("distributed_type", "DEEPSPEED") + " (stage 2, the default)");
  }

  void deepspeed(const YAML::Node& config) {
    const bool is_on = value("distributed_type") == "DEEPSPEED";
    for (const auto& entry : config) {
      const std::string key = entry.first.as<std::string>(), text = text_of(entry.second);
      const std::string origin = from("deepspeed_config." + key, text);
      const bool is_absent = text == "none" || is_off(entry.second) || is_nothing(entry.second);
      if (key == "gradient_accumulation_steps" && text != "auto")
        carry("training.gradient_accumulation_steps", text, origin);
      else if (key == "zero_stage" && is_on && text == "1")
        carry("ddp.shard_optimizer", "true", origin);
      else if (key == "zero_stage" && is_on && (text == "2" || text == "3"))
        carry("fsdp.sharding_strategy", text == "3" ? "full_shard" : "shard_grad_op", origin);
      else if (key == "zero_stage" && is_on && text == "0")
        carry("fsdp.sharding_strategy", "no_shard", origin);
      else if (key == "zero_stage" && !is_on)
        result_.leave_out(origin, "has no effect unless distributed_type is DEEPSPEED");
      else if (key == "deepspeed_hostfile")
        result_.leave_out(origin, "import it separately: hookline config import " + text);
      else if (key == "deepspeed_config_file")
        result_.leave_out(origin,
                          "hookline does not read DeepSpeed's files: for zero_optimization.stage 1, set "
                          "ddp.shard_optimizer; for 2 and 3, set fsdp.sharding_strategy");
      else if (key == "gradient_clipping")
        result_.leave_out(origin, "the program clips gradients itself: accelerator.clip_grad_norm");
      else if (!is_absent)
        result_.leave_out(origin, "applies to DeepSpeed only");
    }
  }

  const YAML::Node& root_;
  const std::map<std::string, std::string>& flags_;
  const std::set<std::string>& unknown_;
  Imported& result_;
  std::set<std::string> seen_;
};

}  // namespace

void take_accelerate_config(const AccelerateConfig& config, Imported& result) {
  explaining_yaml_errors([&] { AccelerateConfigReader(config, result).read(); });
}

Imported import_accelerate(const std::string& text) {
  Imported result;
  result.kind = "Accelerate's config";
  take_accelerate_config({accelerate_yaml(text), {}, {}}, result);
  return result;
}

}  // namespace hookline
