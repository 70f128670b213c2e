// The typed configuration of a run: what every reader of the config gets, wherever the values came from.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hooks/catalog/option.h"

namespace hookline {

/// Where a value came from, in order of precedence (the later wins).
enum class OriginKind {
  default_value,  ///< Nothing sets the key.
  file,           ///< The config file, or one that it includes.
  environment,    ///< A HOOKLINE_* variable.
  command_line    ///< A flag, or `--set`.
};

/// Where one value came from.
struct Origin {
  OriginKind kind = OriginKind::default_value;  ///< The kind of source that set the value.
  /// `run.toml:3:1`, `HOOKLINE_DDP__COMM_HOOK`, `--set ddp.comm_hook`; empty for a default.
  std::string where;
};

/// [launch]: who runs where.
struct LaunchConfig {
  /// Number of nodes; "2:4": at least 2, at most 4; "4+1": 4, and a spare that replaces a lost one.
  std::string nnodes = "1";
  std::optional<std::int64_t> node_rank;  ///< Of this node; unset: "auto", the order in which nodes join.
  std::optional<std::int64_t> processes_per_node;  ///< Unset: "auto", the number of GPUs, else 1.
  std::optional<std::int64_t> omp_num_threads;     ///< Unset: "auto", cores divided by ranks, at least 1.
  /// "cpu", "cuda"; "auto": cuda where there is a GPU, except with backend "shm".
  std::string device = "auto";
  /// "gloo", "nccl", "shm". "auto": nccl if each rank has a GPU of its own, gloo if ranks share GPUs; on the
  /// CPU, shared memory inside a host and gloo between hosts.
  std::string backend = "auto";
  double grace_period_seconds = 10;   ///< Between SIGTERM and SIGKILL.
  std::string binding = "none";       ///< Of ranks to cores: "none", "core", "numa".
  std::string isolation = "none";     ///< Of ranks from other processes: "none", "pid".
  std::int64_t max_restarts = 0;      ///< How often all ranks are restarted after one fails.
  std::string restart = "curable";    ///< "curable": not if the failure would come again; "always".
  double restart_delay_seconds = 1;   ///< Before the first restart; doubles with each one, up to a minute.
  double early_exit_seconds = 30;     ///< Warn if others still run so long after one exits with 0; 0: never.
  double stall_timeout_seconds = 0;   ///< Fail the run if no rank finishes a step for this long; 0: never.
  bool stall_stacks = false;          ///< Write every rank's stacks to a file, with gdb, when the run stalls.
  double join_timeout_seconds = 300;  ///< How long ranks may take to join at the start.
  double peer_timeout_seconds = 10;   ///< Fail if an awaited rank sends no heartbeat for this long; 0: never.
};

/// The value of RendezvousConfig::run_id that makes the id from the program, its arguments and the config.
inline constexpr const char* kDerivedRunId = "auto";

/// [rendezvous]: where several nodes meet.
struct RendezvousConfig {
  std::string main_address;            ///< Of rank 0's host, as all nodes reach it; empty: not needed.
  std::int64_t main_port = 29500;      ///< The port on that host at which the nodes meet.
  std::string run_id = kDerivedRunId;  ///< Names the run, the same on all nodes.
  double last_call_seconds = 5;     ///< Start if no further node joins for this long after the minimum has.
  double node_timeout_seconds = 5;  ///< A node is lost after this long without a heartbeat.
  /// Only nodes with the same token may join; empty: $HOOKLINE_TOKEN, else ~/.config/hookline/token.
  std::string token_file;
  bool insecure = false;  ///< Anybody who reaches main_address may join.
  /// For hookline itself: what all nodes call their meeting place, if their scheduler gives main_address,
  /// which may then be written differently on each; empty: main_address.
  std::string meeting_name;
};

/// [ddp], with the names of Accelerate's DistributedDataParallelKwargs where it has the key.
struct DdpConfig {
  std::int64_t dim = 0;                       ///< Accelerate's; has no effect, as in PyTorch.
  bool broadcast_buffers = true;              ///< Rank 0's buffers go to all ranks before each forward.
  std::optional<std::int64_t> bucket_cap_mb;  ///< Bucket size in MiB; unset: the first 1 MiB, the others 25.
  bool find_unused_parameters = false;        ///< Allow parameters that take no part in a step's loss.
  bool check_reduction = false;               ///< Accelerate's; has no effect, as in PyTorch.
  bool gradient_as_bucket_view = false;       ///< Gradients share the buckets' memory, which saves a copy.
  bool static_graph = false;        ///< Every step uses the same parameters, the same number of times.
  bool shard_optimizer = false;     ///< Each rank keeps and steps its part of optimizer state: ZeRO stage 1.
  std::string comm_hook = "no";     ///< The hook's canonical name (aliases are resolved), or "auto".
  std::string comm_wrapper = "no";  ///< The precision in which the hook works: "no", "fp16", "bf16".
  /// What the hook averages over: "all_ranks"; "between_hosts", where the ranks of a host average exactly.
  std::string comm_scope = "all_ranks";
  OptionMap comm_state_option;       ///< Every option of the chosen hook, defaults filled in.
  std::vector<std::string> plugins;  ///< Shared libraries that bring hooks; absolute paths.
};

/// The link in [ddp.auto] that stands for one that is measured.
inline constexpr const char* kMeasuredLink = "auto";

/// [ddp.auto]: what comm_hook = "auto" may choose.
struct AutoHookConfig {
  std::string allow = "half";  ///< The most that a hook may change gradients: "lossless", "half", "low_rank".
  /// Largest ‖g - e‖ / ‖e‖, in the 2-norm, for a hook's gradients g and the exact average e; unset: no limit.
  std::optional<double> max_error = {};
  /// The only hooks considered; empty: those that `allow` permits, except allreduce, batched_power_sgd and
  /// hooks that state no exactness.
  std::vector<std::string> hooks = {};
  /// The network between hosts: speed and latency, as in "1gbit,0.2ms". In a resolved config never a report's
  /// file: resolve() reads it.
  std::string link = kMeasuredLink;
};

/// [fsdp]: which state is sharded between ranks; named as in Accelerate's FullyShardedDataParallelPlugin.
struct FsdpConfig {
  std::string sharding_strategy = "no_shard";  ///< "no_shard" (DDP), "shard_grad_op", "full_shard".
  std::string comm_hook = "no";  ///< What gradients are cast to while they travel: "no", "fp16", "bf16".
};

/// [training]: how long a run trains, and what it saves.
struct TrainingConfig {
  /// Optimizer steps after which Accelerator::should_stop() is true; unset: the program decides.
  std::optional<std::int64_t> max_steps;
  std::int64_t gradient_accumulation_steps = 1;  ///< Batches per optimizer step.
  std::string fused_optimizer = "auto";          ///< "no", "yes"; "auto": where torch has a kernel for it.
  std::optional<std::int64_t> seed;              ///< Of every rank's random numbers; unset: not seeded.
  std::optional<std::int64_t> checkpoint_every_steps;  ///< Optimizer steps; unset: no automatic checkpoints.
  std::string checkpoint_dir = "checkpoints";          ///< The folder for checkpoints.
  std::int64_t checkpoint_keep_last = 3;               ///< How many of the newest checkpoints are kept.
  bool checkpoint_async = false;                       ///< Save from a copy, while training continues.
  std::string resume = "no";  ///< "auto": from the newest in checkpoint_dir; or a checkpoint's folder.
  /// True if `resume` names a checkpoint's folder.
  bool resumes_by_name() const { return resume != "no" && resume != "auto"; }
  std::string record_gradients;              ///< The folder to record gradients in; empty: none are recorded.
  std::int64_t record_gradients_steps = 10;  ///< How many steps to record, from the first on.
};

/// [logging]: what a run shows, and where its metrics go.
struct LoggingConfig {
  std::string level = "info";         ///< Least severity that is logged: "debug", "info", "warning", "error".
  std::string dir = "hookline-runs";  ///< Run folders are made in here.
  std::string status = "auto";        ///< "live", "plain", "off"; "auto": live on a terminal, else plain.
  double status_interval_seconds = 60;  ///< Between plain lines, and between looks for the slowest node.
  std::string show = "all";  ///< Of the ranks' output: "all", "stdout", "stderr", "none"; logs hold all.
  std::string show_ranks = "all";              ///< "all", "none", or numbers of ranks: "0,2-5".
  std::string prefix_template = "[${rank}] ";  ///< Before each line of a rank's output.
  std::vector<std::string> trackers;           ///< Besides metrics.jsonl: "tensorboard", "mlflow".
  std::string mlflow_tracking_uri;  ///< MLflow's server; empty: $MLFLOW_TRACKING_URI, else a local one.
  std::string mlflow_experiment;    ///< MLflow's experiment; empty: $MLFLOW_EXPERIMENT_NAME, else Default.
};

/// A whole configuration: one member for each table of the config file. What each key accepts is in the
/// reference, under "Config keys". A default-constructed one holds the defaults, and no
/// origins.
struct RunConfig {
  LaunchConfig launch;          ///< [launch]
  RendezvousConfig rendezvous;  ///< [rendezvous]
  DdpConfig ddp;                ///< [ddp] and [ddp.comm_state_option]
  AutoHookConfig auto_hook;     ///< [ddp.auto]
  FsdpConfig fsdp;              ///< [fsdp]
  TrainingConfig training;      ///< [training]
  LoggingConfig logging;        ///< [logging]
  /// Where each key's value came from, by "table.key"; also "ddp.comm_state_option.NAME".
  std::map<std::string, Origin> origins;
};

}  // namespace hookline
