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
enum class OriginKind { default_value, file, environment, command_line };

struct Origin {
  OriginKind kind = OriginKind::default_value;
  std::string where;  // "run.toml:3:1", "HOOKLINE_DDP__COMM_HOOK", "--set ddp.comm_hook"; empty for a default
};

/// [launch]: who runs where.
struct LaunchConfig {
  std::string nnodes = "1";               // number of nodes; "2:4": at least 2, at most 4
  std::optional<std::int64_t> node_rank;  // of this node; unset: "auto", the order in which nodes join
  std::optional<std::int64_t> processes_per_node;  // unset: "auto", the number of GPUs, else 1
  std::optional<std::int64_t> omp_num_threads;     // unset: "auto", cores divided by ranks, at least 1
  std::string device = "auto";                     // cpu, cuda; auto: cuda where there is a GPU
  std::string backend = "auto";                    // gloo, nccl, shm; auto: see config/schema/schema.cc
  double grace_period_seconds = 10;                // between SIGTERM and SIGKILL
  std::string binding = "none";                    // of ranks to cores: none, core, numa
  std::string isolation = "none";                  // of ranks from other processes: none, pid
  std::int64_t max_restarts = 0;                   // of all ranks, after one failed
  std::string restart = "curable";                 // or always: also after a failure that will come again
  double restart_delay_seconds = 1;  // before the first restart; doubles with each one, up to a minute
  double early_exit_seconds = 30;  // warn if other ranks still run this long after one exits with 0; 0: never
  double stall_timeout_seconds = 0;   // fail the run if no rank finishes a step for this long; 0: never
  bool stall_stacks = false;          // write every rank's stacks to a file, with gdb, when it stalls
  double join_timeout_seconds = 300;  // how long ranks may take to join at the start
  double peer_timeout_seconds = 10;   // fail if an awaited rank sends no heartbeat for this long; 0: never
};

/// [rendezvous] run_id, if it is to be made from what is started: program, arguments and config.
inline constexpr const char* kDerivedRunId = "auto";

/// [rendezvous]: where several nodes meet.
struct RendezvousConfig {
  std::string main_address;            // of rank 0's host, as all nodes reach it; empty: not needed
  std::int64_t main_port = 29500;      // on that host
  std::string run_id = kDerivedRunId;  // names the run, on all nodes
  double last_call_seconds = 5;     // once the minimum has joined, and no further node for this long, start
  double node_timeout_seconds = 5;  // a node is lost after this long without a heartbeat
  std::string token_file;           // only nodes with the same token may join; empty: $HOOKLINE_TOKEN
  bool insecure = false;            // anybody may join
};

/// [ddp]: the kwargs handler, as Accelerate's DistributedDataParallelKwargs names it.
struct DdpConfig {
  std::int64_t dim = 0;
  bool broadcast_buffers = true;
  std::optional<std::int64_t> bucket_cap_mb;  // MiB; unset: first bucket 1 MiB, cap 25 MiB
  bool find_unused_parameters = false;
  bool check_reduction = false;
  bool gradient_as_bucket_view = false;
  bool static_graph = false;
  bool shard_optimizer = false;  // each rank keeps and steps its part of the optimizers' state: ZeRO stage 1
  std::string comm_hook = "no";  // canonical name (aliases are resolved)
  std::string comm_wrapper = "no";
  std::string comm_scope = "all_ranks";  // between_hosts: the hook works between hosts only
  OptionMap comm_state_option;           // every option of the chosen hook, defaults filled in
  std::vector<std::string> plugins;      // shared libraries that bring hooks; absolute
};

/// The link in [ddp.auto] that stands for one that is measured.
inline constexpr const char* kMeasuredLink = "auto";

/// [ddp.auto]: what comm_hook = "auto" may choose.
struct AutoHookConfig {
  std::string allow = "half";  // lossless, half, low_rank: the most that a hook may change the gradients
  // Largest ‖g - e‖ / ‖e‖, in the 2-norm, for a hook's gradients g and the exact average e; unset: no limit.
  std::optional<double> max_error = {};
  std::vector<std::string> hooks = {};  // the only ones considered; empty: as settings_for() says
  std::string link = kMeasuredLink;     // between hosts, as link_of() reads it; once resolved, never a file
};

/// [fsdp]: which state is sharded between ranks; named as in Accelerate's FullyShardedDataParallelPlugin.
struct FsdpConfig {
  std::string sharding_strategy = "no_shard";  // DDP; shard_grad_op, full_shard
  std::string comm_hook = "no";                // fp16, bf16: what gradients are cast to while they travel
};

/// [training]
struct TrainingConfig {
  std::optional<std::int64_t>
      max_steps;  // optimizer steps the run is meant to take; unset: the program decides
  std::int64_t gradient_accumulation_steps = 1;
  std::string fused_optimizer = "auto";                // no, yes; auto: where torch has a kernel for it
  std::optional<std::int64_t> seed;                    // unset: not seeded
  std::optional<std::int64_t> checkpoint_every_steps;  // optimizer steps; unset: no automatic checkpoints
  std::string checkpoint_dir = "checkpoints";          // the folder for checkpoints
  std::int64_t checkpoint_keep_last = 3;               // older ones are removed
  bool checkpoint_async = false;                       // save from a copy, while training continues
  std::string resume = "no";  // or auto: from the newest in checkpoint_dir; or a checkpoint's folder
  bool resumes_by_name() const { return resume != "no" && resume != "auto"; }
  std::string record_gradients;              // the folder to record gradients in; empty: don't
  std::int64_t record_gradients_steps = 10;  // how many steps of them
};

/// [logging]
struct LoggingConfig {
  std::string level = "info";           // debug, info, warning, error
  std::string dir = "hookline-runs";    // run folders are made in here
  std::string status = "auto";          // live, plain, off; auto: live on a terminal, else plain
  double status_interval_seconds = 60;  // between plain lines, and between searches for the slowest node
  std::string show = "all";             // of the ranks' output: all, stdout, stderr, none; logs hold it all
  std::string show_ranks = "all";       // all, none, or numbers: 0,2-5
  std::string prefix_template = "[${rank}] ";  // before each line of a rank's output
  std::vector<std::string> trackers;           // beside metrics.jsonl: tensorboard, mlflow
  std::string mlflow_tracking_uri;             // a server; empty: as the environment says
  std::string mlflow_experiment;               // empty: as the environment says
};

/// A whole configuration. `origins` has an entry for each key, "table.key" ("ddp.comm_state_option.NAME"
/// too).
struct RunConfig {
  LaunchConfig launch;
  RendezvousConfig rendezvous;
  DdpConfig ddp;
  AutoHookConfig auto_hook;
  FsdpConfig fsdp;
  TrainingConfig training;
  LoggingConfig logging;
  std::map<std::string, Origin> origins;
};

}  // namespace hookline
