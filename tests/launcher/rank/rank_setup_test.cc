// What a rank gets before it starts: program, environment, folder, store.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>

#include "config/visible_gpus.h"
#include "launcher/launch/node_setup.h"
#include "launcher/launch/script_kind.h"
#include "launcher/process/own_address.h"
#include "launcher/rank/program.h"
#include "launcher/rank/rank_environment.h"
#include "launcher/rank/rank_sockets.h"
#include "launcher/rank/run_folder.h"
#include "support/process.h"

namespace hookline {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;
using testing::TemporaryFolder;
using ::testing::UnorderedElementsAre;

TEST(VisibleGpus, ReadsCudaVisibleDevicesAsCudaDoes) {
  EXPECT_EQ(visible_gpus(4, std::nullopt), 4);
  EXPECT_EQ(visible_gpus(4, ""), 0);
  EXPECT_EQ(visible_gpus(4, "0"), 1);
  EXPECT_EQ(visible_gpus(4, "3, 1"), 2);
  EXPECT_EQ(visible_gpus(4, "0,-1,1"), 1);
  EXPECT_EQ(visible_gpus(4, "0,7,1"), 1);
  EXPECT_EQ(visible_gpus(4, "NoDevFiles"), 0);
  EXPECT_EQ(visible_gpus(4, "GPU-8932f937,GPU-1234"), 2);
  EXPECT_EQ(visible_gpus(0, "0,1"), 0);
}

RunPlace some_place() {
  RunPlace place;
  place.ranks = 3;
  place.store_port = 4321;
  place.store_descriptor = 9;
  place.run_folder = "/runs/today";
  place.log_folder = "/runs/today/attempt_1";
  place.restarts = 1;
  place.max_restarts = 4;
  place.omp_num_threads = "2";
  return place;
}

TEST(RankEnvironment, HoldsWhatTorchrunSetsAndWhereTheRunIs) {
  EXPECT_THAT(
      rank_environment({}, some_place(), 0),
      UnorderedElementsAre("RANK=0", "LOCAL_RANK=0", "WORLD_SIZE=3", "LOCAL_WORLD_SIZE=3", "GROUP_RANK=0",
                           "GROUP_WORLD_SIZE=1", "ROLE_RANK=0", "ROLE_WORLD_SIZE=3", "ROLE_NAME=default",
                           "MASTER_ADDR=127.0.0.1", "MASTER_PORT=4321", "TORCHELASTIC_RESTART_COUNT=1",
                           "TORCHELASTIC_MAX_RESTARTS=4", "TORCHELASTIC_RUN_ID=today",
                           "TORCHELASTIC_ERROR_FILE=/runs/today/attempt_1/0/error.json", "OMP_NUM_THREADS=2",
                           "HOOKLINE_CONFIG=/runs/today/resolved.json", "HOOKLINE_RUN_DIR=/runs/today",
                           "MALLOC_MMAP_THRESHOLD_=1000000000000", "MALLOC_TRIM_THRESHOLD_=1000000000000",
                           "HOOKLINE_STORE_FD=9"));
}

TEST(RankEnvironment, KeepsTheUsersAllocatorSettings) {
  for (const std::string own :
       {"MALLOC_MMAP_THRESHOLD_=1", "MALLOC_TRIM_THRESHOLD_=1", "GLIBC_TUNABLES=glibc.malloc.hugetlb=1"}) {
    std::vector<std::string> of_malloc;
    for (const std::string& variable : rank_environment({own}, some_place(), 0)) {
      if (variable.starts_with("MALLOC_") || variable.starts_with("GLIBC_")) of_malloc.push_back(variable);
    }
    EXPECT_THAT(of_malloc, ElementsAre(own));
  }
}

TEST(RankEnvironment, TellsAccelerateOfTheCpu) {
  const auto of_accelerate = [](const std::vector<std::string>& base, bool is_on_cpu) {
    RunPlace place = some_place();
    place.is_on_cpu = is_on_cpu;
    std::vector<std::string> found;
    for (const std::string& variable : rank_environment(base, place, 0))
      if (variable.starts_with("ACCELERATE_")) found.push_back(variable);
    return found;
  };
  EXPECT_THAT(of_accelerate({}, true), ElementsAre("ACCELERATE_USE_CPU=true"));
  EXPECT_THAT(of_accelerate({"ACCELERATE_USE_CPU=false"}, true), ElementsAre("ACCELERATE_USE_CPU=false"));
  EXPECT_THAT(of_accelerate({}, false), ::testing::IsEmpty());
}

TEST(RankEnvironment, GivesTheStoreToRankZeroAlone) {
  EXPECT_THAT(rank_environment({"HOOKLINE_STORE_FD=3"}, some_place(), 1),
              Not(Contains(::testing::StartsWith("HOOKLINE_STORE_FD="))));
}

TEST(RankEnvironment, LeadsToTheLaunchersStoreWithItsPort) {
  RunPlace place = some_place();
  place.node.store_name = "abcde";
  EXPECT_THAT(rank_environment({}, place, 1), Contains("HOOKLINE_STORE=4321:abcde"));
  EXPECT_THAT(rank_environment({}, place, 1), Not(Contains("TORCHELASTIC_USE_AGENT_STORE=True")));
}

TEST(RankEnvironment, SetsTheInterfaceForBackendsThatWouldGuessOne) {
  RunPlace place = some_place();
  place.node.interface = "e0";
  const auto names_one = Contains(::testing::HasSubstr("_SOCKET_IFNAME="));
  EXPECT_THAT(rank_environment({}, place, 1), Not(names_one)) << "hookline's own ranks of one host";
  place.node.has_agent_store = true;
  EXPECT_THAT(rank_environment({}, place, 1), Contains("TORCHELASTIC_USE_AGENT_STORE=True"));
  EXPECT_THAT(rank_environment({}, place, 1), Contains("GLOO_SOCKET_IFNAME=e0"));
  EXPECT_THAT(rank_environment({}, place, 1), Not(Contains("NCCL_SOCKET_IFNAME==e0")));
  place.node.nodes = 2;
  EXPECT_THAT(rank_environment({}, place, 1), Contains("NCCL_SOCKET_IFNAME==e0"));
  const auto users = rank_environment({"GLOO_SOCKET_IFNAME=e1", "NCCL_SOCKET_IFNAME=e2"}, place, 1);
  EXPECT_THAT(users, Contains("GLOO_SOCKET_IFNAME=e1"));
  EXPECT_THAT(users, Contains("NCCL_SOCKET_IFNAME=e2"));
  EXPECT_THAT(users, Not(AnyOf(Contains("GLOO_SOCKET_IFNAME=e0"), Contains("NCCL_SOCKET_IFNAME==e0"))));
  const TemporaryFolder folder;
  const std::string conf = folder.write("nccl.conf", "NCCL_SOCKET_IFNAME=ib0\n");
  EXPECT_THAT(rank_environment({"NCCL_CONF_FILE=" + conf}, place, 1),
              Not(Contains("NCCL_SOCKET_IFNAME==e0")));
  const auto inner = rank_environment({"HOOKLINE_INTERFACE=lo", "GLOO_SOCKET_IFNAME=lo"}, place, 1);
  EXPECT_THAT(inner, Contains("GLOO_SOCKET_IFNAME=e0")) << "the other one is of a launcher around this one";
  EXPECT_THAT(inner, Not(Contains("GLOO_SOCKET_IFNAME=lo")));
  EXPECT_THAT(inner, Contains("HOOKLINE_INTERFACE=e0"));
}

TEST(OwnAddress, KnowsTheInterfaceThatLeadsThere) {
  EXPECT_EQ(interface_towards("127.0.0.1"), "lo");
  EXPECT_EQ(interface_towards("::1"), "");
  EXPECT_EQ(interface_towards("localhost"), "");
  EXPECT_EQ(interface_towards(""), "");
}

TEST(RankEnvironment, KeepsTheUsersVariablesAndReplacesAnOuterLaunchers) {
  const auto variables =
      rank_environment({"HOME=/root", "RANK=7", "RANKING=high", "TORCHELASTIC_USE_AGENT_STORE=True",
                        "HOOKLINE_STORE=99:other", "HOOKLINE_DDP__COMM_HOOK=fp16"},
                       some_place(), 1);
  EXPECT_THAT(variables, Contains("HOME=/root"));
  EXPECT_THAT(variables, Contains("RANKING=high"));
  EXPECT_THAT(variables, Contains("HOOKLINE_DDP__COMM_HOOK=fp16"));
  EXPECT_THAT(variables, Contains("RANK=1"));
  EXPECT_THAT(variables, Not(Contains("RANK=7")));
  EXPECT_THAT(variables, Not(Contains("TORCHELASTIC_USE_AGENT_STORE=True")));
  EXPECT_THAT(variables, Not(Contains("HOOKLINE_STORE=99:other")));
}

TEST(RunsPython, IsSeenOnTheCommandLine) {
  const TemporaryFolder folder;
  const auto runs = [&](const std::vector<std::string>& command) {
    return runs_python(find_program(command, search_path()));
  };
  const std::string plain = folder.write("train.py", "print(1)\n");
  const std::string with_line = folder.write("train", "#!/usr/bin/env -S python3 -u\nprint(1)\n", true);
  const std::string shell = folder.write("start", "#!/bin/sh\nexec python3 train.py\n", true);
  EXPECT_TRUE(runs({plain}));
  EXPECT_TRUE(runs({with_line}));
  EXPECT_TRUE(runs({"python3", "-m", "train"}));
  EXPECT_TRUE(runs({"/usr/bin/env", "python3", "-m", "train"}));
  EXPECT_TRUE(runs({"/usr/bin/env", "A=1", "/opt/bin/python3.11", "-m", "train"}));
  EXPECT_TRUE(runs({shell, plain}));
  EXPECT_FALSE(runs({shell})) << "it starts Python, but does not show it";
  EXPECT_TRUE(runs({"/usr/bin/env", with_line}));
  EXPECT_TRUE(runs({"/bin/sh", "-c", "ulimit -n 9000; exec python3 -m train --fast"}));
  EXPECT_FALSE(runs({"/bin/sh", "-c", "exec ./start"}));
  EXPECT_FALSE(runs({"/usr/bin/env", "./train", "--lang", "python-like"}));
}

TEST(RunId, FollowsFromWhatIsStarted) {
  RunConfig config;
  Program program;
  program.file = program.executable = "/bin/train";
  program.arguments = {"train"};
  const std::string id = run_id_of(config, program, 2);
  EXPECT_EQ(run_id_of(config, program, 2), id);
  Program with_argument = program, other = program;
  with_argument.arguments.emplace_back("--fast");
  other.file = other.executable = "/bin/evaluate";
  RunConfig with_hook = config;
  with_hook.ddp.comm_hook = "fp16";
  EXPECT_NE(run_id_of(config, with_argument, 2), id);
  EXPECT_NE(run_id_of(config, other, 2), id);
  EXPECT_NE(run_id_of(with_hook, program, 2), id);
  config.rendezvous.run_id = "mine";
  EXPECT_EQ(run_id_of(config, program, 2), "mine");
}

TEST(OmpNumThreads, DividesTheCoresUnlessTheUserSetsIt) {
  RunConfig config;
  EXPECT_EQ(omp_num_threads(config, std::nullopt, 8, 2), "4");
  EXPECT_EQ(omp_num_threads(config, std::nullopt, 2, 3), "1");
  EXPECT_EQ(omp_num_threads(config, "6", 8, 2), "6");
}

TEST(OmpNumThreads, PrefersTheVariableToTheFileAndTheCommandLineToBoth) {
  RunConfig config;
  config.launch.omp_num_threads = 3;
  config.origins["launch.omp_num_threads"] = {OriginKind::file, "run.toml:2:1"};
  EXPECT_EQ(omp_num_threads(config, std::nullopt, 8, 2), "3");
  EXPECT_EQ(omp_num_threads(config, "6", 8, 2), "6");
  config.origins["launch.omp_num_threads"] = {OriginKind::command_line, "--set launch.omp_num_threads"};
  EXPECT_EQ(omp_num_threads(config, "6", 8, 2), "3");
}

struct Caught {
  std::string what;
  int code = 0;
};

Caught catch_program_error(const std::vector<std::string>& command, const std::string& search_path) {
  try {
    find_program(command, search_path);
  } catch (const ProgramError& error) {
    return {error.what(), error.exit_code()};
  }
  return {};
}

TEST(FindProgram, SearchesThePathOnlyForNamesWithoutASlash) {
  TemporaryFolder folder;
  const fs::path first = folder.write("a/tool", "", false),
                 second = folder.write("b/tool", "#!/bin/sh\n", true);
  const std::string path = first.parent_path().string() + ":" + second.parent_path().string();
  const Program program = find_program({"tool", "--help", "x"}, path);
  EXPECT_EQ(program.file, second);
  EXPECT_EQ(program.executable, second);
  EXPECT_THAT(program.arguments, ElementsAre("tool", "--help", "x"));
  EXPECT_EQ(find_program({second.string()}, "").file, second);
}

TEST(FindProgram, FailsWithAShellsExitCodes) {
  TemporaryFolder folder;
  const std::string plain = folder.write("plain", "data");
  const Caught missing = catch_program_error({folder.path() / "nothing"}, "");
  EXPECT_EQ(missing.what, "program '" + (folder.path() / "nothing").string() + "' does not exist");
  EXPECT_EQ(missing.code, 127);
  const Caught not_in_path = catch_program_error({"hookline-no-such-program"}, "/bin:/usr/bin");
  EXPECT_EQ(not_in_path.what, "program 'hookline-no-such-program' was not found in PATH");
  EXPECT_EQ(not_in_path.code, 127);
  const Caught not_executable = catch_program_error({plain}, "");
  EXPECT_EQ(not_executable.what, "program '" + plain + "' is not executable; try: chmod +x " + plain);
  EXPECT_EQ(not_executable.code, 126);
  const Caught directory = catch_program_error({folder.path()}, "");
  EXPECT_EQ(directory.what, "program '" + folder.path().string() + "' is a directory");
  EXPECT_EQ(directory.code, 126);
  EXPECT_EQ(catch_program_error({""}, "/bin").what, "the program's name is empty");
}

TEST(FindProgram, RunsAPythonScriptWithoutAShebangWithPython) {
  TemporaryFolder folder;
  const fs::path python = folder.write("bin/python3", "#!/bin/sh\n", true);
  const std::string path = python.parent_path();
  for (const bool executable : {false, true}) {
    const fs::path script = folder.write("train.py", "print('hi')\n", executable);
    const Program program = find_program({script, "-x"}, path);
    EXPECT_EQ(program.file, script);
    EXPECT_EQ(program.executable, python);
    EXPECT_THAT(program.arguments, ElementsAre("python3", "-u", script.string(), "-x"));
  }
  const fs::path runnable = folder.write("run.py", "#!/usr/bin/env python3\n", true);
  EXPECT_EQ(find_program({runnable}, path).executable, runnable);
  const Caught no_python = catch_program_error({folder.path() / "train.py"}, "/nowhere");
  EXPECT_EQ(no_python.what, "'python3', which is to run '" + (folder.path() / "train.py").string() +
                                "', was not found in PATH");
  EXPECT_EQ(no_python.code, 127);
}

TEST(RunFolder, IsNewForEveryRunAndTheLatestIsLinked) {
  TemporaryFolder folder;
  const fs::path parent = folder.path() / "deep" / "runs";
  const RunFolder first(parent, {"# one\n", "{}\n"}), second(parent, {"# two\n", "{}\n"});
  EXPECT_NE(first.path(), second.path());
  EXPECT_EQ(testing::read_file(first.path() / "resolved.toml"), "# one\n");
  EXPECT_EQ(testing::read_file(first.path() / "resolved.json"), "{}\n");
  EXPECT_EQ(first.make_attempt(3, 2), first.path() / "attempt_3");
  EXPECT_TRUE(fs::is_directory(first.path() / "attempt_3" / "1"));
  EXPECT_EQ(fs::read_symlink(parent / "latest"), second.path().filename());
}

TEST(RunFolder, LeavesAFolderCalledLatestAlone) {
  TemporaryFolder folder;
  folder.write("latest/precious", "data");
  const RunFolder run(folder.path(), {"", ""});
  EXPECT_EQ(testing::read_file(folder.path() / "latest" / "precious"), "data");
}

TEST(StoreSocket, HoldsItsPortWithoutListening) {
  const StoreSocket store = bind_store_socket();
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(store.port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto* raw = reinterpret_cast<const sockaddr*>(&address);
  const FileDescriptor client(socket(AF_INET, SOCK_STREAM, 0));
  EXPECT_NE(connect(client.get(), raw, sizeof address), 0) << "nobody listens yet";

  const FileDescriptor python_rank(socket(AF_INET, SOCK_STREAM, 0));
  const int yes = 1;
  setsockopt(python_rank.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  ASSERT_EQ(bind(python_rank.get(), raw, sizeof address), 0);
  ASSERT_EQ(listen(python_rank.get(), 1), 0);
  EXPECT_EQ(connect(client.get(), raw, sizeof address), 0);
}

}  // namespace
}  // namespace hookline
