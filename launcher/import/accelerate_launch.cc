// Imports flags as accelerate/commands/launch.py defines them, over the config file that --config_file names.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>

#include "base/folder_access.h"
#include "base/regular_file.h"
#include "base/text/list_text.h"
#include "launcher/import/accelerate_config.h"
#include "launcher/import/launchers.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

constexpr const char* kTpu = "applies to TPUs only";
constexpr const char* kAws =
    "hookline launch runs on the hosts where you start it; hookline submit starts it in a scheduler's job";

/// Flags that choose the kind of run, and what the config file calls it.
const std::map<std::string, std::string>& types() {
  static const std::map<std::string, std::string> rows = {{"multi_gpu", "MULTI_GPU"},
                                                          {"tpu", "XLA"},
                                                          {"use_deepspeed", "DEEPSPEED"},
                                                          {"use_fsdp", "FSDP"},
                                                          {"use_megatron_lm", "MEGATRON_LM"}};
  return rows;
}

const std::map<std::string, std::string>& reasons() {
  static const std::map<std::string, std::string> rows = {
      {"ipex", "applies to Intel's PyTorch extension for Python only"},
      {"use_xpu", "ranks run on CPUs or NVIDIA GPUs, not on XPUs"},
      {"use_mps_device", "ranks run on CPUs or NVIDIA GPUs, not on Apple GPUs"},
      {"use_parallelism_config", "hookline is data-parallel only"},
      {"tpu_cluster", kTpu},
      {"no_tpu_cluster", kTpu},
      {"tpu_use_sudo", kTpu},
      {"vm", kTpu},
      {"env", kTpu},
      {"downcast_bf16", kTpu},
      {"aws_access_key_id", kAws},
      {"aws_secret_access_key", kAws},
      {"mpirun_hostfile",
       "under mpirun, hookline launch reads the node's rank and the hosts from the environment"},
  };
  return rows;
}

/// Why a flag with such a prefix is left out.
const std::map<std::string, std::string>& reasons_of_groups() {
  static const std::map<std::string, std::string> rows = {
      {"dynamo_", "TorchDynamo does not compile C++ programs"},
      {"fp8_", "applies to Transformer Engine for Python only"},
      {"megatron_lm_", "applies to Megatron-LM only"},
      {"parallelism_config_", "hookline is data-parallel only"},
  };
  return rows;
}

/// Is it a flag whose key the config file has in deepspeed_config?
bool is_of_deepspeed(const std::string& name) {
  static const std::set<std::string> names = {"zero_stage",
                                              "offload_optimizer_device",
                                              "offload_param_device",
                                              "offload_optimizer_nvme_path",
                                              "offload_param_nvme_path",
                                              "gradient_accumulation_steps",
                                              "gradient_clipping",
                                              "zero3_init_flag",
                                              "zero3_save_16bit_model"};
  return names.contains(name) || name.starts_with("deepspeed_");
}

const FlagTable& accelerate_flags() {
  static const FlagTable flags = [] {
    FlagTable made;
    made.dash = '_';
    made.short_names = {{'m', "module"}, {'q', "quiet"}, {'t', "tee"}, {'h', "help"}};
    made.switches = {"help",
                     "quiet",
                     "cpu",
                     "multi_gpu",
                     "tpu",
                     "ipex",
                     "use_xpu",
                     "use_mps_device",
                     "use_deepspeed",
                     "use_fsdp",
                     "use_megatron_lm",
                     "use_parallelism_config",
                     "same_network",
                     "module",
                     "no_python",
                     "debug",
                     "tpu_cluster",
                     "no_tpu_cluster",
                     "tpu_use_sudo",
                     "downcast_bf16",
                     "enable_cpu_affinity",
                     "dynamo_use_fullgraph",
                     "dynamo_use_dynamic",
                     "dynamo_use_regional_compilation",
                     "fp8_use_autocast_during_eval",
                     "fp16"};
    made.valued = {"config_file",
                   "num_processes",
                   "num_machines",
                   "machine_rank",
                   "main_process_ip",
                   "main_process_port",
                   "mixed_precision",
                   "gpu_ids",
                   "num_cpu_threads_per_process",
                   "tee",
                   "log_dir",
                   "role",
                   "rdzv_backend",
                   "rdzv_conf",
                   "max_restarts",
                   "monitor_interval",
                   "main_training_function",
                   "zero_stage",
                   "offload_optimizer_device",
                   "offload_param_device",
                   "offload_optimizer_nvme_path",
                   "offload_param_nvme_path",
                   "gradient_accumulation_steps",
                   "gradient_clipping",
                   "zero3_init_flag",
                   "zero3_save_16bit_model"};
    for (const auto& [name, unused] : reasons())
      if (!made.switches.contains(name)) made.valued.insert(name);
    return made;
  }();
  return flags;
}

/// Accelerate's flags and the line's flags of known groups. A flag of a group takes a value unless it is a
/// known switch.
FlagTable with_groups(const LaunchLine& line) {
  FlagTable flags = accelerate_flags();
  for (const ShellWord& word : line.arguments) {
    if (!word.text.starts_with("--")) continue;
    std::string name = word.text.substr(2, word.text.find('=') - 2);
    std::replace(name.begin(), name.end(), '-', '_');
    for (const char* group :
         {"fsdp_", "deepspeed_", "dynamo_", "fp8_", "megatron_lm_", "parallelism_config_"})
      if (name.starts_with(group) && !flags.switches.contains(name)) flags.valued.insert(name);
  }
  return flags;
}

/// The key that a flag of one value becomes.
std::string key_of(const std::string& name) {
  static const std::map<std::string, std::string> keys = {
      {"num_machines", "launch.nnodes"},
      {"num_processes", "launch.processes_per_node"},
      {"main_process_ip", "rendezvous.main_address"},
      {"main_process_port", "rendezvous.main_port"},
      {"max_restarts", "launch.max_restarts"},
      {"log_dir", "logging.dir"},
      {"num_cpu_threads_per_process", "launch.omp_num_threads"},
      {"rdzv_conf", "launch.join_timeout_seconds"},
      {"gradient_accumulation_steps", "training.gradient_accumulation_steps"},
  };
  const auto key = keys.find(name);
  return key == keys.end() ? "" : key->second;
}

class AccelerateLaunchReader {
 public:
  explicit AccelerateLaunchReader(const fs::path& script) : script_(script) {
    result_.kind = "a command line of accelerate launch";
    config_.root = YAML::Node(YAML::NodeType::Map);
  }

  Imported read(const LaunchLine& line) {
    const LaunchArguments arguments = split_arguments(line, with_groups(line), result_);
    for (const LaunchFlag& flag : arguments.flags)
      if (flag.name == "config_file") read_config(flag);
    const bool is_on_cpu = std::any_of(arguments.flags.begin(), arguments.flags.end(),
                                       [](const LaunchFlag& flag) { return flag.name == "cpu"; });
    if (config_file_.empty() && !is_on_cpu) tell_of_default_config();
    take_surroundings(line, settings(), result_);
    for (const LaunchFlag& flag : arguments.flags) take(flag);
    check_type();
    if (is_module_ && no_python_) throw ImportError("--module and --no_python can't be used together");
    if (!is_on_cpu || !config_.root["distributed_type"])
      take_accelerate_config(config_, result_);
    else
      on_cpu();
    take_streams({}, tee_, result_);
    take_program(arguments.program, is_module_, result_);
    tell_of_defaults(line, arguments, key_of, result_);
    return std::move(result_);
  }

 private:
  void read_config(const LaunchFlag& flag) {
    if (flag.is_open)
      throw ImportError(flag.from +
                        " names a file by what only a shell knows: write the file's name into the script, or "
                        "import the file separately");
    fs::path file = flag.value;
    auto in = std::make_unique<InputFile>(file, kLargestImportBytes);
    if (in->problem() == FileProblem::missing && file.is_relative() && script_.has_parent_path()) {
      file = script_.parent_path() / file;
      in = std::make_unique<InputFile>(file, kLargestImportBytes);
    }
    if (in->problem() == FileProblem::missing)
      throw ImportError(flag.from +
                        " names a file that is neither in this folder nor in the script's: run this in the "
                        "folder of that file, or remove the flag from the script");
    if (const std::string access = access_problem(file); !access.empty())
      throw ImportError(flag.from + ": " + access);
    const std::string text = in->read_all();
    if (in->problem() != FileProblem::none)
      throw ImportError(flag.from + ": '" + file.string() + "' can't be read: " + in->why());
    if (text.empty()) throw ImportError(flag.from + ": '" + file.string() + "' is empty");
    try {
      config_.root = accelerate_yaml(text);
    } catch (const ImportError& problem) {
      throw ImportError("in '" + file.string() + "', " + problem.what());
    }
    config_file_ = file.string();
    result_.kind += ", over the config '" + config_file_ + "'";
  }

  /// Mentions the file that `accelerate config` writes and that `accelerate launch` reads without
  /// --config_file.
  void tell_of_default_config() {
    const auto variable = [](const char* name) -> std::string {
      const char* const value = std::getenv(name);
      return value ? value : "";
    };
    fs::path home = variable("HF_HOME");
    if (home.empty() && !variable("XDG_CACHE_HOME").empty())
      home = fs::path(variable("XDG_CACHE_HOME")) / "huggingface";
    if (home.empty()) home = fs::path(variable("HOME")) / ".cache" / "huggingface";
    for (const char* name : {"default_config.yaml", "default_config.json"}) {
      const fs::path file = home / "accelerate" / name;
      std::error_code error;
      if (!fs::exists(file, error)) continue;
      result_.leave_out(file.string(),
                        "accelerate launch reads this file when the command names none: to import it too, "
                        "add --config_file=" +
                            file.string() + " to the script's command");
      return;
    }
  }

  static std::string in_small_letters(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
  }

  /// Variables that Accelerate reads in the program, and what each of them sets.
  std::map<std::string, std::function<void(const LaunchFlag&)>> settings() {
    std::map<std::string, std::function<void(const LaunchFlag&)>> known;
    const auto is_true = [this](const LaunchFlag& set) {  // like accelerate.utils.str_to_bool
      static const std::set<std::string> kTrue = {"y", "yes", "t", "true", "on", "1"};
      static const std::set<std::string> kFalse = {"n", "no", "f", "false", "off", "0"};
      const std::string text = in_small_letters(set.value);
      if (!kTrue.contains(text) && !kFalse.contains(text))
        result_.leave_out(set.from, "is neither true nor false: write one of the two");
      return kTrue.contains(text);
    };
    known["ACCELERATE_GRADIENT_ACCUMULATION_STEPS"] = [this](const LaunchFlag& set) {
      result_.carry("training.gradient_accumulation_steps", set.value, set.from);
    };
    known["ACCELERATE_LOG_LEVEL"] = [this](const LaunchFlag& set) {
      const std::string level = in_small_letters(set.value);
      result_.carry("logging.level", level == "critical" ? "error" : level, set.from);
    };
    known["ACCELERATE_DEBUG_MODE"] = [this, is_true](const LaunchFlag& set) {
      if (is_true(set)) result_.carry("logging.level", "debug", set.from);
    };
    known["ACCELERATE_USE_CPU"] = [this, is_true](const LaunchFlag& set) {
      if (is_true(set)) result_.carry("launch.device", "cpu", set.from);
    };
    known["ACCELERATE_CPU_AFFINITY"] = [this, is_true](const LaunchFlag& set) {
      if (is_true(set)) result_.carry("launch.binding", "numa", set.from);
    };
    known["ACCELERATE_MIXED_PRECISION"] = [this](const LaunchFlag& set) {
      result_.leave_out(set.from, "the program chooses its precision itself (at::autocast)");
    };
    return known;
  }

  void take(const LaunchFlag& flag) {
    const std::string& name = flag.name;
    if (name == "config_file" || name == "help") return;
    if (name == "module" || name == "no_python") {  // shows in the program's command
      (name == "module" ? is_module_ : no_python_) = true;
    } else if (name == "tee") {
      tee_ = flag;
    } else if (flag.is_open && name != "machine_rank") {
      const std::string key = key_of(name);
      const auto reason = reasons().find(name);
      result_.leave_out(flag.from,
                        !key.empty() ? only_a_shell_knows(key)
                        : reason != reasons().end()
                            ? reason->second
                            : "only a shell knows its value: write it into the script, and import it again");
      config_.unknown.insert(name);
      tell_if_overridden(name, config_.root[name], flag.value, flag);
      config_.root.remove(name);
    } else if (const auto type = types().find(name); type != types().end()) {
      type_flags_.push_back(flag.from);
      set("distributed_type", type->second, flag);
      if (name == "multi_gpu")
        result_.leave_out(
            flag.from,
            "not needed, since launch.device = \"auto\" gives each rank a GPU if the host has any");
    } else if (name == "cpu") {
      type_flags_.push_back(flag.from);
      set("use_cpu", "true", flag);
    } else if (name == "rdzv_conf") {
      take_rdzv_conf("--rdzv_conf", flag.value, result_);
    } else if (name == "fp16") {
      set("mixed_precision", "fp16", flag);
    } else if (name.starts_with("fsdp_")) {
      set_in("fsdp_config", name, flag);
    } else if (is_of_deepspeed(name)) {
      set_in("deepspeed_config", name, flag);
    } else if (const auto reason = reasons().find(name); reason != reasons().end()) {
      result_.leave_out(flag.from, reason->second);
    } else if (const auto group = group_of(name); group != reasons_of_groups().end()) {
      result_.leave_out(flag.from, group->second);
    } else if (accelerate_flags().switches.contains(name)) {
      set(name, "true", flag);
    } else if (accelerate_flags().valued.contains(name)) {
      set(name, flag.value, flag);
    } else {
      result_.leave_out(flag.from, "hookline does not know this flag of accelerate launch");
    }
  }

  static std::map<std::string, std::string>::const_iterator group_of(const std::string& name) {
    return std::find_if(reasons_of_groups().begin(), reasons_of_groups().end(),
                        [&](const auto& group) { return name.starts_with(group.first); });
  }

  /// Replaces the file's value by the flag's.
  void set(const std::string& key, const std::string& value, const LaunchFlag& flag) {
    tell_if_overridden(key, config_.root[key], value, flag);
    config_.root[key] = value;
    config_.flags[key] = flag.from;
  }

  void set_in(const std::string& section, const std::string& key, const LaunchFlag& flag) {
    if (!config_.root[section].IsDefined() || !config_.root[section].IsMap())
      config_.root[section] = YAML::Node(YAML::NodeType::Map);
    tell_if_overridden(section + "." + key, config_.root[section][key], flag.value, flag);
    config_.root[section][key] = flag.value;
    config_.flags[section + "." + key] = flag.from;
  }

  void tell_if_overridden(const std::string& key, const YAML::Node& former, const std::string& value,
                          const LaunchFlag& flag) {
    if (former.IsDefined() && former.IsScalar() && former.Scalar() != value && !config_.flags.contains(key))
      result_.leave_out(key + ": " + former.Scalar(), flag.from + " overrides it");
  }

  void check_type() const {
    if (type_flags_.size() < 2) return;
    throw ImportError(list_text(type_flags_) + " don't go together: accelerate launch takes one of them");
  }

  /// With --cpu, Accelerate ignores FSDP and DeepSpeed.
  void on_cpu() {
    const std::string type = config_.root["distributed_type"].Scalar();
    if (type != "NO" && type != "MULTI_CPU") {
      result_.leave_out("distributed_type: " + type, "--cpu overrides it: ranks train with DDP on CPUs");
      config_.root["distributed_type"] = "NO";
    }
    take_accelerate_config(config_, result_);
  }

  fs::path script_;
  AccelerateConfig config_;
  std::string config_file_;
  Imported result_;
  LaunchFlag tee_;
  std::vector<std::string> type_flags_;
  bool is_module_ = false, no_python_ = false;
};

}  // namespace

Imported import_accelerate_launch(const LaunchLine& line, const fs::path& script) {
  return AccelerateLaunchReader(script).read(line);
}

}  // namespace hookline
