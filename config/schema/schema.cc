#include "config/schema/schema.h"

#include <algorithm>
#include <utility>

#include "config/schema/log_display.h"
#include "config/schema/node_count.h"

namespace hookline {
namespace {

void store(const OptionValue& value, std::string& to) { to = std::get<std::string>(value); }
void store(const OptionValue& value, std::vector<std::string>& to) {
  to = std::get<std::vector<std::string>>(value);
}
void store(const OptionValue& value, bool& to) { to = std::get<bool>(value); }
void store(const OptionValue& value, double& to) { to = std::get<double>(value); }
void store(const OptionValue& value, std::int64_t& to) { to = std::get<std::int64_t>(value); }

/// A row whose key is an ordinary field.
template <auto table, auto field>
KeyRow key(const char* table_name, OptionRow option) {
  option.default_value = RunConfig().*table.*field;
  return {table_name, std::move(option),
          [](const RunConfig& config) { return OptionValue(config.*table.*field); },
          [](RunConfig& config, const OptionValue& value) { store(value, config.*table.*field); }};
}

constexpr const char* kAuto = "auto";
constexpr const char* kNone = "none";

/// A row whose key is a count or the word `word`, which leaves it open.
template <auto table, auto field, auto& word>
KeyRow open_key(const char* table_name, OptionRow option) {
  option.default_value = std::string(word);
  option.or_word = word;
  return {table_name, std::move(option),
          [](const RunConfig& config) {
            const std::optional<std::int64_t>& value = config.*table.*field;
            return value ? OptionValue(*value) : OptionValue(std::string(word));
          },
          [](RunConfig& config, const OptionValue& value) {
            const auto* number = std::get_if<std::int64_t>(&value);
            config.*table.*field = number ? std::optional(*number) : std::nullopt;
          }};
}

OptionRow option(const char* name, OptionType type, const char* unit, const char* help) {
  OptionRow row;
  row.name = name;
  row.type = type;
  row.unit = unit;
  row.help = help;
  return row;
}

OptionRow count(const char* name, const char* unit, double at_least, const char* help) {
  OptionRow row = option(name, OptionType::integer, unit, help);
  row.at_least = at_least;
  return row;
}

OptionRow count_up_to(double at_most, const char* name, const char* unit, const char* help) {
  OptionRow row = count(name, unit, 1, help);
  row.at_most = at_most;
  return row;
}

OptionRow flag(const char* name, const char* help) { return option(name, OptionType::boolean, "", help); }
OptionRow text(const char* name, const char* help) { return option(name, OptionType::text, "", help); }

OptionRow processes_per_node() {
  OptionRow row = count("processes_per_node", "processes", 1,
                        "Ranks on each host; auto: one per GPU, or one if there is none or device is cpu.");
  row.at_most = 4096;
  return row;
}

OptionRow grace_period() {
  OptionRow row = option("grace_period_seconds", OptionType::number, "seconds",
                         "How long ranks that are told to stop may take to exit before they are killed.");
  row.at_least = 0;
  return row;
}

OptionRow seconds_up_to_a_day(const char* name, const char* help) {
  OptionRow row = option(name, OptionType::number, "seconds", help);
  row.at_least = 0;
  row.at_most = 86400;
  return row;
}

OptionRow join_timeout() {
  OptionRow row =
      seconds_up_to_a_day("join_timeout_seconds", "How long ranks may take to join at the start.");
  row.at_least = 0.1;
  return row;
}

OptionRow main_port() {
  OptionRow row = count("main_port", "", 1, "Port on rank 0's host at which the nodes meet.");
  row.at_most = 65535;
  return row;
}

OptionRow node_timeout() {
  OptionRow row =
      seconds_up_to_a_day("node_timeout_seconds",
                          "Declare a node lost after this long without a heartbeat; up to twice as long if "
                          "its heartbeats have come late.");
  row.at_least = 1;
  return row;
}

bool is_not_empty(const std::string& text) { return !text.empty(); }
bool counts_nodes(const std::string& text) { return NodeCount::parse(text).has_value(); }
/// True for a URL without user and password, since configs are shown, stored and passed on.
bool is_server(const std::string& text) {
  const bool is_url = text.starts_with("http://") || text.starts_with("https://");
  return text.empty() || (is_url && text.find('@') == text.npos);
}
bool names_ranks(const std::string& text) { return RankSet::parse(text).has_value(); }
bool is_prefix(const std::string& text) {
  PrefixValues any;
  for (const std::string_view name : prefix_names()) any.emplace_back(name, "");
  return expand_prefix(text, any).has_value();
}

KeyRow with_form(KeyRow row, bool (*fits)(const std::string& text), std::string note) {
  row.form = {fits, std::move(note)};
  return row;
}

OptionRow status_interval() {
  OptionRow row = seconds_up_to_a_day(
      "status_interval_seconds",
      "Time between two plain progress lines, and between two looks for the slowest node.");
  row.at_least = 0.1;
  return row;
}

OptionRow one_of(const char* name, std::vector<std::string> allowed, const char* help) {
  OptionRow row = text(name, help);
  row.allowed = std::move(allowed);
  return row;
}

void add_ddp(std::vector<KeyRow>& rows) {
  constexpr auto ddp = &RunConfig::ddp;
  rows.push_back(key<ddp, &DdpConfig::dim>(
      "ddp", option("dim", OptionType::integer, "", "Accelerate's; has no effect, as in PyTorch.")));
  rows.push_back(key<ddp, &DdpConfig::broadcast_buffers>(
      "ddp", flag("broadcast_buffers", "Broadcast rank 0's buffers to all ranks before each forward pass.")));
  rows.push_back(open_key<ddp, &DdpConfig::bucket_cap_mb, kAuto>(
      "ddp", count_up_to(1 << 20, "bucket_cap_mb", "MiB",
                         "Size of gradient buckets; auto: 1 MiB for the first, 25 MiB for the others.")));
  rows.push_back(key<ddp, &DdpConfig::find_unused_parameters>(
      "ddp", flag("find_unused_parameters", "Allow parameters that take no part in a step's loss.")));
  rows.push_back(key<ddp, &DdpConfig::check_reduction>(
      "ddp", flag("check_reduction", "Accelerate's; has no effect, as in PyTorch.")));
  rows.push_back(key<ddp, &DdpConfig::gradient_as_bucket_view>(
      "ddp",
      flag("gradient_as_bucket_view", "Make gradients views of the buckets, which saves a copy of them.")));
  rows.push_back(key<ddp, &DdpConfig::static_graph>(
      "ddp",
      flag("static_graph", "Promise that every step uses the same parameters the same number of times.")));
  rows.push_back(key<ddp, &DdpConfig::shard_optimizer>(
      "ddp",
      flag("shard_optimizer",
           "Shard the optimizer: each rank stores and updates only its share of the state (ZeRO stage 1).")));
  rows.push_back(
      key<ddp, &DdpConfig::comm_hook>("ddp", text("comm_hook",
                                                  "The communication hook that averages gradients: a name "
                                                  "from `hookline hooks list`, or auto (see [ddp.auto]).")));
  rows.push_back(key<ddp, &DdpConfig::comm_wrapper>(
      "ddp", text("comm_wrapper", "The precision that the hook communicates in: no, fp16 or bf16.")));
  rows.push_back(key<ddp, &DdpConfig::comm_scope>(
      "ddp", one_of("comm_scope", {"all_ranks", "between_hosts"},
                    "all_ranks: the hook averages over all ranks. between_hosts: ranks of one host average "
                    "exactly, and the hook averages between hosts.")));
  rows.push_back(key<ddp, &DdpConfig::plugins>(
      "ddp", option("plugins", OptionType::texts, "", "Shared libraries that provide more hooks.")));
}

void add_auto_hook(std::vector<KeyRow>& rows) {
  constexpr auto auto_hook = &RunConfig::auto_hook;
  rows.push_back(key<auto_hook, &AutoHookConfig::allow>(
      kAutoHookTable, one_of("allow", {"lossless", "half", "low_rank"},
                             "How far a hook may change gradients. lossless: exact averages; half: 16-bit "
                             "averages, too; low_rank: PowerSGD, too.")));
  OptionRow max_error =
      option("max_error", OptionType::number, "",
             "Drop a hook when the relative error of its gradients exceeds this; none: no limit.");
  max_error.at_least = 0;
  max_error.default_value = std::string(kNone);
  max_error.or_word = kNone;
  rows.push_back({kAutoHookTable, std::move(max_error),
                  [](const RunConfig& config) {
                    const std::optional<double>& value = config.auto_hook.max_error;
                    return value ? OptionValue(*value) : OptionValue(std::string(kNone));
                  },
                  [](RunConfig& config, const OptionValue& value) {
                    const auto* number = std::get_if<double>(&value);
                    config.auto_hook.max_error = number ? std::optional(*number) : std::nullopt;
                  }});
  rows.push_back(key<auto_hook, &AutoHookConfig::hooks>(
      kAutoHookTable, option("hooks", OptionType::texts, "",
                             "Consider only these hooks; empty: those that `allow` permits, except "
                             "allreduce, batched_power_sgd and hooks that state no exactness.")));
  rows.push_back(key<auto_hook, &AutoHookConfig::link>(
      kAutoHookTable,
      text("link",
           "The network between hosts: speed and latency, as in 1gbit,0.2ms, or a report that "
           "`hookline test --json > link.json` saved; auto: measured when training starts.")));
}

void add_fsdp(std::vector<KeyRow>& rows) {
  constexpr auto fsdp = &RunConfig::fsdp;
  rows.push_back(key<fsdp, &FsdpConfig::sharding_strategy>(
      "fsdp", one_of("sharding_strategy", {"no_shard", "shard_grad_op", "full_shard"},
                     "What is sharded among the ranks. no_shard: nothing (DDP); shard_grad_op: "
                     "gradients and optimizer state; full_shard: parameters, too.")));
  rows.push_back(key<fsdp, &FsdpConfig::comm_hook>(
      "fsdp", one_of("comm_hook", {"no", "fp16", "bf16"},
                     "The precision in which a sharded model's gradients travel between ranks.")));
}

bool has_several_nodes(const RunConfig& config, const Detected&) {
  return NodeCount::parse(config.launch.nnodes)->total() > 1;
}
bool is_without_scheduler(const RunConfig&, const Detected& here) { return here.scheduler.empty(); }
bool needs_an_address(const RunConfig& config, const Detected& here) {
  return has_several_nodes(config, here) && is_without_scheduler(config, here);
}
bool has_gpus(const RunConfig&, const Detected& here) { return here.gpus > 0; }
bool has_restarts(const RunConfig& config, const Detected&) { return config.launch.max_restarts > 0; }
bool may_start_again(const RunConfig& config, const Detected& here) {
  const auto nodes = NodeCount::parse(config.launch.nnodes);
  return has_restarts(config, here) || nodes->least != nodes->most || nodes->spares > 0;
}
bool looks_for_stalls(const RunConfig& config, const Detected&) {
  return config.launch.stall_timeout_seconds > 0;
}
bool keeps_checkpoints(const RunConfig& config, const Detected&) {
  return config.training.checkpoint_every_steps.has_value();
}
bool records_gradients(const RunConfig& config, const Detected&) {
  return !config.training.record_gradients.empty();
}
bool is_sharded(const RunConfig& config, const Detected&) {
  return config.fsdp.sharding_strategy != "no_shard";
}
bool is_whole(const RunConfig& config, const Detected& here) { return !is_sharded(config, here); }
bool chooses_its_hook(const RunConfig& config, const Detected&) { return config.ddp.comm_hook == kAutoHook; }
bool may_be_sharded(const RunConfig& config, const Detected&) {
  return config.ddp.comm_hook == "no" && config.ddp.comm_wrapper == "no" && !config.ddp.shard_optimizer;
}
bool may_shard_optimizer(const RunConfig& config, const Detected& here) {
  return is_whole(config, here) && config.ddp.comm_hook != "noop" && config.ddp.comm_hook != kAutoHook;
}
bool has_a_hook_between_hosts(const RunConfig& config, const Detected& here) {
  const bool has_hook = config.ddp.comm_hook != "no" || config.ddp.comm_wrapper != "no";
  return has_hook && config.ddp.comm_hook != kAutoHook && is_whole(config, here) &&
         has_several_nodes(config, here);
}
bool never(const RunConfig&, const Detected&) { return false; }

bool tracks_by_mlflow(const RunConfig& config, const Detected&) {
  const auto& trackers = config.logging.trackers;
  return std::count(trackers.begin(), trackers.end(), "mlflow") > 0;
}

bool chooses_its_hook_between_hosts(const RunConfig& config, const Detected& here) {
  return chooses_its_hook(config, here) && has_several_nodes(config, here);
}

/// Sets when the wizard asks for those keys that it does not simply ask for along with their table.
void add_asking(std::vector<KeyRow>& rows) {
  struct Asking {
    std::string_view table, name;
    int asked;
    bool (*applies)(const RunConfig&, const Detected&);
  };
  static constexpr Asking kAsking[] = {
      {"launch", "nnodes", 1, is_without_scheduler},
      {"rendezvous", "main_address", 2, needs_an_address},
      {"launch", "processes_per_node", 3, nullptr},
      {"ddp", "comm_hook", 4, is_whole},
      {"ddp", "comm_wrapper", 5, is_whole},
      {"launch", "node_rank", 0, never},  // all hosts share the file
      {"launch", "device", 0, has_gpus},
      {"launch", "backend", 0, has_gpus},
      {"launch", "restart", 0, may_start_again},
      {"launch", "restart_delay_seconds", 0, has_restarts},
      {"launch", "stall_stacks", 0, looks_for_stalls},
      {"rendezvous", "main_port", 0, needs_an_address},
      {"rendezvous", "run_id", 0, needs_an_address},
      {"rendezvous", "last_call_seconds", 0, has_several_nodes},
      {"rendezvous", "node_timeout_seconds", 0, has_several_nodes},
      {"rendezvous", "token_file", 0, has_several_nodes},
      {"rendezvous", "insecure", 0, has_several_nodes},
      {"ddp", "comm_scope", 0, has_a_hook_between_hosts},
      {"ddp", "dim", 0, never},  // has no effect
      {"ddp", "check_reduction", 0, never},
      {"ddp", "shard_optimizer", 0, may_shard_optimizer},
      {kAutoHookTable, "allow", 6, chooses_its_hook},
      {kAutoHookTable, "max_error", 0, chooses_its_hook},
      {kAutoHookTable, "hooks", 0, chooses_its_hook},
      {kAutoHookTable, "link", 0, chooses_its_hook_between_hosts},
      {"fsdp", "sharding_strategy", 0, may_be_sharded},
      {"fsdp", "comm_hook", 0, is_sharded},
      {"training", "checkpoint_dir", 0, keeps_checkpoints},
      {"training", "checkpoint_keep_last", 0, keeps_checkpoints},
      {"training", "checkpoint_async", 0, keeps_checkpoints},
      {"training", "record_gradients_steps", 0, records_gradients},
      {"logging", "mlflow_tracking_uri", 0, tracks_by_mlflow},
      {"logging", "mlflow_experiment", 0, tracks_by_mlflow},
  };
  for (const Asking& asking : kAsking) {
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const KeyRow& each) {
      return each.table == asking.table && each.option.name == asking.name;
    });
    row->asked = asking.asked;
    row->applies = asking.applies;
  }
}

std::vector<KeyRow> make_schema() {
  constexpr auto launch = &RunConfig::launch;
  constexpr auto rendezvous = &RunConfig::rendezvous;
  constexpr auto training = &RunConfig::training;
  constexpr auto logging = &RunConfig::logging;
  std::vector<KeyRow> rows;
  rows.push_back(open_key<launch, &LaunchConfig::processes_per_node, kAuto>("launch", processes_per_node()));
  OptionRow nnodes = text(
      "nnodes",
      "Number of nodes; \"2:4\": from 2 to 4; \"4+1\": 4, and a spare that takes the place of a lost one.");
  nnodes.or_integer = true;
  rows.push_back(with_form(
      key<launch, &LaunchConfig::nnodes>("launch", std::move(nnodes)), counts_nodes,
      "must be a number of nodes, such as 2, a range, such as \"2:4\", or one with spares, such as \"4+1\""));
  rows.push_back(open_key<launch, &LaunchConfig::node_rank, kAuto>(
      "launch",
      count("node_rank", "", 0, "This host's node rank, from 0; auto: in the order in which nodes join.")));
  rows.push_back(open_key<launch, &LaunchConfig::omp_num_threads, kAuto>(
      "launch", count_up_to(1 << 16, "omp_num_threads", "threads",
                            "Threads of each rank; auto: usable cores divided by ranks. OMP_NUM_THREADS, if "
                            "it is set, wins over "
                            "auto and over a file.")));
  rows.push_back(key<launch, &LaunchConfig::device>(
      "launch",
      one_of(
          "device", {"auto", "cpu", "cuda"},
          "Where models and batches live. auto: on GPUs where there are any, else on the CPU; with backend "
          "shm, on the CPU.")));
  rows.push_back(key<launch, &LaunchConfig::backend>(
      "launch",
      one_of("backend", {"auto", "gloo", "nccl", "shm"},
             "What ranks communicate over. auto: nccl if each rank has a GPU of its own, gloo if ranks share "
             "GPUs; on the CPU, shared memory (shm) inside a host and gloo between hosts. shm is for the "
             "CPU and one host.")));
  rows.push_back(key<launch, &LaunchConfig::grace_period_seconds>("launch", grace_period()));
  rows.push_back(key<launch, &LaunchConfig::binding>(
      "launch",
      one_of("binding", {"none", "core", "numa"},
             "Bind ranks to cores. core: each gets its share of the cores; numa: each gets a NUMA node.")));
  rows.push_back(key<launch, &LaunchConfig::isolation>(
      "launch",
      one_of("isolation", {"none", "pid"},
             "pid: run the ranks in a PID namespace, so that whatever they start ends with them.")));
  rows.push_back(key<launch, &LaunchConfig::max_restarts>(
      "launch",
      count("max_restarts", "restarts", 0, "How many times to restart all ranks after a failure.")));
  rows.push_back(key<launch, &LaunchConfig::restart>(
      "launch",
      one_of("restart", {"curable", "always"},
             "Which failures restart the run. curable: any failure except exit code 2, the "
             "same failure at the same step twice, and the loss of a node when the ranks have got no "
             "further than in an earlier attempt that lost one.")));
  rows.push_back(key<launch, &LaunchConfig::restart_delay_seconds>(
      "launch", seconds_up_to_a_day(
                    "restart_delay_seconds",
                    "Delay before the first restart; it doubles with each further one, up to a minute.")));
  rows.push_back(key<launch, &LaunchConfig::early_exit_seconds>(
      "launch",
      seconds_up_to_a_day("early_exit_seconds",
                          "Warn if other ranks still run this long after one exits with 0; 0: never.")));
  rows.push_back(key<launch, &LaunchConfig::stall_timeout_seconds>(
      "launch", seconds_up_to_a_day("stall_timeout_seconds",
                                    "Fail the run if no rank finishes a step for this long; 0: never.")));
  rows.push_back(key<launch, &LaunchConfig::stall_stacks>(
      "launch", flag("stall_stacks",
                     "When the run stalls, write every rank's stacks to stacks.txt beside its logs; "
                     "needs gdb.")));
  rows.push_back(key<launch, &LaunchConfig::join_timeout_seconds>("launch", join_timeout()));
  rows.push_back(key<launch, &LaunchConfig::peer_timeout_seconds>(
      "launch",
      seconds_up_to_a_day(
          "peer_timeout_seconds",
          "Fail the run if a rank that others wait for sends no heartbeat for this long; 0: never.")));
  rows.push_back(key<rendezvous, &RendezvousConfig::main_address>(
      "rendezvous",
      text("main_address",
           "Name or address of rank 0's host, as all hosts reach it; written alike on every host.")));
  rows.push_back(key<rendezvous, &RendezvousConfig::main_port>("rendezvous", main_port()));
  rows.push_back(
      with_form(key<rendezvous, &RendezvousConfig::run_id>(
                    "rendezvous",
                    text("run_id",
                         "Names the run: auto makes the id from the program, its arguments and the config. A "
                         "node with another run_id is refused. Two runs that meet on one host also need "
                         "different values of main_port.")),
                is_not_empty, "must be a word, such as \"auto\""));
  rows.push_back(key<rendezvous, &RendezvousConfig::last_call_seconds>(
      "rendezvous",
      seconds_up_to_a_day(
          "last_call_seconds",
          "Once the minimum has joined, start when no further node has joined for this long.")));
  rows.push_back(key<rendezvous, &RendezvousConfig::node_timeout_seconds>("rendezvous", node_timeout()));
  rows.push_back(key<rendezvous, &RendezvousConfig::token_file>(
      "rendezvous",
      text("token_file",
           "File with the run's token, readable by you alone: only nodes that have the same token "
           "may join. Empty: $HOOKLINE_TOKEN; without that, your own in ~/.config/hookline/token.")));
  rows.push_back(key<rendezvous, &RendezvousConfig::insecure>(
      "rendezvous", flag("insecure", "Need no token: anybody who reaches main_address may join the run.")));
  add_ddp(rows);
  add_auto_hook(rows);
  add_fsdp(rows);
  rows.push_back(open_key<training, &TrainingConfig::max_steps, kNone>(
      "training",
      count("max_steps", "steps", 1,
            "Optimizer steps after which should_stop() is true; none: the program decides when to stop.")));
  rows.push_back(key<training, &TrainingConfig::gradient_accumulation_steps>(
      "training", count("gradient_accumulation_steps", "batches", 1, "Batches per optimizer step.")));
  rows.push_back(open_key<training, &TrainingConfig::seed, kNone>(
      "training", count("seed", "", 0, "Seed of every rank's random numbers; none: not seeded.")));
  rows.push_back(key<training, &TrainingConfig::fused_optimizer>(
      "training",
      one_of("fused_optimizer", {"auto", "no", "yes"},
             "Step SGD, Adam and AdamW with torch's fused kernels; auto: wherever those apply.")));
  rows.push_back(open_key<training, &TrainingConfig::checkpoint_every_steps, kNone>(
      "training", count("checkpoint_every_steps", "steps", 1,
                        "Optimizer steps between automatic checkpoints; none: no automatic checkpoints.")));
  rows.push_back(with_form(key<training, &TrainingConfig::checkpoint_dir>(
                               "training", text("checkpoint_dir", "Folder for checkpoints.")),
                           is_not_empty, "must be the name of a folder, such as \"checkpoints\""));
  rows.push_back(key<training, &TrainingConfig::checkpoint_keep_last>(
      "training",
      count("checkpoint_keep_last", "checkpoints", 1, "How many of the newest checkpoints to keep.")));
  rows.push_back(key<training, &TrainingConfig::checkpoint_async>(
      "training",
      flag("checkpoint_async", "Write checkpoints from a copy in memory while training continues.")));
  rows.push_back(
      with_form(key<training, &TrainingConfig::resume>(
                    "training", text("resume",
                                     "auto or true: resume from the newest checkpoint in checkpoint_dir; no "
                                     "or false: start at step 0; or the folder of a checkpoint.")),
                is_not_empty, "must be \"no\", \"auto\", or the folder of a checkpoint"));
  rows.back().form.booleans = {"auto", "no"};
  rows.push_back(key<training, &TrainingConfig::record_gradients>(
      "training",
      text("record_gradients", "Folder in which to record gradients for `hookline replay`; empty: none.")));
  rows.push_back(key<training, &TrainingConfig::record_gradients_steps>(
      "training",
      count("record_gradients_steps", "steps", 1, "How many steps to record, from the first on.")));
  rows.push_back(key<logging, &LoggingConfig::level>(
      "logging",
      one_of("level", {"debug", "info", "warning", "error"}, "Severity from which messages are logged.")));
  rows.push_back(with_form(key<logging, &LoggingConfig::dir>(
                               "logging", text("dir", "Folder in which each run makes its run folder.")),
                           is_not_empty, "must be the name of a folder, such as \"hookline-runs\""));
  rows.push_back(key<logging, &LoggingConfig::status>(
      "logging",
      one_of("status", {"auto", "live", "plain", "off"},
             "How progress is shown; auto: a live line on a terminal, else a plain line now and then.")));
  rows.push_back(key<logging, &LoggingConfig::status_interval_seconds>("logging", status_interval()));
  rows.push_back(key<logging, &LoggingConfig::show>(
      "logging", one_of("show", {"all", "stdout", "stderr", "none"},
                        "Which output of the ranks is shown; log files always hold all of it.")));
  rows.push_back(with_form(
      key<logging, &LoggingConfig::show_ranks>(
          "logging", text("show_ranks", "Whose output is shown: all, none, or rank numbers such as 0,2-5.")),
      names_ranks, "must be \"all\", \"none\", or numbers of ranks, such as \"0\" or \"0,2-5\""));
  rows.push_back(with_form(
      key<logging, &LoggingConfig::prefix_template>(
          "logging",
          text("prefix_template",
               "What precedes each line of a rank: ${rank}, ${local_rank}, ${role_name}, ${host}.")),
      is_prefix, "the placeholders are ${rank}, ${local_rank}, ${role_name} and ${host}"));
  OptionRow trackers =
      option("trackers", OptionType::texts, "", "Where metrics go besides metrics.jsonl in the run folder.");
  trackers.allowed = {"tensorboard", "mlflow"};
  rows.push_back(key<logging, &LoggingConfig::trackers>("logging", std::move(trackers)));
  rows.push_back(with_form(
      key<logging, &LoggingConfig::mlflow_tracking_uri>(
          "logging", text("mlflow_tracking_uri",
                          "MLflow's server; empty: $MLFLOW_TRACKING_URI, else http://127.0.0.1:5000.")),
      is_server,
      "must begin with http:// or https://; user and password are $MLFLOW_TRACKING_USERNAME and "
      "$MLFLOW_TRACKING_PASSWORD"));
  rows.push_back(key<logging, &LoggingConfig::mlflow_experiment>(
      "logging",
      text("mlflow_experiment", "MLflow's experiment; empty: $MLFLOW_EXPERIMENT_NAME, else Default.")));
  add_asking(rows);
  return rows;
}

}  // namespace

const std::vector<KeyRow>& schema() {
  static const std::vector<KeyRow> rows = make_schema();
  return rows;
}

std::vector<std::string> table_names() {
  std::vector<std::string> names;
  for (const KeyRow& row : schema())
    if (names.empty() || names.back() != row.table) names.push_back(row.table);
  return names;
}

std::vector<std::string> key_names(std::string_view table) {
  std::vector<std::string> names;
  for (const KeyRow& row : schema())
    if (row.table == table) names.push_back(row.option.name);
  return names;
}

std::vector<std::string> all_keys(const Catalog& catalog) {
  std::vector<std::string> keys;
  for (const KeyRow& row : schema()) keys.push_back(row.key());
  for (const HookRow& hook : catalog.hooks()) {
    for (const OptionRow& option : hook.options) {
      const std::string key = std::string(kHookOptionTable) + "." + option.name;
      if (!std::count(keys.begin(), keys.end(), key)) keys.push_back(key);
    }
  }
  return keys;
}

const KeyRow* find_key(std::string_view key) {
  const std::size_t dot = key.rfind('.');
  return dot == key.npos ? nullptr : find_key(key.substr(0, dot), key.substr(dot + 1));
}

const KeyRow* find_key(std::string_view table, std::string_view name) {
  for (const KeyRow& row : schema())
    if (row.table == table && row.option.name == name) return &row;
  return nullptr;
}

}  // namespace hookline
