#include "launcher/schedulers/surroundings.h"

#include <gtest/gtest.h>

#include <map>

namespace hookline {
namespace {

using Variables = std::map<std::string, std::string>;

std::optional<Surroundings> of(const Variables& variables, const std::string& name = "host") {
  return surroundings(
      [&](const char* key) {
        const auto found = variables.find(key);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
      },
      name);
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

TEST(Surroundings, OfASlurmJobsScriptAreThatOfOneNodeAlone) {
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

TEST(FirstHost, OfASlurmList) {
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
