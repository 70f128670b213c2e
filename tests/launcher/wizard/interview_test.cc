#include "launcher/wizard/interview.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "config/schema/schema.h"
#include "config/starting_file.h"
#include "launcher/wizard/hold_interview.h"
#include "launcher/wizard/questions.h"

namespace hookline {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::int64_t kTenMillion = 10'000'000;

Detected workstation() { return {8, 0, "", {"10.0.0.1 (eth0)", "192.168.1.7 (wlan0)"}}; }

Interview interview(Detected here = workstation()) {
  return {Catalog::built_in(), std::move(here), kTenMillion};
}

/// Answers listed questions by their id and all others with the default. Expects no question twice.
struct Script : Dialog {
  std::map<std::string, std::vector<std::string>> answers;
  std::vector<Question> asked;
  std::vector<std::string> problems;

  Reply ask(const Question& question, int number, const std::string& problem) override {
    if (problem.empty()) {
      EXPECT_EQ(number, static_cast<int>(asked.size()) + 1);
      asked.push_back(question);
    } else {
      problems.push_back(problem);
    }
    auto& given = answers[question.id];
    if (given.empty()) return {Reply::Kind::answer, ""};
    const std::string answer = given.front();
    given.erase(given.begin());
    return {Reply::Kind::answer, answer};
  }
  bool asks_again() const override { return true; }

  std::vector<std::string> ids() const {
    std::vector<std::string> ids;
    for (const Question& question : asked) ids.push_back(question.id);
    return ids;
  }
};

std::vector<std::string> values_of(const Question& question) {
  std::vector<std::string> values;
  for (const Choice& choice : question.choices) values.push_back(choice.value);
  return values;
}

TEST(Interview, AsksFewQuestionsOnAWorkstation) {
  Script script;
  const InterviewEnd end = hold_interview(interview(), script, false);
  EXPECT_EQ(end.how, InterviewEnd::How::finished);
  EXPECT_THAT(script.ids(), ElementsAre("launch.nnodes", "launch.processes_per_node", "ddp.comm_hook",
                                        "ddp.comm_wrapper", "more"));
  EXPECT_THAT(chosen_file(interview().config(end.answers)), Not(HasSubstr(" = \"")));
}

TEST(Interview, AsksEightQuestionsForTwoNodesAndPowerSgd) {
  Script script;
  script.answers = {{"launch.nnodes", {"2"}},
                    {"ddp.comm_hook", {"power_sgd"}},
                    {"ddp.comm_wrapper", {"fp16"}},
                    {"ddp.comm_state_option.start_powerSGD_iter", {"10"}}};
  const InterviewEnd end = hold_interview(interview(), script, false);
  EXPECT_THAT(script.ids(), ElementsAre("launch.nnodes", "rendezvous.main_address",
                                        "launch.processes_per_node", "ddp.comm_hook", "ddp.comm_wrapper",
                                        "ddp.comm_state_option.matrix_approximation_rank",
                                        "ddp.comm_state_option.start_powerSGD_iter", "more"));
  EXPECT_THAT(values_of(script.asked[1]), ElementsAre("10.0.0.1", "192.168.1.7"));
  EXPECT_EQ(
      chosen_file(interview().config(end.answers)),
      "# A config of hookline; all other keys have their defaults: hookline config default\n"
      "schema_version = 2\n\n[launch]\n# Number of nodes; \"2:4\": from 2 to 4; \"4+1\": 4, and a spare "
      "that takes the place of a lost one.\nnnodes = \"2\"\n\n"
      "[rendezvous]\n# Name or address of rank 0's host, as all hosts reach it; written alike on every "
      "host.\nmain_address = "
      "\"10.0.0.1\"\n\n[ddp]\n# The communication hook that averages gradients: a name from `hookline "
      "hooks list`, or auto (see [ddp.auto]).\ncomm_hook = "
      "\"power_sgd\"\n"
      "# The precision that the hook communicates in: no, fp16 or bf16.\ncomm_wrapper = \"fp16\"\n\n"
      "[ddp.comm_state_option]\nmatrix_approximation_rank = 1\nstart_powerSGD_iter = 10\n");
}

TEST(Interview, SkipsWhatTheSchedulerKnows) {
  Detected here = workstation();
  here.scheduler = "Slurm";
  Script script;
  hold_interview(interview(here), script, false);
  EXPECT_THAT(script.ids(),
              ElementsAre("launch.processes_per_node", "ddp.comm_hook", "ddp.comm_wrapper", "more"));
}

TEST(Interview, NeverOffersWhatCanNotBeCombined) {
  for (const std::string hook : {"fp16", "bf16", "noop"}) {
    Script script;
    script.answers = {{"ddp.comm_hook", {hook}}};
    hold_interview(interview(), script, false);
    EXPECT_THAT(script.ids(), Not(Contains("ddp.comm_wrapper"))) << hook << " goes with none";
  }
  Script without_gpu;
  without_gpu.answers = {{"more", {"launch", "done"}}};
  hold_interview(interview(), without_gpu, false);
  EXPECT_THAT(without_gpu.ids(), Not(Contains("launch.device")));
  Detected gpus = workstation();
  gpus.gpus = 2;
  Script with_gpu;
  with_gpu.answers = {{"more", {"launch", "done"}}, {"launch.device", {"cpu"}}};
  hold_interview(interview(gpus), with_gpu, false);
  for (const Question& question : with_gpu.asked) {
    if (question.id == "launch.backend") {
      EXPECT_THAT(values_of(question), ElementsAre("auto", "gloo", "shm"));
    }
  }
  EXPECT_THAT(with_gpu.ids(), AllOf(Contains("launch.device"), Contains("launch.backend")));
}

TEST(Interview, AsksFollowUpQuestions) {
  Script script;
  script.answers = {{"more", {"training", "done"}}, {"training.checkpoint_every_steps", {"100"}}};
  hold_interview(interview(), script, false);
  EXPECT_THAT(script.ids(),
              AllOf(Contains("training.checkpoint_dir"), Contains("training.checkpoint_keep_last")));
  Script without;
  without.answers = {{"more", {"training", "done"}}};
  hold_interview(interview(), without, false);
  EXPECT_THAT(without.ids(), Not(Contains("training.checkpoint_dir")));
}

/// These answers lead to every key of the schema that applies to the config that they make, once each.
TEST(Interview, AsksForEachKeyOfTheSchema) {
  Detected here = workstation();
  here.gpus = 2;
  Script script;
  script.answers = {{"launch.nnodes", {"2"}},
                    {"ddp.comm_hook", {"power_sgd"}},
                    {"launch.max_restarts", {"1"}},
                    {"launch.stall_timeout_seconds", {"60"}},
                    {"training.checkpoint_every_steps", {"5"}},
                    {"training.record_gradients", {"gradients"}}};
  for (const std::string& table : table_names())
    if (table != "fsdp" && table != kAutoHookTable)
      script.answers["more"].push_back(table);  // a hook excludes a sharded model and auto
  script.answers["more"].push_back(kHookOptionTable);
  script.answers["more"].push_back("done");
  const InterviewEnd end = hold_interview(interview(here), script, false);
  EXPECT_EQ(end.how, InterviewEnd::How::finished) << end.message;
  EXPECT_THAT(script.problems, IsEmpty());
  RunConfig config = interview(here).config(end.answers);
  for (const KeyRow& row : schema()) {
    const bool never = row.applies && !row.applies(config, here);
    EXPECT_EQ(std::count_if(script.asked.begin(), script.asked.end(),
                            [&](const Question& question) { return question.id == row.key(); }),
              never ? 0 : 1)
        << row.key();
  }
  const Catalog catalog = Catalog::built_in();
  for (const OptionRow& option : catalog.find_hook("power_sgd")->options)
    EXPECT_THAT(script.ids(), Contains(std::string(kHookOptionTable) + "." + option.name));
  EXPECT_THAT(script.asked.back().choices.size(), 1U) << "nothing is left but to write the file";
}

TEST(Interview, HasAQuestionForEachKeyThatIsAskedFor) {
  for (const KeyRow& row : schema()) {
    const bool has_no_effect = row.key() == "ddp.dim" || row.key() == "ddp.check_reduction";
    const bool is_asked = !has_no_effect && row.key() != "launch.node_rank";
    const std::string question = question_for(row.key());
    EXPECT_EQ(question.ends_with('?') || question.ends_with("join."), is_asked) << row.key();
  }
}

TEST(Interview, AsksForTheShardedHookOnlyWithAShardedModel) {
  for (const bool is_sharded : {false, true}) {
    Script script;
    script.answers = {{"launch.nnodes", {"1"}},
                      {"fsdp.sharding_strategy", {is_sharded ? "full_shard" : "no_shard"}},
                      {"fsdp.comm_hook", {"bf16"}},
                      {"more", {"fsdp", "done"}}};
    const InterviewEnd end = hold_interview(interview(), script, false);
    EXPECT_EQ(end.how, InterviewEnd::How::finished) << end.message;
    EXPECT_THAT(script.problems, IsEmpty());
    EXPECT_EQ(interview().config(end.answers).fsdp.comm_hook, is_sharded ? "bf16" : "no");
  }
}

TEST(Interview, AsksWhatAutoMayChoose) {
  Script script;
  script.answers = {{"launch.nnodes", {"2"}},
                    {"ddp.comm_hook", {"auto"}},
                    {"ddp.auto.allow", {"low_rank"}},
                    {"more", {kAutoHookTable, "done"}},
                    {"ddp.auto.max_error", {"0.5"}},
                    {"ddp.auto.hooks", {"power_sgd"}},
                    {"ddp.auto.link", {"fast", "1gbit,0.2ms"}}};
  const InterviewEnd end = hold_interview(interview(), script, false);
  EXPECT_EQ(end.how, InterviewEnd::How::finished) << end.message;
  EXPECT_THAT(script.problems, ElementsAre(HasSubstr("'fast' does not describe a network")));
  EXPECT_THAT(script.ids(), Not(Contains("ddp.comm_wrapper")));
  const RunConfig config = interview().config(end.answers);
  EXPECT_EQ(config.auto_hook.allow, "low_rank");
  EXPECT_EQ(config.auto_hook.max_error, 0.5);
  EXPECT_THAT(config.auto_hook.hooks, ElementsAre("power_sgd"));
  EXPECT_EQ(config.auto_hook.link, "1000mbit,0.2ms");
}

TEST(Interview, SaysWhyAnAnswerIsInvalid) {
  Script script;
  script.answers = {{"launch.nnodes", {"many", "0", "1"}}, {"ddp.comm_hook", {"fp61", "fp16"}}};
  const InterviewEnd end = hold_interview(interview(), script, false);
  EXPECT_EQ(end.how, InterviewEnd::How::finished);
  EXPECT_THAT(script.problems,
              ElementsAre(HasSubstr("bad value \"many\" for 'nnodes' in [launch]: must be a number of nodes"),
                          HasSubstr("bad value \"0\""), "it is none of the choices"));
}

TEST(Interview, GoesBackAndAsksAgain) {
  struct : Dialog {
    std::vector<std::string> replies = {"2", "<", "1", "", "fp16", "<", "no", "no", "done"};
    std::vector<std::string> ids;
    Reply ask(const Question& question, int, const std::string&) override {
      ids.push_back(question.id);
      const std::string reply = replies.front();
      replies.erase(replies.begin());
      return reply == "<" ? Reply{Reply::Kind::back, ""} : Reply{Reply::Kind::answer, reply};
    }
    bool asks_again() const override { return true; }
  } dialog;
  const InterviewEnd end = hold_interview(interview(), dialog, false);
  EXPECT_EQ(end.how, InterviewEnd::How::finished);
  EXPECT_THAT(dialog.ids, ElementsAre("launch.nnodes", "rendezvous.main_address", "launch.nnodes",
                                      "launch.processes_per_node", "ddp.comm_hook", "more", "ddp.comm_hook",
                                      "ddp.comm_wrapper", "more"));
}

TEST(Interview, ShowsTheTrafficOfACombination) {
  const auto traffic = [](const Answers& answers) {
    return interview().traffic(interview().config(answers));
  };
  EXPECT_EQ(traffic({}), "in a step, each rank sends 40 MB (for 10 million parameters)");
  EXPECT_EQ(traffic({{"fsdp.sharding_strategy", "full_shard"}}), "") << "no hook's";
  EXPECT_EQ(traffic({{"ddp.shard_optimizer", "true"}, {"ddp.comm_hook", "fp16"}}),
            "in a step, each rank sends 30 MB, and without a hook 40 MB (for 10 million parameters)")
      << "gradients in half the bytes, and parameters whole";
  EXPECT_EQ(traffic({{"ddp.comm_hook", "fp16"}}),
            "in a step, each rank sends 20 MB, and without a hook 40 MB (for 10 million parameters)");
  EXPECT_THAT(traffic({{"ddp.comm_hook", "power_sgd"}, {"ddp.comm_wrapper", "bf16"}}),
              HasSubstr(", and without a hook 40 MB"));
}

}  // namespace
}  // namespace hookline
