#include "launcher/schedulers/surroundings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace hookline {
namespace {

using Variables = std::map<std::string, std::string>;

std::optional<Surroundings> of(const Variables& variables, const std::string& name = "host",
                               const Variables& files = {}) {
  const auto variable = [&](const std::string& key) {
    const auto found = variables.find(key);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  const auto read = [&](const std::string& key) {
    const auto found = files.find(key);
    return found == files.end() ? NamedText{"", "No such file or directory"} : NamedText{found->second, ""};
  };
  return surroundings({variable, read, name});
}

TEST(Surroundings, AreNoneOnAnOrdinaryMachine) { EXPECT_FALSE(of({{"PATH", "/bin"}})); }

TEST(Surroundings, OfASlurmStepNameItsNodes) {
  const Variables step = {{"SLURM_JOB_ID", "1234"},
                          {"SLURM_STEP_ID", "2"},
                          {"SLURM_STEP_NUM_NODES", "3"},
                          {"SLURM_NODEID", "1"},
                          {"SLURM_STEP_NODELIST", "gpu[08-10]"},
                          {"SLURM_LOCALID", "0"}};
  const auto place = of(step);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->scheduler, "Slurm");
  EXPECT_EQ(place->nodes, 3);
  EXPECT_EQ(place->node_rank, 1);
  EXPECT_EQ(place->main_address, "gpu08");
  EXPECT_EQ(place->run_id, "slurm-1234-2");
  EXPECT_EQ(place->main_port, 15000 + 1234);
  EXPECT_EQ(place->problem, "");

  Variables crowded = step;
  crowded["SLURM_LOCALID"] = "1";
  EXPECT_EQ(of(crowded)->problem,
            "Slurm has started several launchers on this node (SLURM_LOCALID is above 0), and each starts "
            "ranks of its own: "
            "srun needs --ntasks-per-node=1");
}

TEST(Surroundings, OfASlurmBatchScriptCoverOnlyOneNode) {
  EXPECT_FALSE(of({{"SLURM_JOB_ID", "1234"}, {"SLURM_JOB_NUM_NODES", "1"}}));
  EXPECT_EQ(
      of({{"SLURM_JOB_ID", "1234"}, {"SLURM_JOB_NUM_NODES", "2"}})->problem,
      "this job has 2 nodes, and the launcher was started on one of them only: start it on each, with 'srun "
      "--ntasks-per-node=1 hookline launch …', or set [launch] nnodes = 1 to use this one alone");
}

TEST(Surroundings, OfOpenMpiNameItsProcesses) {
  Variables mpi = {{"OMPI_COMM_WORLD_SIZE", "4"},
                   {"OMPI_COMM_WORLD_RANK", "3"},
                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
                   {"PMIX_NAMESPACE", "77"},
                   {"OMPI_MCA_orte_hnp_uri", "3145728000.0;tcp://10.0.0.1,172.17.0.1:33979"}};
  auto place = of(mpi);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->nodes, 4);
  EXPECT_EQ(place->node_rank, 3);
  EXPECT_EQ(place->main_address, "10.0.0.1");
  EXPECT_EQ(place->run_id, "mpirun-77");
  mpi["OMPI_COMM_WORLD_LOCAL_SIZE"] = "4";
  EXPECT_EQ(of(mpi)->main_address, "127.0.0.1");
  mpi["SLURM_JOB_ID"] = "1";
  EXPECT_EQ(of(mpi)->scheduler, "Open MPI") << "started by mpirun inside of a Slurm job";
}

TEST(Surroundings, OfAPodOfAnIndexedJobNameTheFirstPod) {
  const auto place = of({{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}, {"JOB_COMPLETION_INDEX", "2"}},
                        "train-2.train.default.svc.cluster.local");
  ASSERT_TRUE(place);
  EXPECT_EQ(place->node_rank, 2);
  EXPECT_EQ(place->main_address, "train-0.train.default.svc.cluster.local");
  EXPECT_EQ(place->run_id, "train");
  EXPECT_EQ(
      of({{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}, {"JOB_COMPLETION_INDEX", "2"}}, "other")->main_address,
      "");
}

TEST(Surroundings, OfHydraMeetAtTheFirstHostOfItsFileOrJob) {
  Variables hydra = {
      {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "1"}};
  auto place = of(hydra);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->scheduler, "Hydra");
  EXPECT_EQ(place->nodes, 2);
  EXPECT_EQ(place->node_rank, 1);
  EXPECT_EQ(place->main_address, "");
  EXPECT_EQ(place->unsaid, "Hydra's variables do not say where the nodes meet");
  Variables slurm = hydra;
  slurm.insert({{"SLURM_JOB_ID", "7"},
                {"SLURM_JOB_NODELIST", "n[3-4]"},
                {"SLURM_STEP_ID", "0"},
                {"SLURM_STEP_NODELIST", "n4"},
                {"SLURM_STEP_NUM_NODES", "1"}});
  EXPECT_EQ(of(slurm)->main_address, "n3") << "Hydra starts its own helpers by srun";
  EXPECT_EQ(of(slurm)->run_id, "slurm-7");
  Variables pbs = hydra;
  pbs.insert({{"PBS_JOBID", "12.server"}, {"PBS_NODEFILE", "/nodes"}});
  place = of(pbs, "host", {{"/nodes", "b\nb\na\n"}});
  EXPECT_EQ(place->main_address, "b");
  EXPECT_EQ(place->address_from, "PBS_NODEFILE");
  EXPECT_EQ(place->unsaid, "");
  pbs["HYDRA_HOST_FILE"] = "/hosts";
  EXPECT_EQ(
      of(pbs, "host", {{"/nodes", "b\na\n"}, {"/hosts", "# mine\n\n a:2 binding=x\nb\n"}})->main_address,
      "a");
  hydra["MPI_LOCALNRANKS"] = "2";
  EXPECT_EQ(of(hydra)->main_address, "127.0.0.1");
  // Slurm also sets PMI's variables in its steps.
  EXPECT_EQ(
      of({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"}})->scheduler,
      "Slurm");
}

TEST(Surroundings, RecognizeOtherMpiStarters) {
  auto place =
      of({{"MV2_COMM_WORLD_RANK", "2"}, {"MV2_COMM_WORLD_SIZE", "3"}, {"MV2_COMM_WORLD_LOCAL_SIZE", "1"}});
  EXPECT_EQ(place->scheduler, "MVAPICH");
  EXPECT_EQ(place->node_rank, 2);
  place = of({{"PALS_RANKID", "1"},
              {"PALS_LOCAL_SIZE", "1"},
              {"PALS_APID", "abc"},
              {"PMI_SIZE", "2"},
              {"PMI_RANK", "1"},
              {"PBS_JOBID", "1"},
              {"PBS_NODEFILE", "/nodes"}},
             "b", {{"/nodes", "a\nb\n"}});
  EXPECT_EQ(place->scheduler, "PALS");
  EXPECT_EQ(place->nodes, 2);
  EXPECT_EQ(place->main_address, "a");
  EXPECT_EQ(place->run_id, "pals-abc");
  EXPECT_THAT(of({{"PALS_RANKID", "1"}, {"PALS_LOCAL_SIZE", "1"}})->unsaid,
              ::testing::MatchesRegex("PALS's .* how many nodes there are; PALS's .* where the nodes meet"));
  place = of({{"PMIX_RANK", "3"}, {"PMIX_NAMESPACE", "x"}});
  EXPECT_EQ(place->node_rank, 3);
  EXPECT_EQ(place->nodes, 0);
  EXPECT_EQ(place->unsaid, "PMIX_RANK=3, and PMIx's variables do not say how many nodes there are");
  place = of({{"JSM_NAMESPACE_RANK", "1"},
              {"JSM_NAMESPACE_SIZE", "2"},
              {"JSM_NAMESPACE_LOCAL_SIZE", "1"},
              {"OMPI_COMM_WORLD_RANK", "1"},
              {"OMPI_COMM_WORLD_SIZE", "2"},
              {"LSB_JOBID", "9"},
              {"LSB_HOSTS", "batch1 h1 h1 h2 h2"}});
  EXPECT_EQ(place->scheduler, "jsrun");
  EXPECT_EQ(place->main_address, "h1") << "the first host runs jsrun, and no ranks";
  EXPECT_EQ(place->run_id, "lsf-9");
}

TEST(Surroundings, OfPbsNameTheNodesInItsFile) {
  const Variables files = {{"/nodes", "n1.example\nn1.example\nn2.example\n"}};
  Variables job = {{"PBS_JOBID", "1234[5].server"},
                   {"PBS_NODEFILE", "/nodes"},
                   {"PBS_NODENUM", "1"},
                   {"PBS_TASKNUM", "1"}};
  auto place = of(job, "n2", files);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->scheduler, "PBS");
  EXPECT_EQ(place->nodes, 2);
  EXPECT_EQ(place->node_rank, 1);
  EXPECT_EQ(place->rank_from, "PBS_NODENUM");
  EXPECT_EQ(place->main_address, "n1.example");
  EXPECT_EQ(place->run_id, "pbs-1234[5].server");
  EXPECT_EQ(place->problem, "");
  job.erase("PBS_NODENUM");
  EXPECT_EQ(of(job, "n2", files)->rank_from, "PBS_NODEFILE");
  EXPECT_EQ(of(job, "n2", files)->node_rank, 1);
  EXPECT_EQ(of(job, "n7", files)->unsaid,
            "the hosts of PBS's job, in PBS_NODEFILE, do not include this one, n7");
  job["PBS_NODENUM"] = "0";
  EXPECT_EQ(
      of(job, "n1", files)->problem,
      "this job has 2 nodes, and the launcher was started on the first of them only: start it on each, with "
      "'mpiexec' or 'pbsdsh' (if by other means, add --set launch.node_rank=N), or set [launch] "
      "nnodes = 1 "
      "to use this one alone");
  EXPECT_FALSE(of(job, "n1", {{"/nodes", "n1\nn1\n"}})) << "one host";
  job["PBS_TASKNUM"] = "2";
  EXPECT_EQ(of(job, "n1", files)->problem, "") << "started by pbsdsh";
  job["PBS_NODENUM"] = "1";
  EXPECT_EQ(of(job, "n2")->unsaid, "PBS_NODEFILE=/nodes can't be read: No such file or directory");
  EXPECT_EQ(of(job, "n2")->node_rank, 1) << "its number is known";
}

TEST(Surroundings, OfLsfAndGridEngineNumberNodesByHostName) {
  Variables lsf = {{"LSB_JOBID", "5"}, {"LSB_JOBINDEX", "2"}, {"LSB_MCPU_HOSTS", "h1 4 h2 4 h3 4"}};
  auto place = of(lsf, "h3.example");
  ASSERT_TRUE(place);
  EXPECT_EQ(place->nodes, 3);
  EXPECT_EQ(place->node_rank, 2);
  EXPECT_EQ(place->main_address, "h1");
  EXPECT_EQ(place->run_id, "lsf-5-2");
  lsf["LSB_DJOB_HOSTFILE"] = "/hosts";
  EXPECT_EQ(of(lsf, "h9", {{"/hosts", "h8\nh9\n"}})->nodes_from, "LSB_DJOB_HOSTFILE");
  EXPECT_EQ(of(lsf, "h3")->nodes_from, "LSB_MCPU_HOSTS") << "a file that can't be read";
  EXPECT_FALSE(of({{"LSB_JOBID", "5"}, {"LSB_HOSTS", "h1 h1"}}, "h1"));

  Variables sge = {{"JOB_ID", "6"}, {"SGE_TASK_ID", "undefined"}, {"PE_HOSTFILE", "/pe"}, {"NHOSTS", "2"}};
  place = of(sge, "g2", {{"/pe", "g1.example 4 all.q@g1 UNDEFINED\ng2.example 4 all.q@g2 UNDEFINED\n"}});
  EXPECT_EQ(place->scheduler, "Grid Engine");
  EXPECT_EQ(place->nodes, 2);
  EXPECT_EQ(place->node_rank, 1);
  EXPECT_EQ(place->main_address, "g1.example");
  EXPECT_EQ(place->run_id, "sge-6");
  place = of(sge, "g2");
  EXPECT_EQ(place->nodes, 2);
  EXPECT_EQ(place->rank_from, "");
  EXPECT_EQ(
      place->unsaid,
      "PE_HOSTFILE=/pe can't be read: No such file or directory; nothing else says which node this is or "
      "where the nodes meet");
  EXPECT_FALSE(of({{"JOB_ID", "6"}, {"PE_HOSTFILE", "/pe"}}, "g1", {{"/pe", "g1 4 all.q@g1 UNDEFINED\n"}}));
}

TEST(Surroundings, SayWhyTheirVariablesCannotBeUsed) {
  const std::vector<std::pair<Variables, std::string>> cases = {
      {{{"PBS_JOBID", "1"}, {"PBS_NODEFILE", "/nope"}},
       "PBS_NODEFILE=/nope can't be read: No such file or directory"},
      {{{"PBS_JOBID", "1"}, {"PBS_NODEFILE", "/empty"}}, "PBS_NODEFILE=/empty names no hosts"},
      {{{"PBS_NODEFILE", "/empty"}}, "PBS_NODEFILE=/empty is not used, since PBS_JOBID is not set"},
      {{{"LSB_JOBID", "1"}, {"LSB_DJOB_HOSTFILE", "/nope"}},
       "LSB_DJOB_HOSTFILE=/nope can't be read: No such file or directory"},
      {{{"JOB_ID", "1"}, {"PE_HOSTFILE", "/nope"}},
       "PE_HOSTFILE=/nope can't be read: No such file or directory"},
      {{{"PMI_RANK", "abc"}, {"PMI_SIZE", "2"}}, "PMI_RANK=abc is not a number from 0 to 4095"},
      {{{"OMPI_COMM_WORLD_RANK", "x"}}, "OMPI_COMM_WORLD_RANK=x is not a number from 0 to 4095"},
      {{{"OMPI_COMM_WORLD_RANK", "1"}}, "Open MPI's variables do not say how many nodes there are"},
      {{{"SLURM_JOB_ID", "x"}}, "SLURM_JOB_ID=x is not a number"},
      {{{"SLURM_JOB_ID", "1"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_NODES", "two"}},
       "SLURM_STEP_NUM_NODES=two is not a number from 1 to 4096"},
      {{{"PMIX_RANK", "x"}}, "PMIX_RANK=x is not a number from 0 to 4095"},
      {{{"JOB_COMPLETION_INDEX", "x"}}, "JOB_COMPLETION_INDEX=x is not a number from 0 to 4095"},
  };
  for (const auto& [variables, unsaid] : cases) {
    const auto place = of(variables, "host", {{"/empty", ""}});
    ASSERT_TRUE(place) << unsaid;
    EXPECT_FALSE(place->is_known()) << unsaid;
    EXPECT_EQ(place->unsaid, unsaid);
    EXPECT_EQ(place->nodes, 0) << unsaid;
  }
}

TEST(Surroundings, GiveARankEvenIfTheNodeCountIsUnknown) {
  EXPECT_EQ(of({{"PMIX_RANK", "1"}})->node_rank, 1);
  EXPECT_EQ(of({{"PMIX_RANK", "1"}})->nodes, 0);
  const auto pod = of({{"JOB_COMPLETION_INDEX", "0"}});
  EXPECT_EQ(pod->rank_from, "JOB_COMPLETION_INDEX");
  EXPECT_EQ(pod->unsaid, "JOB_COMPLETION_INDEX=0, and nothing says how many nodes Kubernetes' job has");
}

TEST(Surroundings, FallBackToAnotherSchedulerIfUnusable) {
  const auto place =
      of({{"PMI_RANK", "abc"}, {"PMI_SIZE", "2"}, {"PBS_JOBID", "1"}, {"PBS_NODEFILE", "/nodes"}}, "b",
         {{"/nodes", "a\nb\n"}});
  EXPECT_EQ(place->scheduler, "PBS");
  EXPECT_EQ(place->node_rank, 1);
  EXPECT_EQ(place->notes, std::vector<std::string>{
                              "PMI_RANK=abc is not a number from 0 to 4095; PBS's variables are used"});
  const auto lsf = of({{"LSB_JOBID", "1"}, {"LSB_DJOB_HOSTFILE", "/nope"}, {"LSB_HOSTS", "h1"}}, "h1");
  EXPECT_EQ(lsf->nodes, 1);
  EXPECT_EQ(lsf->notes, std::vector<std::string>{"LSB_DJOB_HOSTFILE=/nope can't be read: No such file or "
                                                 "directory; LSB_HOSTS is used instead"});
}

TEST(Surroundings, ThatContradictThemselvesAreAProblem) {
  const Variables files = {{"/nodes", "host\nother\n"}};
  Variables job = {{"PBS_JOBID", "1"}, {"PBS_NODEFILE", "/nodes"}, {"PBS_NODENUM", "7"}};
  EXPECT_EQ(of(job, "host", files)->problem,
            "PBS_NODENUM=7 is too large for the 2 hosts that PBS_NODEFILE names, counted from 0: set "
            "[launch] nnodes = 1 to use this node alone, or correct the variables");
  job["PBS_NODENUM"] = "x";
  const auto place = of(job, "other", files);
  EXPECT_EQ(place->problem, "");
  EXPECT_EQ(place->node_rank, 1);
  EXPECT_EQ(place->notes,
            std::vector<std::string>{"PBS_NODENUM=x is not a number from 0 to 4095; the name of this "
                                     "host, other, tells which node it is"});
  EXPECT_EQ(
      of({{"PMI_RANK", "1"}, {"PMI_SIZE", "1"}})->problem,
      "PMI_RANK=1 is not below PMI_SIZE=1, and nodes are counted from 0: set [launch] nnodes = 1 to use this "
      "node alone, or correct the variables");
}

TEST(Surroundings, WithOutOfRangeNumbersAreAProblem) {
  const std::string why =
      ", which [launch] nnodes and node_rank are limited to: start a launcher on each of at most 4096 nodes, "
      "or "
      "set [launch] nnodes = 1 to use this one alone";
  for (const std::string number : {"0", "4097", "99999999999", "99999999999999999999999"})
    for (const std::string starter : {"PMI", "OMPI_COMM_WORLD"})
      EXPECT_EQ(of({{starter + "_RANK", "1"}, {starter + "_SIZE", number}})->problem,
                starter + "_SIZE=" + number + " is not a number from 1 to 4096" + why);
  EXPECT_EQ(of({{"PMIX_RANK", "4294967296"}})->problem,
            "PMIX_RANK=4294967296 is not a number from 0 to 4095" + why);
  std::string names;
  for (int i = 0; i < 4097; ++i) names += "h" + std::to_string(i) + "\n";
  EXPECT_EQ(
      of({{"PBS_JOBID", "1"}, {"PBS_NODEFILE", "/f"}}, "h1", {{"/f", names}})->problem,
      "PBS_NODEFILE names 4097 hosts, and a run has at most 4096 nodes: set [launch] nnodes to use fewer");
}

TEST(Surroundings, OfOneNodeNeedNoRemark) {
  const auto place = of({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}});
  EXPECT_EQ(place->nodes, 1);
  EXPECT_EQ(place->unsaid, "");
}

TEST(FirstHost, ParsesASlurmHostList) {
  EXPECT_EQ(first_host("gpu[08-11,20],cpu1"), "gpu08");
  EXPECT_EQ(first_host("cpu7,gpu[1-2]"), "cpu7");
  EXPECT_EQ(first_host("cpu7"), "cpu7");
  EXPECT_EQ(first_host("n[3,5-9]"), "n3");
  EXPECT_EQ(first_host("rack[1-2]-n[04-08],x"), "rack1-n04");
  EXPECT_EQ(first_host("a[1-2].example,b"), "a1.example");
  for (const char* bad : {"", ",a", "n[", "n[x]", "n[1"}) EXPECT_FALSE(first_host(bad)) << bad;
}

}  // namespace
}  // namespace hookline
