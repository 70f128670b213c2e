#include "launcher/wizard/questions.h"

namespace hookline {
namespace {

struct KeyQuestion {
  std::string_view key;
  const char* question;
};

constexpr KeyQuestion kQuestions[] = {
    {"launch.processes_per_node", "How many ranks on each machine?"},
    {"launch.nnodes", "How many machines? A range such as \"2:4\" takes as many as join."},
    {"launch.omp_num_threads", "How many threads should each rank use?"},
    {"launch.device", "Train on GPUs or on the CPU?"},
    {"launch.backend", "What should ranks communicate over?"},
    {"launch.grace_period_seconds", "How long may ranks take to exit before they are killed?"},
    {"launch.binding", "Bind ranks to cores or NUMA nodes?"},
    {"launch.isolation", "Run the ranks in a PID namespace?"},
    {"launch.max_restarts", "How many times may a failed run restart?"},
    {"launch.restart", "Which failures should restart the run?"},
    {"launch.restart_delay_seconds", "How long to wait before the first restart?"},
    {"launch.early_exit_seconds", "How long after a rank has exited early should hookline warn?"},
    {"launch.stall_timeout_seconds", "After how long without a finished step should the run fail?"},
    {"launch.stall_stacks", "Write the ranks' stacks to files when the run stalls (needs gdb)?"},
    {"launch.join_timeout_seconds", "How long may ranks take to join?"},
    {"launch.peer_timeout_seconds", "After how long without a heartbeat is a rank lost?"},
    {"rendezvous.main_address", "At which address do the other machines reach the first one?"},
    {"rendezvous.main_port", "On which port of the first machine do the nodes meet?"},
    {"rendezvous.run_id", "Which word names this run, on all hosts?"},
    {"rendezvous.last_call_seconds",
     "Once the minimum has joined, how long to wait for another node before starting?"},
    {"rendezvous.node_timeout_seconds", "After how long without a heartbeat is a node lost?"},
    {"rendezvous.token_file", "Which file holds the token that all nodes have?"},
    {"rendezvous.insecure", "May anybody join the run, without a token?"},
    {"ddp.broadcast_buffers", "Broadcast rank 0's buffers before each forward pass?"},
    {"ddp.bucket_cap_mb", "How large should gradient buckets be?"},
    {"ddp.find_unused_parameters", "Are there steps whose loss leaves some parameters out?"},
    {"ddp.gradient_as_bucket_view", "Make gradients views of the buckets, to save memory?"},
    {"ddp.static_graph", "Does every step use the same parameters the same number of times?"},
    {"ddp.shard_optimizer", "Shard the optimizer's state among the ranks?"},
    {"ddp.comm_hook", "Which communication hook should average gradients?"},
    {"ddp.comm_wrapper", "Should the hook communicate in half precision?"},
    {"ddp.comm_scope", "Should the hook work among all ranks, or only between hosts?"},
    {"ddp.plugins", "Which shared libraries provide more hooks?"},
    {"ddp.auto.allow", "How far may a hook change gradients?"},
    {"ddp.auto.max_error", "Above which relative error should a hook be dropped?"},
    {"ddp.auto.hooks", "Which hooks should be considered?"},
    {"ddp.auto.link", "How fast is the network between hosts?"},
    {"ddp.comm_state_option.matrix_approximation_rank", "Which rank should PowerSGD's factors have?"},
    {"ddp.comm_state_option.start_powerSGD_iter", "From which step on should gradients be compressed?"},
    {"ddp.comm_state_option.min_compression_rate",
     "By more than which factor must compression shrink a gradient?"},
    {"ddp.comm_state_option.use_error_feedback",
     "Add what compression left out to the next step's gradient?"},
    {"ddp.comm_state_option.warm_start", "Start from the previous step's Q?"},
    {"ddp.comm_state_option.orthogonalization_epsilon", "What should be added to a column's norm?"},
    {"ddp.comm_state_option.random_seed", "Which seed should the random Qs start from?"},
    {"ddp.comm_state_option.compression_stats_logging_frequency",
     "How many steps between two reports of the compression rate?"},
    {"ddp.comm_state_option.batch_tensors_with_same_shape",
     "Draw the random Qs of equal shapes as one batch?"},
    {"fsdp.sharding_strategy", "What should be sharded among the ranks?"},
    {"fsdp.comm_hook", "Should gradients travel in half precision?"},
    {"training.max_steps", "After how many optimizer steps should the run stop?"},
    {"training.gradient_accumulation_steps", "How many batches per optimizer step?"},
    {"training.seed", "Which seed should random numbers start from?"},
    {"training.fused_optimizer", "Use torch's fused optimizer kernels?"},
    {"training.checkpoint_every_steps", "How many steps between automatic checkpoints?"},
    {"training.checkpoint_dir", "In which folder should checkpoints be saved?"},
    {"training.checkpoint_keep_last", "How many checkpoints should be kept?"},
    {"training.checkpoint_async", "Write checkpoints while training continues?"},
    {"training.resume", "Resume from a checkpoint?"},
    {"training.record_gradients", "In which folder should gradients be recorded?"},
    {"training.record_gradients_steps", "How many steps should be recorded?"},
    {"logging.level", "From which severity should messages be logged?"},
    {"logging.dir", "In which folder should runs make their folders?"},
    {"logging.status", "How should progress be shown?"},
    {"logging.status_interval_seconds", "How long between two plain progress lines?"},
    {"logging.show", "Which output of the ranks should be shown?"},
    {"logging.show_ranks", "Whose output should be shown?"},
    {"logging.prefix_template", "What should precede each line of a rank?"},
    {"logging.trackers", "Where should metrics go besides metrics.jsonl?"},
    {"logging.mlflow_tracking_uri", "Which MLflow server should metrics go to?"},
    {"logging.mlflow_experiment", "Which MLflow experiment should the run belong to?"},
};

}  // namespace

std::string question_for(std::string_view key) {
  for (const KeyQuestion& asked : kQuestions)
    if (asked.key == key) return asked.question;
  return "";
}

}  // namespace hookline
