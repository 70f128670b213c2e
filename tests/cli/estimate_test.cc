// `hookline estimate`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/tensor_file.h"
#include "cli/run_hookline.h"

namespace hookline {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::ProcessResult;
using testing::Sandbox;
using ::testing::StartsWith;

nlohmann::json estimated(const Sandbox& sandbox, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"estimate", "--json"});
  const ProcessResult result = sandbox.run(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return nlohmann::json::parse(result.out);
}

TEST(Estimate, CountsMemoryAndBytes) {
  const Sandbox sandbox;
  const auto json = estimated(
      sandbox, {"--shape", "1024x512", "--shape", "1024", "--optimizer", "adamw", "--ranks", "4", "--link",
                "100mbit", "--set", "ddp.comm_hook=power_sgd", "--set", "launch.backend=gloo"});
  const double count = 1024 * 512 + 1024;
  EXPECT_EQ(json.at("parameters"), count);
  const auto& memory = json.at("memory_bytes");
  EXPECT_EQ(memory.at("parameters"), 4 * count);
  EXPECT_EQ(memory.at("gradients"), 4 * count);
  EXPECT_EQ(memory.at("buckets"), 4 * count);
  EXPECT_EQ(memory.at("optimizer"), 8 * count);
  const double sent = 4.0 * (1024 + 512 + 1024);
  EXPECT_EQ(memory.at("hook"), sent + 4.0 * (1024 + 512) + 4 * count)
      << "P and Q twice, what is not compressed, and the error";
  for (const auto& hook : json.at("hooks")) {
    if (hook.at("hook") == "no") {
      EXPECT_EQ(hook.at("bytes"), 4 * count);
    }
    if (hook.at("hook") != "power_sgd") continue;
    EXPECT_EQ(hook.at("chosen"), true);
    EXPECT_EQ(hook.at("bytes"), sent);
    EXPECT_DOUBLE_EQ(hook.at("seconds"), 8 * sent * 2 * 3 / 4 / 1e8) << "a ring of four ranks";
  }
  const auto& split = json.at("sharded_memory_bytes");
  EXPECT_EQ(split.at("parameters"), count);
  EXPECT_EQ(split.at("optimizer"), 2 * count);
  EXPECT_EQ(split.at("buckets"), 5 * 4.0 * 1024 * 512)
      << "the larger parameter, its gradient, that gradient as sent and as received, and the next unit";
  const std::vector<std::string> in_units = {"--shape", "1024x512", "--shape", "512x512", "--unit", "786432"};
  EXPECT_EQ(estimated(sandbox, in_units).at("sharded_memory_bytes").at("buckets"), 5 * 4.0 * 786432);
  EXPECT_EQ(estimated(sandbox, {"--parameters", "1000", "--set", "ddp.gradient_as_bucket_view=true",
                                "--optimizer", "sgd", "--set", "launch.backend=gloo"})
                .at("memory_bytes")
                .at("all"),
            8000);
}

TEST(Estimate, CountsTheMemoryOfHalfPrecisionCasts) {
  const Sandbox sandbox;
  const auto hook_of = [&](const std::string& hook, const std::string& wrapper) -> double {
    return estimated(sandbox, {"--shape", "1000", "--set", "ddp.comm_hook=" + hook, "--set",
                               "ddp.comm_wrapper=" + wrapper})
        .at("memory_bytes")
        .at("hook");
  };
  EXPECT_EQ(hook_of("no", "no"), 0);
  EXPECT_EQ(hook_of("fp16", "no"), 2000);
  EXPECT_EQ(hook_of("allreduce", "bf16"), 2000);
}

TEST(Estimate, CountsTheMemoryOfHookAuto) {
  const Sandbox sandbox;
  const auto hook_of = [&](const std::string& allow) -> double {
    return estimated(sandbox, {"--shape", "1024x512", "--set", "ddp.comm_hook=auto", "--set",
                               "ddp.auto.allow=" + allow})
        .at("memory_bytes")
        .at("hook");
  };
  const double gradients = 4.0 * 1024 * 512;
  EXPECT_EQ(hook_of("lossless"), gradients) << "a copy, on which hooks are timed";
  EXPECT_EQ(hook_of("half"), 1.5 * gradients) << "and what fp16 sends";
  EXPECT_GE(hook_of("low_rank"), 2 * gradients + 4.0 * 4 * (1024 + 512)) << "PowerSGD's error, P and Q";
  const ProcessResult result =
      sandbox.run({"estimate", "--shape", "1024x512", "--set", "ddp.comm_hook=auto"});
  EXPECT_THAT(
      result.out,
      HasSubstr("hook: the most memory that any hook takes while it is timed on a copy of the gradients; "
                "hookline advise measures which is fastest\n"));
}

TEST(Estimate, CountsTheMemoryThatRanksOfAHostShare) {
  const Sandbox sandbox;
  const auto shared_of = [&](const std::vector<std::string>& values, const std::string& kind = "memory_bytes",
                             const std::string& ranks = "4") {
    std::vector<std::string> arguments = {"--parameters", "1000", "--ranks", ranks};
    for (const std::string& value : values) arguments.insert(arguments.end(), {"--set", value});
    const auto json = estimated(sandbox, arguments);
    const double all = json.at(kind).at("all").get<double>();
    const double shared = json.at(kind).at("shared").get<double>();
    EXPECT_GE(all, shared);
    return shared;
  };
  const double one = 2 * 1024 * 1024, beside = 4096;  // a shared segment, and its overhead
  EXPECT_NEAR(shared_of({}), 2 * one, 2 * beside) << "the World's, and that of the gradients";
  EXPECT_GE(shared_of({}), 2 * one);
  EXPECT_NEAR(shared_of({"ddp.comm_hook=power_sgd"}), 3 * one, 3 * beside) << "P and Q";
  EXPECT_NEAR(shared_of({"ddp.comm_hook=auto", "ddp.auto.allow=low_rank"}), 4 * one, 4 * beside)
      << "P and Q, and the link that is measured";
  EXPECT_NEAR(shared_of({"training.checkpoint_every_steps=10"}), 3 * one, 3 * beside);
  EXPECT_NEAR(shared_of({}, "sharded_memory_bytes"), 3 * one, 3 * beside) << "gathers and scatters";
  EXPECT_EQ(shared_of({"launch.backend=gloo"}), 0);
  EXPECT_EQ(shared_of({"launch.device=cuda"}), 0);
  EXPECT_EQ(shared_of({}, "memory_bytes", "64"), 0) << "too many ranks for shared memory";
  EXPECT_EQ(shared_of({"launch.nnodes=4", "launch.processes_per_node=1"}), 0) << "each on a host of its own";
  EXPECT_NEAR(shared_of({"launch.nnodes=2", "launch.processes_per_node=2"}), 2 * one, 2 * beside);
}

TEST(Estimate, DividesAShardedOptimizerByTheRanks) {
  const Sandbox sandbox;
  const auto of_hook = [&](const std::string& hook) {
    return estimated(sandbox, {"--shape", "512x512", "--optimizer", "adamw", "--ranks", "4", "--set",
                               "ddp.shard_optimizer=true", "--set", "ddp.comm_hook=" + hook});
  };
  const double count = 512 * 512;
  const auto json = of_hook("no");
  EXPECT_EQ(json.at("memory_bytes").at("optimizer"), 8 * count / 4);
  EXPECT_EQ(json.at("memory_bytes").at("buckets"), 4 * count + 2 * 4 * count)
      << "DDP's buckets, and one piece (here the whole model) as sent and as received";
  EXPECT_EQ(json.at("sharded_memory_bytes").at("optimizer"), 8 * count / 4) << "divided once";
  const auto sent = [&](const std::string& name) {
    const auto estimate = of_hook(name);
    for (const auto& hook : estimate.at("hooks"))
      if (hook.at("chosen")) return hook.at("bytes").get<double>();
    return 0.0;
  };
  EXPECT_EQ(sent("no"), 4 * count) << "half an all-reduce each for gradients and parameters";
  EXPECT_EQ(sent("fp16"), count + 2 * count);
  EXPECT_EQ(sent("power_sgd"), 4.0 * (512 + 512) + 2 * count);
  EXPECT_THAT(
      sandbox.run({"estimate", "--parameters", "1000", "--set", "ddp.shard_optimizer=true"}).out,
      HasSubstr(
          "1000 parameters in float32, no hook, adam sharded; memory of a rank, without activations:\n"));
}

TEST(Estimate, ReportsTheTrafficOfSharding) {
  const Sandbox sandbox;
  const auto sharded_of = [&](const std::string& hook) {
    return estimated(sandbox, {"--parameters", "1000", "--ranks", "4", "--set",
                               "fsdp.sharding_strategy=full_shard", "--set", "fsdp.comm_hook=" + hook})
        .at("sharded");
  };
  const double ring = 8 * 2 * 3.0 / 4 / 1e9;
  EXPECT_EQ(sharded_of("no"), (nlohmann::json{{{"sharding_strategy", "shard_grad_op"},
                                               {"comm_hook", "no"},
                                               {"bytes", 4000.0},
                                               {"seconds", 4000 * ring},
                                               {"chosen", false}},
                                              {{"sharding_strategy", "full_shard"},
                                               {"comm_hook", "no"},
                                               {"bytes", 6000.0},
                                               {"seconds", 6000 * ring},
                                               {"chosen", true}}}));
  EXPECT_EQ(sharded_of("bf16")[1].at("bytes"), 5000) << "gradients are cast, parameters are not";
}

TEST(Estimate, ReadsTheShapesOfAFile) {
  const Sandbox sandbox;
  const std::vector<TensorRow> rows = {{"a", "F32", {3, 4}, 0, 48}, {"steps", "I64", {1}, 48, 56}};
  sandbox.folder.write("model.safetensors", header_bytes({}, rows) + std::string(56, '\0'));
  EXPECT_EQ(estimated(sandbox, {"model.safetensors"}).at("parameters"), 12) << "counters are no parameters";
  EXPECT_EQ(estimated(sandbox, {sandbox.folder.path().string()}).at("parameters"), 12);
}

TEST(Estimate, RefusesAFileWithoutParameters) {
  const Sandbox sandbox;
  sandbox.folder.write("none.safetensors",
                       header_bytes({}, {{"steps", "I64", {1}, 0, 8}}) + std::string(8, '\0'));
  sandbox.folder.write("empty.safetensors",
                       header_bytes({}, {{"a", "F32", {0, 7}, 0, 0}, {"b", "F32", {3, 0}, 0, 0}}));
  sandbox.folder.write("text.pt", "some text");
  ProcessResult result = sandbox.run({"estimate", "none.safetensors"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err,
              HasSubstr("'none.safetensors' holds no parameters: no tensor of floating-point numbers\n"));
  result = sandbox.run({"estimate", "empty.safetensors"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err,
            "hookline: error: 'empty.safetensors' holds no parameters: each of its tensors has a dimension "
            "of size 0\n"
            "  see: hookline estimate --help\n");
  result = sandbox.run({"estimate", "text.pt"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("; nor is it a .pt file, which is a zip archive\n"));
}

TEST(Estimate, DoesNotWaitForAPipe) {
  const Sandbox sandbox;
  ASSERT_EQ(mkfifo((sandbox.folder.path() / "model.pt").c_str(), 0600), 0);
  const ProcessResult result = sandbox.run({"estimate", "model.pt"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(StartsWith("hookline: error: 'model.pt' can't be read: it is a named pipe"),
                                EndsWith("\n  see: hookline estimate --help\n")));
}

TEST(Estimate, RefusesASymlinkLoop) {
  const Sandbox sandbox;
  std::filesystem::create_symlink("loop", sandbox.folder.path() / "loop");
  const ProcessResult result = sandbox.run({"estimate", "loop"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err,
            "hookline: error: 'loop' can't be read: Too many levels of symbolic links\n"
            "  see: hookline estimate --help\n");
}

TEST(Estimate, UsesTheConfigsRankCount) {
  const Sandbox sandbox;
  std::vector<std::string> flags = {"--parameters", "1000",
                                    "--link",       "2.5Gbit",
                                    "--set",        "launch.nnodes=2",
                                    "--set",        "launch.processes_per_node=8",
                                    "--set",        "launch.device=cpu"};
  const auto seconds_without_hook = [](const nlohmann::json& json) {
    for (const auto& hook : json.at("hooks"))
      if (hook.at("hook") == "no") return hook.at("seconds").get<double>();
    return 0.0;
  };
  const auto json = estimated(sandbox, flags);
  EXPECT_EQ(json.at("ranks"), 16);
  EXPECT_EQ(json.at("hosts_that_sum"), 2);
  EXPECT_EQ(json.at("sharded_memory_bytes").at("gradients"), 250);
  EXPECT_DOUBLE_EQ(seconds_without_hook(json), 8 * 4000.0 / 2.5e9) << "each host sends its sum once";
  // A host sends its half of the parameters, and the summed gradients of the other host's half.
  const double half = 8 * 4000.0 / 2 / 2.5e9;
  EXPECT_DOUBLE_EQ(json.at("sharded").at(0).at("seconds"), 2 * half);
  EXPECT_DOUBLE_EQ(json.at("sharded").at(1).at("seconds"), 3 * half);
  flags.insert(flags.end(), {"--set", "ddp.shard_optimizer=true"});
  EXPECT_DOUBLE_EQ(seconds_without_hook(estimated(sandbox, flags)), 2 * half);
  flags.back() = "launch.backend=gloo";
  const auto over_gloo = estimated(sandbox, flags);
  EXPECT_EQ(over_gloo.at("hosts_that_sum"), 1);
  EXPECT_DOUBLE_EQ(seconds_without_hook(over_gloo), 8 * 4000.0 * 2 * 15 / 16 / 2.5e9) << "a ring of ranks";
  EXPECT_EQ(estimated(sandbox, {"--parameters", "1000"}).at("ranks"), 2);
}

TEST(Estimate, TakesNumbersAsPeopleWriteThem) {
  const Sandbox sandbox;
  for (const auto& [text, parameters] : std::map<std::string, std::int64_t>{
           {"125M", 125'000'000}, {"1.1B", 1'100'000'000}, {"64K", 64'000}, {"2.5k", 2'500}, {"7e3", 7'000}})
    EXPECT_EQ(estimated(sandbox, {"--parameters", text}).at("parameters"), parameters) << text;
}

TEST(Estimate, ReportsUnknownBytesForAProgramsHook) {
  const Sandbox sandbox;
  const std::vector<std::string> flags = {"--parameters", "1M", "--set", "ddp.comm_hook=program:mine"};
  const auto json = estimated(sandbox, flags);
  EXPECT_EQ(json.at("hooks").back(), (nlohmann::json{{"hook", "program:mine"},
                                                     {"wrapper", "no"},
                                                     {"bytes", nullptr},
                                                     {"seconds", nullptr},
                                                     {"chosen", true}}));
  std::vector<std::string> arguments = {"estimate"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  EXPECT_THAT(
      sandbox.run(arguments).out,
      HasSubstr("  program:mine               not known: it is a plug-in's or a program's; what it sends "
                "is printed at the end of a run\n"));
}

TEST(Estimate, PrintsATable) {
  const ProcessResult result =
      Sandbox().run({"estimate", "--parameters", "10000000", "--set", "ddp.comm_hook=fp16"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(
      result.out,
      HasSubstr(
          "10000000 parameters in float32, fp16, adam; memory of a rank, without activations:\n"
          "              ddp           sharded over 2\n"
          "  parameters  40 MB         20 MB\n  gradients   40 MB         20 MB\n"
          "  buckets     40 MB         21 MB\n  optimizer   80 MB         40 MB\n"
          "  hook        20 MB         0 B\n  shared      4.2 MB        6.3 MB\n"
          "  all         224 MB        107 MB\n"
          "sharded: the largest unit has 1048576 parameters (as many as the largest tensor has elements; "
          "--unit N says how many the largest FsdpUnit has)\n"
          "shared: a rank's part of the memory through which the 2 ranks of a host communicate; all of it is "
          "8.4 MB with ddp\nin a step, 2 ranks over 1gbit:\n"));
  EXPECT_THAT(result.out, HasSubstr("  fp16                       20 MB         160   <- the config's\n"));
  EXPECT_THAT(result.out, HasSubstr("  shard_grad_op              40 MB         320\n"
                                    "  full_shard                 60 MB         480\n"));
}

TEST(Estimate, CountsTheHostGroupOfABetweenHostsHook) {
  const Sandbox sandbox;
  std::vector<std::string> flags = {
      "--parameters",     "1000", "--set", "launch.nnodes=2", "--set", "launch.processes_per_node=2", "--set",
      "launch.device=cpu"};
  const double all_ranks = estimated(sandbox, flags).at("memory_bytes").at("shared");
  flags.insert(flags.end(), {"--set", "ddp.comm_scope=between_hosts"});
  const double between_hosts = estimated(sandbox, flags).at("memory_bytes").at("shared");
  EXPECT_DOUBLE_EQ(between_hosts, all_ranks * 3 / 2) << "a third segment, besides the World's and the hook's";
  flags.insert(flags.begin(), "estimate");
  EXPECT_THAT(sandbox.run(flags).out, HasSubstr("in a step, 4 ranks on 2 hosts over 1gbit:\n"));
}

// .pt files are read by a helper program; a script replaces it here.
TEST(Estimate, ReportsHowTheModelReaderExited) {
  const Sandbox sandbox;
  std::filesystem::create_directory(sandbox.folder.path() / "bin");
  const std::filesystem::path hookline = sandbox.folder.path() / "bin" / "hookline";
  std::filesystem::copy_file(HOOKLINE_BINARY, hookline);
  sandbox.folder.write("m.pt", "PK\x03\x04");
  const auto error = [&](const std::string& reader) {
    sandbox.script("libexec/hookline/model_shapes", reader);
    const ProcessResult result =
        testing::run_process(hookline.string(), sandbox.options({"estimate", "m.pt"}));
    EXPECT_EQ(result.exit_code, 2) << result.err;
    return result.err;
  };
  const std::string start = "hookline: error: 'm.pt' can't be read as a torch model: ";
  const std::string end = "\n  see: hookline estimate --help\n";
  EXPECT_THAT(error("kill -XCPU $$\n"),
              AllOf(StartsWith(start + "its reader took more than 60 s "),
                    EndsWith(": the file is damaged, or made to keep its reader busy" + end)));
  EXPECT_EQ(error("kill -SEGV $$\n"), start +
                                          "its reader was killed by SIGSEGV (signal 11): the file is "
                                          "damaged, or made to crash its reader" +
                                          end);
}

TEST(Estimate, SaysWhatIsWrong) {
  const Sandbox sandbox;
  const auto error = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "estimate");
    const ProcessResult result = sandbox.run(arguments);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.out, "");
    return result.err.substr(0, result.err.find("\n"));
  };
  EXPECT_EQ(
      error({}),
      "hookline: error: say what the model is, with one of these: a file, --shape once for each parameter, "
      "or --parameters N");
  EXPECT_THAT(error({"--parameters", "5", "--shape", "5"}),
              HasSubstr("say what the model is, with only one of these: "));
  EXPECT_EQ(
      error({"--shape", "99999999999x99999999"}),
      "hookline: error: --shape '99999999999x99999999' has more elements than any machine holds (2^50 are "
      "the most)");
  const std::string most = std::to_string(std::int64_t{1} << 50);
  EXPECT_THAT(error({"--shape", most, "--shape", "1"}), HasSubstr("the model has more parameters"));
  std::vector<std::string> shapes;
  for (int i = 0; i < 8192; ++i) shapes.insert(shapes.end(), {"--shape", most});
  EXPECT_THAT(error(shapes), HasSubstr("the model has more parameters")) << "2^63 of them";
  EXPECT_EQ(error({"--parameters", "5", "--link", "1e-300mbit"}),
            "hookline: error: --link '1e-300mbit' is out of range: a speed must be from 0.001mbit to "
            "1000000gbit");
  EXPECT_THAT(error({"--parameters", "5", "--link", "1e300gbit"}),
              HasSubstr("--link '1e300gbit' is out of range"));
  EXPECT_EQ(error({"--shape", "10x"}),
            "hookline: error: --shape '10x' is not a shape: write its sizes as 1024x512, or 10 for a vector");
  EXPECT_THAT(error({"--parameters", "5", "--link", "fast"}), HasSubstr("--link 'fast' is not a speed"));
  EXPECT_EQ(
      error({"--parameters", "5", "--optimizer", "lion"}),
      "hookline: error: there is no optimizer 'lion': choose sgd, momentum, adagrad, rmsprop, adam or adamw");
  EXPECT_EQ(error({"--parameters", "5", "--unit", "6"}),
            "hookline: error: --unit 6 is more than the model's 5 parameters");
  EXPECT_EQ(error({"none"}),
            "hookline: error: 'none' is neither a model file nor a checkpoint: 'none' is not there");
  EXPECT_THAT(error({"1e9"}),
              EndsWith(": '1e9' is not there; for a number of parameters write --parameters 1e9"));
  sandbox.folder.write("saved/step_00000020/manifest.json", "{}");
  sandbox.folder.write("saved/step_00000040/manifest.json", "{}");
  EXPECT_EQ(error({"saved"}),
            "hookline: error: 'saved' holds checkpoints: name one of them, such as 'saved/step_00000040'");
}

}  // namespace
}  // namespace hookline
