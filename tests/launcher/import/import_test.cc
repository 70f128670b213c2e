// Imports of config files as the tools themselves write them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "launcher/import/import_parts.h"
#include "launcher/import/imported.h"
#include "support/process.h"

namespace hookline {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using testing::problem;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;
using testing::values;

Imported from_file(const std::string& name) { return import_any(testing::read_file(IMPORTS "/" + name)); }

std::vector<std::string> left_out(const Imported& imported) {
  std::vector<std::string> texts;
  for (const auto& [what, why] : imported.left_out) texts.push_back(what);
  return texts;
}

TEST(Import, ConvertsAnAccelerateConfigForTwoMachines) {
  const Imported imported = from_file("multi_gpu_two_machines.yaml");
  EXPECT_THAT(values(imported),
              UnorderedElementsAre("launch.nnodes = 2", "launch.processes_per_node = 4",
                                   "launch.binding = numa", "rendezvous.main_address = 10.0.0.1",
                                   "rendezvous.main_port = 29501", "logging.level = debug"))
      << "Accelerate counts the processes of all machines";
  EXPECT_THAT(left_out(imported),
              UnorderedElementsAre("machine_rank: 1", "main_training_function: main", "mixed_precision: bf16",
                                   "rdzv_backend: c10d", "same_network: true"));
}

TEST(Import, ConvertsKeysThatHooklineShares) {
  const Imported imported = import_any(R"(compute_environment: LOCAL_MACHINE
distributed_type: MULTI_CPU
num_processes: 2
gradient_accumulation_steps: 4
ddp_kwargs:
  comm_hook: DDPCommunicationHookType.POWER_SGD
  comm_wrapper: fp16
  comm_state_option:
    matrix_approximation_rank: 2
    use_error_feedback: True
  find_unused_parameters: True
  device_ids: 0
project_name: mine
)");
  EXPECT_THAT(values(imported), UnorderedElementsAre("launch.device = cpu", "launch.processes_per_node = 2",
                                                     "training.gradient_accumulation_steps = 4",
                                                     "ddp.comm_hook = power_sgd", "ddp.comm_wrapper = fp16",
                                                     "ddp.comm_state_option.matrix_approximation_rank = 2",
                                                     "ddp.comm_state_option.use_error_feedback = true",
                                                     "ddp.find_unused_parameters = true"));
  EXPECT_THAT(left_out(imported), UnorderedElementsAre("ddp_kwargs.device_ids: 0", "project_name: mine"));
}

TEST(Import, ConvertsSharedListsAndTables) {
  const Imported imported = import_any(R"(distributed_type: MULTI_GPU
trackers:
  - tensorboard
  - mlflow
comm_hook: POWER_SGD
comm_wrapper: No
comm_state_option:
  matrix_approximation_rank: 2
ddp:
  bucket_cap_mb: 50
  comm_state_option: {use_error_feedback: Yes}
training: {resume: True, fused_optimizer: no}
)");
  EXPECT_THAT(
      values(imported),
      UnorderedElementsAre("logging.trackers = [\"tensorboard\", \"mlflow\"]", "ddp.comm_hook = power_sgd",
                           "ddp.comm_wrapper = no", "ddp.comm_state_option.matrix_approximation_rank = 2",
                           "ddp.bucket_cap_mb = 50", "ddp.comm_state_option.use_error_feedback = true",
                           "training.resume = true", "training.fused_optimizer = no"));
  EXPECT_THAT(imported.left_out, IsEmpty());
  EXPECT_EQ(imported.values[0].where, "trackers: [tensorboard, mlflow]");
  const Imported plugins = import_any("num_processes: 2\nddp_kwargs:\n  plugins: ['a b.so', c.so]\n");
  ASSERT_EQ(plugins.values.size(), 2u);
  EXPECT_EQ(plugins.values[1].key + " = " + plugins.values[1].value, "ddp.plugins = [\"a b.so\", \"c.so\"]");
  const Imported sharded = import_any(
      "distributed_type: FSDP\nfsdp_config:\n  sharding_strategy: SHARD_GRAD_OP\n  comm_hook: BF16\n");
  EXPECT_THAT(values(sharded),
              UnorderedElementsAre("fsdp.sharding_strategy = shard_grad_op", "fsdp.comm_hook = bf16"));
  EXPECT_THAT(sharded.left_out, IsEmpty());
  EXPECT_THAT(values(import_any("distributed_type: FSDP\nfsdp: {comm_hook: no}\n")),
              UnorderedElementsAre("fsdp.sharding_strategy = full_shard", "fsdp.comm_hook = no"));
  EXPECT_EQ(import_any("num_processes: 2\nddp_kwargs: {comm_hook: 'program:MyHook'}\n").values[1].value,
            "program:MyHook");
}

TEST(Import, SaysWhatToSetForAValueItCannotConvert) {
  const Imported imported = import_any(R"(distributed_type: FSDP
fsdp_config:
  comm_hook: POWER_SGD
  mystery: 1
trackers: [wandb]
max_restarts: [3]
log_dir: {a: b}
logging: 3
ddp_kwargs:
  plugins: [[a]]
  comm_state_option: 2
  device_ids: [0]
comm_state_option: {start_powerSGD_iter: [1, 2]}
deepspeed_config: 3
)");
  EXPECT_THAT(imported.left_out,
              UnorderedElementsAre(
                  Pair("fsdp_config.comm_hook: POWER_SGD",
                       "set fsdp.comm_hook, which must be one of \"no\", \"fp16\", \"bf16\""),
                  Pair("fsdp_config.mystery: 1", "hookline has no such key"),
                  Pair("trackers: [wandb]",
                       "set logging.trackers, which must be an array of \"tensorboard\", \"mlflow\""),
                  Pair("max_restarts: [3]", "set launch.max_restarts, which must be an integer, at least 0"),
                  Pair("log_dir", "set logging.dir, which must be a string"),
                  Pair("logging: 3", "[logging] is a table: set its keys"),
                  Pair("ddp_kwargs.plugins: [[a]]", "set ddp.plugins, which must be an array of strings"),
                  Pair("ddp_kwargs.comm_state_option: 2", "[ddp.comm_state_option] is a table: set its keys"),
                  Pair("ddp_kwargs.device_ids", "hookline has no such key"),
                  Pair("comm_state_option.start_powerSGD_iter: [1, 2]",
                       "set ddp.comm_state_option.start_powerSGD_iter, which must be a single value"),
                  Pair("deepspeed_config: 3", "must be a mapping of keys to values")));
  EXPECT_THAT(import_any("distributed_type: NO\nfsdp_config: 3\nddp_kwargs: [a]\n").left_out,
              ElementsAre(Pair("fsdp_config: 3", HasSubstr("must be a mapping")),
                          Pair("ddp_kwargs: [a]", HasSubstr("must be a mapping"))));
}

TEST(Import, ConvertsAnAccelerateConfigForCpus) {
  const Imported imported = from_file("multi_cpu.yaml");
  EXPECT_THAT(values(imported), UnorderedElementsAre("launch.device = cpu", "launch.processes_per_node = 4"));
  EXPECT_THAT(left_out(imported),
              UnorderedElementsAre("ipex_config", "main_training_function: main", "mpirun_config",
                                   "rdzv_backend: static", "same_network: true"));
}

TEST(Import, ReportsWhatIsNotDataParallel) {
  const Imported fsdp = from_file("fsdp.yaml");
  EXPECT_THAT(values(fsdp),
              UnorderedElementsAre("launch.processes_per_node = 2", "fsdp.sharding_strategy = full_shard"));
  EXPECT_THAT(fsdp.left_out, Contains(Pair("fsdp_config.fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP",
                                           "the program chooses the units: hookline::FsdpUnit<Block>")));
  EXPECT_THAT(left_out(fsdp), Contains("fsdp_config.fsdp_state_dict_type: SHARDED_STATE_DICT"));
  const Imported deepspeed = from_file("deepspeed.yaml");
  EXPECT_THAT(values(deepspeed), UnorderedElementsAre("launch.processes_per_node = 2",
                                                      "training.gradient_accumulation_steps = 4",
                                                      "fsdp.sharding_strategy = shard_grad_op"));
  EXPECT_THAT(deepspeed.left_out, Contains(Pair("deepspeed_config.deepspeed_hostfile: hosts",
                                                "import it separately: hookline config import hosts")));
}

TEST(Import, KnowsEachDistributedTypeOfAccelerate) {
  for (const std::string type : {"MULTI_GPU", "NO", "'NO'", "MULTI_CPU", "FSDP", "DEEPSPEED"})
    EXPECT_THAT(import_any("distributed_type: " + type + "\nnum_processes: 1\n").left_out, IsEmpty()) << type;
  for (const std::string type : {"MEGATRON_LM", "TP", "XLA", "TPU", "MULTI_NPU", "MULTI_MLU", "MULTI_SDAA",
                                 "MULTI_MUSA", "MULTI_XPU", "MULTI_HPU", "MULTI_NEURON"})
    EXPECT_THAT(left_out(import_any("distributed_type: " + type + "\n")),
                ElementsAre("distributed_type: " + type));
  EXPECT_EQ(problem("distributed_type: MULTI\n"),
            "distributed_type: 'MULTI' is not a type that Accelerate has");
}

TEST(Import, KnowsEachWayInWhichAccelerateNamesASharding) {
  const auto strategy_of = [](const std::string& key) {
    const Imported imported =
        import_any("distributed_type: FSDP\nnum_processes: 2\nfsdp_config:\n  " + key + "\n");
    EXPECT_THAT(imported.left_out, IsEmpty()) << key;
    for (const std::string& value : values(imported))
      if (value.starts_with("fsdp.")) return value;
    return std::string("none");
  };
  for (const char* key : {"fsdp_version: 2", "fsdp_sharding_strategy: 1", "fsdp_reshard_after_forward: true",
                          "fsdp_reshard_after_forward: FULL_SHARD", "fsdp_reshard_after_forward: True",
                          "fsdp_version: 2\n  fsdp_reshard_after_forward: true"})
    EXPECT_EQ(strategy_of(key), "fsdp.sharding_strategy = full_shard") << key;
  for (const char* key : {"fsdp_sharding_strategy: SHARD_GRAD_OP", "fsdp_sharding_strategy: 2",
                          "fsdp_reshard_after_forward: false"})
    EXPECT_EQ(strategy_of(key), "fsdp.sharding_strategy = shard_grad_op") << key;
  const Imported both = import_any(
      "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\n  fsdp_sharding_strategy: SHARD_GRAD_OP\n");
  EXPECT_THAT(values(both), ElementsAre("fsdp.sharding_strategy = full_shard"));
  EXPECT_THAT(both.left_out,
              ElementsAre(Pair("fsdp_config.fsdp_sharding_strategy: SHARD_GRAD_OP",
                               "has no effect in FSDP version 2, which uses fsdp_reshard_after_forward")));
  EXPECT_THAT(values(import_any("distributed_type: FSDP\n")),
              Contains("fsdp.sharding_strategy = full_shard"));
  EXPECT_EQ(strategy_of("fsdp_sharding_strategy: NO_SHARD"), "fsdp.sharding_strategy = no_shard");
  EXPECT_THAT(
      left_out(import_any("distributed_type: FSDP\nfsdp_config:\n  fsdp_sharding_strategy: HYBRID_SHARD\n")),
      ElementsAre("fsdp_config.fsdp_sharding_strategy: HYBRID_SHARD"));
}

TEST(Import, ConvertsATorchrunCommand) {
  const Imported imported = from_file("torchrun.sh");
  EXPECT_THAT(values(imported),
              UnorderedElementsAre("launch.nnodes = 1:2", "launch.processes_per_node = 4",
                                   "rendezvous.main_address = node1", "rendezvous.main_port = 29400",
                                   "launch.max_restarts = 3", "launch.join_timeout_seconds = 600",
                                   "rendezvous.last_call_seconds = 10", "logging.dir = runs",
                                   "launch.grace_period_seconds = 20", "launch.omp_num_threads = 4",
                                   "logging.show = all"));
  EXPECT_THAT(left_out(imported),
              UnorderedElementsAre("--rdzv-backend=c10d", "--rdzv-id=$JOB", "cd $HOME/project"));
  EXPECT_THAT(imported.program, ElementsAre("train.py", "--epochs", "5", "--name", "a b"));
  EXPECT_THAT(import_any("torchrun --tee 3 -- train.py -x").program, ElementsAre("train.py", "-x"));
  EXPECT_THAT(import_any("torchrun --standalone --nproc_per_node=gpu -m pkg.train -x").program,
              ElementsAre("python3", "-m", "pkg.train", "-x"));
}

TEST(Import, ReportsWhatBecomesOfEachAccelerateKey) {
  const Imported one_host = import_any(
      "distributed_type: MULTI_GPU\nnum_machines: 1\nmachine_rank: 0\nmain_process_port: 29501\n"
      "num_cpu_threads_per_process: 3\nlog_dir: logs\nmax_restarts: 2\ngpu_ids: 0,1\n"
      "fsdp_config:\n  fsdp_version: 1\n");
  EXPECT_THAT(values(one_host), UnorderedElementsAre("launch.omp_num_threads = 3", "logging.dir = logs",
                                                     "launch.max_restarts = 2"));
  EXPECT_THAT(one_host.left_out,
              UnorderedElementsAre(
                  Pair("main_process_port: 29501", "a run on one host needs neither an address nor a port"),
                  Pair("gpu_ids: 0,1", "launch with CUDA_VISIBLE_DEVICES=0,1"),
                  Pair("fsdp_config", "has no effect unless distributed_type is FSDP")));
  EXPECT_THAT(left_out(import_any("distributed_type: FSDP\nfsdp_config:\n  fsdp_forward_prefetch: true\n"
                                  "  fsdp_use_orig_params: true\n  fsdp_sync_module_states: true\n"
                                  "  fsdp_mystery: 1\n")),
              UnorderedElementsAre(
                  "fsdp_config.fsdp_forward_prefetch: true", "fsdp_config.fsdp_use_orig_params: true",
                  "fsdp_config.fsdp_sync_module_states: true", "fsdp_config.fsdp_mystery: 1"));
  EXPECT_THAT(values(import_any("distributed_type: DEEPSPEED\n")),
              ElementsAre("fsdp.sharding_strategy = shard_grad_op"))
      << "stage 2 is Accelerate's default";
}

TEST(Import, KnowsEachBooleanOfYaml) {
  for (const char* word : {"yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON", "'true'"}) {
    const Imported imported = import_any(std::string("use_cpu: ") + word + "\nenable_cpu_affinity: " + word +
                                         "\ndebug: " + word + "\n");
    EXPECT_THAT(values(imported),
                UnorderedElementsAre("launch.device = cpu", "launch.binding = numa", "logging.level = debug"))
        << word;
    EXPECT_EQ(imported.values[0].where, std::string("use_cpu: ") + (word[0] == '\'' ? "true" : word));
  }
  for (const char* word : {"no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"}) {
    const Imported imported = import_any(
        std::string("use_cpu: ") + word + "\nenable_cpu_affinity: " + word + "\ndebug: " + word +
        "\nsame_network: " + word + "\nmixed_precision: " + word +
        "\ndistributed_type: FSDP\nfsdp_config:\n  fsdp_offload_params: " + word +
        "\n  fsdp_reshard_after_forward: " + word + "\ndeepspeed_config:\n  zero3_init_flag: " + word + "\n");
    EXPECT_THAT(values(imported), ElementsAre("fsdp.sharding_strategy = shard_grad_op")) << word;
    EXPECT_THAT(imported.left_out, IsEmpty()) << word;
  }
  EXPECT_THAT(
      values(
          import_any("num_processes: 1\nddp_kwargs:\n  find_unused_parameters: On\n  comm_hook: power_sgd\n"
                     "  comm_state_option:\n    use_error_feedback: OFF\n")),
      UnorderedElementsAre("launch.processes_per_node = 1", "ddp.find_unused_parameters = true",
                           "ddp.comm_hook = power_sgd", "ddp.comm_state_option.use_error_feedback = false"));
  EXPECT_THAT(values(import_any("num_processes: 1\nddp_kwargs:\n  comm_hook: no\n")),
              Contains("ddp.comm_hook = no"));
  for (const char* key : {"use_cpu", "enable_cpu_affinity", "debug"}) {
    EXPECT_EQ(problem("num_machines: 1\n" + std::string(key) + ": maybe\n"),
              std::string(key) + ": 'maybe' is neither true nor false: write one of the two");
    EXPECT_THAT(problem("num_machines: 1\n" + std::string(key) + ": [yes]\n"),
                StartsWith(std::string(key) + ": '[yes]' is neither true nor false"));
  }
  EXPECT_THAT(left_out(import_any("num_machines: 1\nsame_network: y\n")), ElementsAre("same_network: y"));
}

TEST(Import, RefusesDuplicateKeysAndSeveralDocuments) {
  EXPECT_EQ(problem("num_processes: 2\ndebug: true\nnum_processes: 8\n"),
            "lines 1 and 3 both set 'num_processes', and Accelerate takes the last: remove the other");
  EXPECT_THAT(problem("num_processes: 2\nfsdp_config:\n  - 1\n  - {a: 1, b: [a, a], a: 2}\n"),
              StartsWith("line 4 sets 'a' twice, "));
  EXPECT_EQ(problem("num_processes: 2\n\n---\nnum_processes: 8\n"),
            "line 3: a second document begins here, and Accelerate reads only one: put the one to import "
            "into a file of its own");
  for (const char* whole : {"---\nnum_processes: 2\n...\n", "%YAML 1.1\n---\nnum_processes: 2\n",
                            "num_processes: 2\nddp_kwargs: {}\nx: &a {b: 1}\ny: *a\nz: [{b: 1}, {b: 2}]\n"})
    EXPECT_EQ(problem(whole), "none") << whole;
}

TEST(Import, ConvertsAHostfile) {
  EXPECT_THAT(values(from_file("hostfile")),
              UnorderedElementsAre("launch.processes_per_node = 8", "launch.nnodes = 2",
                                   "rendezvous.main_address = worker-1"));
  const Imported uneven = import_any("a slots=2\nb slots=4\n");
  EXPECT_THAT(values(uneven), UnorderedElementsAre("launch.nnodes = 2", "rendezvous.main_address = a"));
  EXPECT_THAT(uneven.left_out,
              ElementsAre(Pair("a slots=2",
                               "hosts have different numbers of slots: on this one, launch "
                               "with --set launch.processes_per_node=2"),
                          Pair("b slots=4", HasSubstr("--set launch.processes_per_node=4"))));
}

TEST(Import, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(problem("a: [1\n"), "line 2: not valid YAML: end of sequence flow not found");
  for (const char* text : {"just words", "#!/bin/sh\nmpirun -np 4 ./train\n", "node1\nnode2\n",
                           "deepspeed --num_gpus 4 train.py\n"})
    EXPECT_EQ(problem(text),
              "it is none of: Accelerate's YAML, a script with torchrun or accelerate launch, a hostfile "
              "(HOST slots=N)")
        << text;
  EXPECT_EQ(problem("num_processes: many\n"), "num_processes: must be an integer, not 'many'");
  EXPECT_EQ(problem("num_machines: 0\n"), "num_machines: must be at least 1");
  EXPECT_EQ(problem("torchrun --nnodes"), "--nnodes has no value");
  EXPECT_EQ(problem("torchrun 'open"), "line 1: a quotation mark ' is not closed");
  EXPECT_THAT(problem("echo mytorchrun-like"), HasSubstr("no command line of torchrun"));
  EXPECT_EQ(problem("a slots=2\na slots=2\n"), "line 2: host 'a' is given twice");
  EXPECT_EQ(problem("a slots=0\n"), "line 1: 'slots=0' must be a number of ranks, at least 1");
  EXPECT_EQ(problem("a\nb slots=1\n"), "line 1: write a host as 'NAME slots=N'");
  EXPECT_EQ(problem("# slots=\n"), "it names no host");
  EXPECT_EQ(problem(std::string(100'000, '[')),
            "it nests lists and mappings deeper than any config of Accelerate's");
  EXPECT_EQ(problem("? [a, b]\n: 1\n"),
            "line 1: a key or a value is a list or a mapping where Accelerate's config has text");
  EXPECT_THAT(left_out(import_any("num_machines: 2\nnum_processes: 3\nmystery: 1\n")),
              UnorderedElementsAre("num_processes: 3", "mystery: 1"));
}

}  // namespace
}  // namespace hookline
