// `hookline submit --scheduler kubernetes`: its manifests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "cli/submit/submit.h"

namespace hookline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::ProcessResult;

TEST_F(Submit, AsksKubernetesForWhatTheRanksNeed) {
  const auto manifest = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--scheduler", "kubernetes", "--print", "--image", "i", "--name", "job-1",
                               "--set", "launch.processes_per_node=4"});
    more.push_back("/app/train");
    return run(more).out;
  };
  const std::string begin = "          resources:\n            requests:\n              cpu: ";
  EXPECT_THAT(manifest({}), HasSubstr(begin + "4\n          env:\n"));
  const std::string with_gpus =
      manifest({"--set", "launch.omp_num_threads=3", "--set", "launch.device=cuda"});
  EXPECT_THAT(
      with_gpus,
      HasSubstr(begin + "12\n            limits:\n              nvidia.com/gpu: 4\n          env:\n"));
  sandbox.folder.write("mine", "resources: {cpu: 2, mine: \"${cpus}\"}\n${gpus}\n");
  EXPECT_EQ(manifest({"--template", "mine", "--set", "launch.device=cuda"}),
            "resources: {cpu: 2, mine: \"4\"}\n            limits:\n              nvidia.com/gpu: 4\n")
      << "a template of one's own asks for what it likes";
  const std::string validator = KUBERNETES_VALIDATE;
  if (!std::filesystem::exists(validator))
    GTEST_SKIP() << "no " << validator << ", which has Kubernetes' schema";
  testing::ProcessOptions options;
  options.arguments = {"--strict", sandbox.folder.write("job.yaml", with_gpus).string()};
  const ProcessResult checked = testing::run_process(validator, options);
  EXPECT_EQ(checked.exit_code, 0) << checked.out << checked.err;
}

TEST_F(Submit, PrintsManifestsThatKubernetesTakes) {
  const ProcessResult result =
      run({"--scheduler", "kubernetes", "--print", "--image", "registry/train:1", "--name", "job-1",
           "--config", "run.toml", "/app/train", "--text", "a \"b\""});
  EXPECT_THAT(result.err, HasSubstr(" a volume that all pods share"));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("  completions: 3\n  parallelism: 3\n"));
  EXPECT_THAT(result.out, HasSubstr("  run.toml: |2\n    [launch]\n    nnodes = 3\n    [training]\n"));
  EXPECT_THAT(result.out,
              HasSubstr(R"(command: ["hookline","launch","--config","/etc/hookline/run.toml","--set",)"
                        R"("training.resume=auto","/app/train","--text","a \"b\""])"
                        "\n"));
  const std::string validator = KUBERNETES_VALIDATE;
  if (!std::filesystem::exists(validator))
    GTEST_SKIP() << "no " << validator << ", which has Kubernetes' schema";
  const auto file = sandbox.folder.write("job.yaml", result.out);
  testing::ProcessOptions options;
  options.arguments = {"--strict", file.string()};
  const ProcessResult checked = testing::run_process(validator, options);
  EXPECT_EQ(checked.exit_code, 0) << checked.out << checked.err;
  for (const char* resource : {"service/job-1", "configmap/job-1", "job/job-1"})
    EXPECT_THAT(checked.out + checked.err, HasSubstr(std::string("passed for resource ") + resource));
}

TEST_F(Submit, GivesEachKubernetesJobATokenOfItsOwn) {
  const auto token_of = [&] {
    const std::string manifest =
        run({"--scheduler", "kubernetes", "--print", "--image", "i", "--name", "job-1", "/app/train"}).out;
    const std::string begin =
        "kind: Secret\nmetadata:\n  name: \"job-1\"\nimmutable: true\nstringData:\n  token: \"";
    const std::size_t at = manifest.find(begin);
    EXPECT_NE(at, manifest.npos) << manifest;
    EXPECT_THAT(manifest, HasSubstr("            - name: HOOKLINE_TOKEN\n"
                                    "              valueFrom:\n"
                                    "                secretKeyRef:\n"
                                    "                  name: \"job-1\"\n"
                                    "                  key: token\n"));
    return at == manifest.npos ? "" : manifest.substr(at + begin.size(), 65);
  };
  const std::string one = token_of(), other = token_of();
  EXPECT_THAT(one, ::testing::MatchesRegex("[0-9a-f]{64}\""));
  EXPECT_NE(one, other);
}

TEST_F(Submit, KeepsTheIndentationOfAConfig) {
  sandbox.folder.write("indented.toml", "  # comment\n[launch]\n  nnodes = 2\n");
  const std::string manifest = run({"--scheduler", "kubernetes", "--print", "--image", "i", "--config",
                                    "indented.toml", "--name", "job-1", "/app/train"})
                                   .out;
  EXPECT_THAT(manifest, HasSubstr("  run.toml: |2\n      # comment\n    [launch]\n      nnodes = 2\n---\n"));
  const std::string validator = KUBERNETES_VALIDATE;
  if (!std::filesystem::exists(validator))
    GTEST_SKIP() << "no " << validator << ", which has Kubernetes' schema";
  testing::ProcessOptions options;
  options.arguments = {"--strict", sandbox.folder.write("job.yaml", manifest).string()};
  const ProcessResult checked = testing::run_process(validator, options);
  EXPECT_EQ(checked.exit_code, 0) << checked.out << checked.err;
}

TEST_F(Submit, EscapesVariableReferencesInKubernetesArguments) {
  EXPECT_THAT(run({"--scheduler", "kubernetes", "--print", "--image", "i", "--name", "job-1", "/app/train",
                   "$(HOME)", "$$5", "a$"})
                  .out,
              HasSubstr(R"x("/app/train","$$(HOME)","$$$$5","a$$"])x"
                        "\n"));
}

TEST_F(Submit, RefusesKubernetesArgumentsThatAreNotUtf8) {
  const ProcessResult result =
      run({"--scheduler", "kubernetes", "--print", "--image", "i", "--name", "job-1", "/app/train", "\xff"});
  EXPECT_EQ(result.err,
            "hookline: error: the argument '\\xff' is not valid UTF-8, which a Kubernetes manifest must be: "
            "change it, or rename the file that it names\n  see: hookline submit --help\n");
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.exit_code, 2);
}

TEST_F(Submit, QuotesNamesThatYamlWouldReadAsOtherTypes) {
  const std::string validator = KUBERNETES_VALIDATE;
  if (!std::filesystem::exists(validator))
    GTEST_SKIP() << "no " << validator << ", which has Kubernetes' schema";
  for (const char* name : {"true", "null", "on", "no", "y"}) {
    const ProcessResult result = run({"--scheduler", "kubernetes", "--print", "--image", name, "--name", name,
                                      "--config", "run.toml", "/app/train"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    testing::ProcessOptions options;
    options.arguments = {"--strict", sandbox.folder.write("job.yaml", result.out).string()};
    const ProcessResult checked = testing::run_process(validator, options);
    EXPECT_EQ(checked.exit_code, 0) << name << ": " << checked.out << checked.err;
    EXPECT_THAT(checked.out + checked.err, HasSubstr(std::string("passed for resource job/") + name));
  }
}

TEST_F(Submit, RefusesAnInvalidImageName) {
  expect_refused(
      {"--scheduler", "kubernetes", "--print", "--image", "a\"b", "/app/train"},
      "--image 'a\"b' is not a name of an image, which has letters, digits, '.', '_', ':', '/', '@' and '-' "
      "only");
}

TEST_F(Submit, KeepsARangeOfNodes) {
  const std::string manifest =
      run({"--print", "--scheduler", "kubernetes", "--image", "i", "--set", "launch.nnodes=2:4", "./train"})
          .out;
  EXPECT_THAT(manifest, ::testing::AllOf(HasSubstr("completions: 4\n"), HasSubstr("value: \"2:4\"\n")));
}

}  // namespace
}  // namespace hookline
