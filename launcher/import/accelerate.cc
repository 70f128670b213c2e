// Keys and values as accelerate/commands/config/config_args.py writes them.
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>

#include "config/schema.h"
#include "launcher/import/imported.h"

namespace hookline {
namespace {

/// Types that are not data-parallel over CPUs or NVIDIA GPUs, and what is left of them.
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
      {"rdzv_backend", "hosts meet in one way: at the store of main_address"},
      {"same_network", "main_address is what all hosts reach"},
      {"main_training_function", "a program's main() is its own"},
      {"downcast_bf16", "is of TPUs"},
      {"tpu_env", "is of TPUs"},
      {"tpu_name", "is of TPUs"},
      {"tpu_zone", "is of TPUs"},
      {"tpu_use_cluster", "is of TPUs"},
      {"tpu_use_sudo", "is of TPUs"},
      {"commands", "is of TPU pods"},
      {"command_file", "is of TPU pods"},
      {"mixed_precision",
       "the program casts by itself (at::autocast); comm_hook = \"fp16\" or \"bf16\" halves what is sent"},
      {"dynamo_config", "C++ programs are not compiled by TorchDynamo"},
      {"dynamo_backend", "C++ programs are not compiled by TorchDynamo"},
      {"megatron_lm_config", "is Megatron's"},
      {"parallelism_config", "ranks are data-parallel"},
      {"ipex_config", "is Intel's extension of PyTorch in Python"},
      {"fp8_config", "is of Transformer Engine in Python"},
      {"mpirun_config", "under mpirun, hookline launch reads who and where from the environment"},
  };
  return rows;
}

/// What of fsdp_config has no key here, and why.
const std::map<std::string, std::string>& fsdp_without_counterpart() {
  static const std::map<std::string, std::string> rows = {
      {"fsdp_auto_wrap_policy", "units are chosen in the program: hookline::FsdpUnit<Block>"},
      {"fsdp_transformer_layer_cls_to_wrap", "units are chosen in the program: hookline::FsdpUnit<Block>"},
      {"fsdp_min_num_params", "units are chosen in the program: hookline::FsdpUnit<Block>"},
      {"fsdp_offload_params", "pieces of parameters stay on the device"},
      {"fsdp_activation_checkpointing", "activations are kept"},
      {"fsdp_state_dict_type", "checkpoints hold whole tensors, for any number of ranks"},
  };
  return rows;
}

std::string text_of(const YAML::Node& node) { return node.IsScalar() ? node.Scalar() : YAML::Dump(node); }

/// As TOML writes what Python does.
std::string value_of(const YAML::Node& node) {
  const std::string text = text_of(node);
  return text == "True" ? "true" : text == "False" ? "false" : text;
}

bool is_nothing(const YAML::Node& node) {
  return node.IsNull() || ((node.IsMap() || node.IsSequence()) && node.size() == 0) ||
         (node.IsScalar() && (node.Scalar().empty() || node.Scalar() == "null"));
}

bool is_true(const YAML::Node& node) {
  const std::string text = node.Scalar();
  return text == "true" || text == "True" || text == "yes";
}

/// The first key of hookline's that is called so, in any table.
std::optional<std::string> key_named(const std::string& name) {
  for (const KeyRow& row : schema())
    if (row.option.name == name) return row.key();
  return std::nullopt;
}

class Reader {
 public:
  explicit Reader(const YAML::Node& root) : root_(root) { result_.kind = "Accelerate's config"; }

  Imported read() {
    type();
    ranks();
    fsdp();
    for (const auto& entry : root_) {
      const std::string key = entry.first.as<std::string>();
      if (!seen_.contains(key)) key_alone(key, entry.second);
    }
    return std::move(result_);
  }

 private:
  std::optional<std::string> value(const std::string& key) {
    seen_.insert(key);
    const YAML::Node node = root_[key];
    return node && !is_nothing(node) ? std::optional(text_of(node)) : std::nullopt;
  }

  std::int64_t number(const std::string& key, std::int64_t otherwise) {
    const auto text = value(key);
    if (!text) return otherwise;
    try {
      return root_[key].as<std::int64_t>();
    } catch (const YAML::Exception&) {
      throw ImportError(key + ": '" + *text + "' is not a number");
    }
  }

  void carry(const std::string& key, const std::string& to, const std::string& from) {
    result_.carry(key, to, from);
  }

  void type() {
    const std::string environment = value("compute_environment").value_or("LOCAL_MACHINE");
    if (environment != "LOCAL_MACHINE")
      result_.leave_out("compute_environment: " + environment,
                        "hookline runs where it is started, or by hookline submit");
    const std::string type = value("distributed_type").value_or("NO");
    const bool wants_cpu = value("use_cpu") && is_true(root_["use_cpu"]);
    if (type == "MULTI_CPU" || wants_cpu) {
      carry("launch.device", "cpu", type == "MULTI_CPU" ? "distributed_type: MULTI_CPU" : "use_cpu: true");
    } else if (const auto other = other_types().find(type); other != other_types().end()) {
      result_.leave_out("distributed_type: " + type, other->second);
    } else if (type != "MULTI_GPU" && type != "NO" && type != "FSDP" && type != "DEEPSPEED") {
      throw ImportError("distributed_type: '" + type + "' is none that Accelerate has");
    }
  }

  /// Accelerate counts processes of all machines together.
  void ranks() {
    const std::int64_t machines = number("num_machines", 1), processes = number("num_processes", 1);
    const auto rank = value("machine_rank");
    if (machines < 1) throw ImportError("num_machines: must be at least 1");
    if (machines > 1) {
      carry("launch.nnodes", std::to_string(machines), "num_machines: " + std::to_string(machines));
      if (rank)
        result_.leave_out(
            "machine_rank: " + *rank,
            "one file is for all hosts, which are counted as they come; or --set launch.node_rank=" + *rank);
      if (const auto address = value("main_process_ip"))
        carry("rendezvous.main_address", *address, "main_process_ip: " + *address);
      if (const auto port = value("main_process_port"))
        carry("rendezvous.main_port", *port, "main_process_port: " + *port);
    } else {
      seen_.insert({"main_process_ip", "main_process_port"});
    }
    const std::string from = "num_processes: " + std::to_string(processes);
    if (processes % machines != 0) {
      result_.leave_out(from, std::to_string(machines) +
                                  " hosts can't have equal parts of them: set "
                                  "launch.processes_per_node on each");
    } else {
      carry("launch.processes_per_node", std::to_string(processes / machines),
            from + (machines > 1 ? ", on " + std::to_string(machines) + " machines" : ""));
    }
  }

  void key_alone(const std::string& key, const YAML::Node& node) {
    if (is_nothing(node)) return;
    const std::string text = text_of(node);
    const std::string from = key + ": " + text;
    const auto without = keys_without_counterpart().find(key);
    if (key == "enable_cpu_affinity") {
      if (is_true(node)) carry("launch.binding", "numa", from);
    } else if (key == "debug") {
      if (is_true(node)) carry("logging.level", "debug", from);
    } else if (key == "gpu_ids") {
      if (text != "all") result_.leave_out(from, "start with CUDA_VISIBLE_DEVICES=" + text);
    } else if (key == "mixed_precision" && text == "no") {
      return;
    } else if (key == "deepspeed_config") {
      deepspeed(node);
    } else if (without != keys_without_counterpart().end()) {
      const bool is_large = node.IsMap() || node.IsSequence();
      const bool is_off = node.IsScalar() && (text == "no" || text == "false" || text == "False");
      if (!is_off) result_.leave_out(is_large ? key : from, without->second);
    } else if (node.IsMap() && (key == "ddp_kwargs" || key == "ddp_config")) {
      for (const auto& entry : node) ddp(key, entry.first.as<std::string>(), entry.second);
    } else if (const auto to = key_named(key); to && node.IsScalar()) {
      carry(*to, value_of(node), from);
    } else {
      result_.leave_out(node.IsScalar() ? from : key, "hookline knows no such key");
    }
  }

  /// What a user's own part of the file gives DistributedDataParallelKwargs, which has hookline's names.
  void ddp(const std::string& table, const std::string& key, const YAML::Node& node) {
    if (is_nothing(node)) return;
    const std::string name = table + "." + key;
    if (key == "comm_state_option" && node.IsMap()) {
      for (const auto& entry : node) {
        const std::string option = entry.first.as<std::string>();
        carry("ddp.comm_state_option." + option, value_of(entry.second),
              name + "." + option + ": " + text_of(entry.second));
      }
      return;
    }
    std::string text = value_of(node);
    const std::string from = name + ": " + text_of(node);
    if (key == "comm_hook" || key == "comm_wrapper") {
      text = text.substr(text.rfind('.') + 1);  // DDPCommunicationHookType.POWER_SGD
      std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
    }
    if (key_named(key) == "ddp." + key && node.IsScalar()) {
      carry("ddp." + key, text, from);
    } else {
      result_.leave_out(node.IsScalar() ? from : name, "hookline knows no such key");
    }
  }

  /// Version 1 names a strategy, as fsdp_sharding_strategy or, later, as fsdp_reshard_after_forward; version 2 has a flag there,
  /// and whatever is left of the other has no meaning.
  void fsdp() {
    const YAML::Node config = root_["fsdp_config"];
    seen_.insert("fsdp_config");
    if (value("distributed_type") != "FSDP") return;
    static const std::map<std::string, std::string> strategies = {
        {"FULL_SHARD", "full_shard"},       {"1", "full_shard"},    {"true", "full_shard"},
        {"SHARD_GRAD_OP", "shard_grad_op"}, {"2", "shard_grad_op"}, {"false", "shard_grad_op"},
        {"NO_SHARD", "no_shard"},           {"3", "no_shard"}};
    std::string strategy = "full_shard", from = "distributed_type: FSDP";
    const bool is_second =
        config && config.IsMap() && config["fsdp_version"] && text_of(config["fsdp_version"]) == "2";
    if (config && config.IsMap()) {
      for (const auto& entry : config) {
        const std::string key = entry.first.as<std::string>(), text = text_of(entry.second);
        const std::string here = "fsdp_config." + key + ": " + text;
        const auto without = fsdp_without_counterpart().find(key);
        if ((key == "fsdp_sharding_strategy" && !is_second) || key == "fsdp_reshard_after_forward") {
          const auto known = strategies.find(text == "True" ? "true" : text == "False" ? "false" : text);
          if (known == strategies.end()) {
            result_.leave_out(here, "a model is sharded over all ranks, or not at all");
          } else {
            strategy = known->second;
            from = here;
          }
        } else if (without != fsdp_without_counterpart().end() && text != "false" && text != "False" &&
                   text != "NO_WRAP") {
          result_.leave_out(here, without->second);
        }
      }
    }
    carry("fsdp.sharding_strategy", strategy, from);
  }

  void deepspeed(const YAML::Node& config) {
    for (const auto& entry : config) {
      const std::string key = entry.first.as<std::string>(), text = text_of(entry.second);
      const std::string from = "deepspeed_config." + key + ": " + text;
      if (key == "gradient_accumulation_steps" && text != "auto")
        carry("training.gradient_accumulation_steps", text, from);
      else if (key == "zero_stage" && value("distributed_type") == "DEEPSPEED" &&
               (text == "1" || text == "2" || text == "3"))
        carry("fsdp.sharding_strategy", text == "3" ? "full_shard" : "shard_grad_op", from);
      else if (key == "deepspeed_hostfile")
        result_.leave_out(from, "import it by itself: hookline config import " + text);
      else
        result_.leave_out(from, "is DeepSpeed's");
    }
  }

  const YAML::Node& root_;
  Imported result_;
  std::set<std::string> seen_;
};

}  // namespace

Imported import_accelerate(const std::string& text) {
  YAML::Node root;
  try {
    root = YAML::Load(text);
  } catch (const YAML::Exception& error) {
    throw ImportError("line " + std::to_string(error.mark.line + 1) + ": not valid YAML: " + error.msg);
  }
  if (!root.IsMap())
    throw ImportError("it is no config of Accelerate's, which is a mapping of keys to values");
  return Reader(root).read();
}

}  // namespace hookline
