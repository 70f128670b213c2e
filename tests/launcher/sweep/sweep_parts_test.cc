// A sweep without running it: its file, its trials, early stopping, and the table of results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>

#include "base/error.h"
#include "launcher/sweep/file/command_line.h"
#include "launcher/sweep/file/sweep_file.h"
#include "launcher/sweep/grid_points.h"
#include "launcher/sweep/metrics_file.h"
#include "launcher/sweep/progress_text.h"
#include "launcher/sweep/run_sweep.h"
#include "launcher/sweep/stopping.h"
#include "launcher/sweep/table.h"
#include "launcher/sweep/trial_result.h"
#include "support/process.h"

namespace hookline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::TemporaryFolder;

const std::string kProgram = "[sweep]\nprogram = [\"train\"]\n";

ReadSweep read(const std::string& text) {
  const TemporaryFolder folder;
  ReadSweep result = read_sweep(folder.write("s.toml", text), Catalog::built_in());
  // Messages name the file by its full path: reduce it to the name.
  const std::string path = folder.path().string() + "/";
  for (std::size_t at; (at = result.report.find(path)) != std::string::npos;)
    result.report.erase(at, path.size());
  return result;
}

SweepFile sweep_of(const std::string& text) {
  const ReadSweep result = read(kProgram + text);
  EXPECT_TRUE(result.ok) << result.report;
  return result.sweep;
}

std::vector<std::string> labels_of(const std::string& text) {
  const SweepFile sweep = sweep_of(text);
  std::vector<std::string> labels;
  for (const Assignments& point : grid_points_of(sweep)) labels.push_back(label_of(point, sweep.fixed));
  return labels;
}

/// Resolves every grid point as valid, to exactly its own values.
ResolvedPoint as_it_is(const Assignments& values) {
  std::string text;
  for (const auto& [key, value] : values)
    if (!key.starts_with("args.")) text += key + "=" + value + "\n";
  return {text, ""};
}

std::vector<std::string> order_of(const SweepPlan& plan) {
  std::vector<std::string> order;
  for (const PlannedTrial& trial : plan.trials)
    order.push_back((trial.is_baseline ? "* " : "") + label_of(trial.values, {}) + " #" +
                    std::to_string(trial.repeat));
  return order;
}

TEST(SweepFile, HasEveryCombinationInOrder) {
  EXPECT_THAT(labels_of("[grid]\nddp.comm_hook = [\"no\", \"fp16\"]\nargs.lr = [0.1, 1, true, \"x\"]\n"),
              ElementsAre("comm_hook=no lr=0.1", "comm_hook=no lr=1", "comm_hook=no lr=true",
                          "comm_hook=no lr=x", "comm_hook=fp16 lr=0.1", "comm_hook=fp16 lr=1",
                          "comm_hook=fp16 lr=true", "comm_hook=fp16 lr=x"));
}

TEST(SweepFile, ReadsTablesInTables) {
  EXPECT_THAT(
      labels_of("[fixed]\nddp.comm_hook = \"auto\"\n[grid]\nddp.auto.allow = [\"half\", \"low_rank\"]\n"),
      ElementsAre("allow=half", "allow=low_rank"));
}

TEST(SweepFile, ReadsRanges) {
  EXPECT_THAT(labels_of("[grid]\nargs.a = { from = 1, to = 4 }\n"), ElementsAre("a=1", "a=2", "a=3", "a=4"));
  EXPECT_THAT(labels_of("[grid]\nargs.a = { from = 0.1, to = 0.5, step = 0.2 }\n"),
              ElementsAre("a=0.1", "a=0.3", "a=0.5"));
  EXPECT_THAT(labels_of("[grid]\nargs.a = { from = 2, to = 9, step = 3 }\n"),
              ElementsAre("a=2", "a=5", "a=8"));
  EXPECT_THAT(labels_of("[grid]\nargs.a = { from = 1e-4, to = 1e-1, count = 4, log = true }\n"),
              ElementsAre("a=0.0001", "a=0.001", "a=0.01", "a=0.1"));
  EXPECT_THAT(labels_of("[grid]\nargs.a = { from = 1, to = 64, count = 4, log = true }\n"),
              ElementsAre("a=1", "a=4", "a=16", "a=64"));
  EXPECT_THAT(labels_of("[grid]\nargs.a = { from = 0.0, to = 1, count = 5 }\n"),
              ElementsAre("a=0", "a=0.25", "a=0.5", "a=0.75", "a=1"));
  EXPECT_THAT(labels_of("[grid]\nargs.a = { from = -0.3, to = 0.3, step = 0.3 }\n"),
              ElementsAre("a=-0.3", "a=0", "a=0.3"));
  EXPECT_THAT(labels_of("[grid]\nargs.a = { from = 3, to = 3, count = 1 }\n"), ElementsAre("a=3"));
}

TEST(SweepFile, CombinesGridsWithoutExclusionsOrDuplicates) {
  EXPECT_THAT(labels_of("[fixed]\nargs.epochs = 3\n"
                        "[grid.one]\nargs.a = [1, 2]\nargs.b = [1, 2]\n"
                        "[grid.two]\nargs.a = 2\nargs.b = [2, 3]\n"
                        "[exclude.x]\nargs.a = 1\nargs.b = 2\n"
                        "[exclude.y]\nargs.b = [3, 4]\nargs.epochs = 4\n"),
              ElementsAre("a=1 b=1", "a=2 b=1", "a=2 b=2", "a=2 b=3"));
}

TEST(SweepFile, ZipsListsTogether) {
  EXPECT_THAT(labels_of("[grid]\nargs.a = [1, 2]\n[grid.zip]\nargs.b = [\"x\", \"y\"]\nargs.c = [5, 6]\n"),
              ElementsAre("a=1 b=x c=5", "a=1 b=y c=6", "a=2 b=x c=5", "a=2 b=y c=6"));
}

TEST(SweepFile, DrawsTheSameSamplesEachTime) {
  const std::string text =
      "[random]\nsamples = 40\nseed = 3\nargs.lr = { from = 1e-4, to = 1e-1, log = true }\n"
      "args.width = { from = 1, to = 3 }\nddp.comm_hook = [\"no\", \"fp16\"]\n";
  const SweepFile sweep = sweep_of(text);
  const auto points = grid_points_of(sweep);
  EXPECT_EQ(points, grid_points_of(sweep_of(text)));
  EXPECT_THAT(points, SizeIs(40));
  std::set<std::string> widths, hooks;
  std::size_t small = 0;
  for (const Assignments& point : points) {
    const double rate = std::stod(point.at("args.lr"));
    EXPECT_TRUE(rate >= 1e-4 && rate <= 1e-1) << rate;
    small += rate < std::sqrt(1e-4 * 1e-1);
    widths.insert(point.at("args.width"));
    hooks.insert(point.at("ddp.comm_hook"));
  }
  EXPECT_THAT(widths, ElementsAre("1", "2", "3"));
  EXPECT_THAT(hooks, ElementsAre("fp16", "no"));
  EXPECT_TRUE(small > 10 && small < 30) << small;  // about half, by chance
  EXPECT_NE(points.front(),
            grid_points_of(sweep_of("[random]\nsamples = 1\nseed = 4\nargs.lr = { from = 1e-4, to = 1e-1, "
                                    "log = true }\nargs.width = { from = 1, to = 3 }\n"
                                    "ddp.comm_hook = [\"no\", \"fp16\"]\n"))
                .front());
  // A narrow range keeps its bounds and as many digits as it needs.
  const auto narrow =
      grid_points_of(sweep_of("[random]\nsamples = 40\nargs.beta = { from = 0.9999990, to = 0.9999999 }\n"));
  EXPECT_THAT(narrow, SizeIs(40));
  for (const Assignments& point : narrow) {
    const double beta = std::stod(point.at("args.beta"));
    EXPECT_TRUE(beta >= 0.9999990 && beta <= 0.9999999) << point.at("args.beta");
  }
  // There are only three distinct values.
  EXPECT_THAT(grid_points_of(sweep_of("[random]\nsamples = 5\nargs.width = { from = 1, to = 3 }\n")),
              SizeIs(3));
}

TEST(SweepFile, SaysWhatIsWrongAndWhere) {
  const auto report = [](const std::string& text) { return read(text).report; };
  EXPECT_THAT(report("[sweep]\n"), AllOf(HasSubstr("s.toml: error: [sweep] program is missing\n"),
                                         HasSubstr("there is nothing to sweep over")));
  EXPECT_THAT(report("[sweep]\nprogram = \"train\"\n[grid]\nargs.a = 1\n"),
              AllOf(HasSubstr("s.toml:2:11: error: bad value \"train\" for 'program' in [sweep]\n"),
                    Not(HasSubstr("missing"))));
  EXPECT_THAT(report("[sweep]\nprogram = []\n[grid]\nargs.a = 1\n"),
              HasSubstr("s.toml:2:11: error: [sweep] program is empty\n"));
  EXPECT_THAT(report(kProgram + "[fixed]\nargs.a = 1\n[grid]\nargs.a = [1, 2]\n"),
              AllOf(HasSubstr("s.toml:6:6: error: 'args.a' is in [fixed] too\n"),
                    HasSubstr("a fixed value is that of every trial: keep one of the two\n")));
  EXPECT_THAT(report(kProgram + "[random]\nsamples = 2\nlogging.level = [\"debug\", \"info\"]\n"),
              HasSubstr("s.toml:5:9: error: 'logging.level' can't tell trials apart\n"));
  EXPECT_THAT(report(kProgram + "[grid]\nargs.a = 1\n[exclude.z]\n"),
              HasSubstr("s.toml:5:10: error: an exclusion of nothing\n"));
  EXPECT_THAT(report(kProgram + "[grid]\nargs.a = 1\n[exclude]\n"),
              HasSubstr("s.toml:5:2: error: an exclusion of nothing\n"));
  EXPECT_THAT(report(kProgram + "[grid]\n[baseline]\nargs.a = 1\n"),
              HasSubstr("s.toml:3:2: error: a grid of nothing\n  3 | [grid]\n    |  ^~~~ name keys and the "
                        "values to try\n"));
  EXPECT_THAT(report(kProgram + "[grid.args]\n[baseline]\nargs.a = 1\n"),
              HasSubstr("s.toml:3:2: error: a grid of nothing\n"));
  EXPECT_THAT(report(kProgram + "[grid]\nargs.a = 1\n[exclude.args]\n"),
              HasSubstr("s.toml:5:2: error: an exclusion of nothing\n"));
  EXPECT_THAT(report(kProgram + "[random]\nsamples = 2\n[random.args]\n"),
              HasSubstr("s.toml:3:2: error: a random search needs keys to draw\n"));
  EXPECT_THAT(report(kProgram + "[grid]\nargs.a = 1\n[random]\n"),
              HasSubstr("s.toml:5:2: error: a random search needs samples\n"));
  EXPECT_THAT(report(kProgram + "[grid]\nddp.plugins = [\"a.so\", \"b.so\"]\n"),
              AllOf(HasSubstr("a value of 'ddp.plugins' is an array of strings\n"),
                    HasSubstr("write an array of such arrays: [[\"a\"], [\"a\", \"b\"]]\n")));
  EXPECT_EQ(report(kProgram + "[grid]\nddp.comm_hok = 1\n"),
            "s.toml:4:5: error: unknown key 'ddp.comm_hok'\n  4 | ddp.comm_hok = 1\n    |     ^~~~~~~~ did "
            "you mean "
            "'ddp.comm_hook'?\n");
  EXPECT_EQ(report(kProgram + "gaol = \"max\"\n[grid]\nargs.a = 1\n"),
            "s.toml:3:1: error: unknown key 'gaol' in [sweep]\n  3 | gaol = \"max\"\n    | ^~~~ did you mean "
            "'goal'?\n");
  EXPECT_EQ(report(kProgram + "metric = \"m\"\ngoal = \"most\"\n[grid]\nargs.a = 1\n"),
            "s.toml:4:8: error: bad value \"most\" for 'goal' in [sweep]\n  4 | goal = \"most\"\n    |       "
            " ^~~~~~ must be "
            "one of \"min\", \"max\"\n");
  EXPECT_THAT(report(kProgram + "repeats = 0\n[grid]\nargs.a = 1\n"),
              HasSubstr("s.toml:3:11: error: bad value 0 for"));
  EXPECT_THAT(report(kProgram + "seeds = [1, -2]\n[grid]\nargs.a = 1\n"),
              HasSubstr(": error: a seed is an integer, at least 0"));
  EXPECT_THAT(report(kProgram + "seeds = 3\n[grid]\nargs.a = 1\n"), HasSubstr("write seeds = [1, 2, 3]"));
  EXPECT_THAT(
      report(kProgram + "seeds = [1]\n[grid]\ntraining.seed = [1, 2]\n"),
      AllOf(HasSubstr("s.toml:5:10: error: training.seed is given twice\n"),
            HasSubstr("write its values as seeds in [sweep], or as training.seed, but not as both\n")));
  EXPECT_THAT(report(kProgram + "seeds = [1]\n[fixed]\ntraining.seed = 3\n[grid]\nargs.a = 1\n"),
              HasSubstr("s.toml:3:9: error: training.seed is given twice\n"));
  EXPECT_THAT(report(kProgram + "early_stopping = \"median\"\n[grid]\nargs.a = 1\n"),
              HasSubstr("s.toml:3:18: error: early_stopping needs a metric\n"));
  const std::string grid = "[grid]\nargs.a = 1\n";
  for (const std::string key : {"goal = \"max\"", "metric_value = \"best\""})
    EXPECT_THAT(report(kProgram + key + "\n" + grid),
                HasSubstr(": error: " + key.substr(0, key.find(' ')) + " needs a metric\n"));
  EXPECT_THAT(report(kProgram + "early_stopping_from = 3\n" + grid),
              AllOf(HasSubstr("s.toml:3:23: error: early_stopping_from needs early_stopping\n"),
                    HasSubstr("write early_stopping = \"median\", or \"halving\"\n")));
  EXPECT_THAT(report(kProgram + "baseline_every = 3\n" + grid),
              HasSubstr("s.toml:3:18: error: baseline_every needs a baseline\n"));
  EXPECT_THAT(report(kProgram + "metric = 2026-11-22\n" + grid),
              HasSubstr("s.toml:3:10: error: bad value for 'metric' in [sweep]: a date\n"));
  EXPECT_THAT(
      report(kProgram + "metric = \"step\"\n" + grid),
      AllOf(
          HasSubstr("s.toml:3:10: error: 'step' is not a metric\n"),
          HasSubstr(
              "it is the number of the step that a line of metrics belongs to: name a value that the program "
              "logs\n")));
  EXPECT_THAT(report(kProgram + "max_parallel = 100000000000\n" + grid),
              HasSubstr("must be an integer from 1 to 10000, or \"auto\"\n"));
  EXPECT_THAT(report(kProgram + "seeds = [3, 4, 3]\n" + grid),
              AllOf(HasSubstr("s.toml:3:16: error: the seed 3 is there twice\n"),
                    HasSubstr("to try each seed several times, set 'repeats'\n")));
  EXPECT_THAT(report(kProgram + "seeds = [3]\n" + grid + "[baseline]\ntraining.seed = 9\n"),
              HasSubstr("s.toml:3:9: error: training.seed is given twice\n"));
  EXPECT_THAT(
      report(kProgram + "seeds = [3, 4]\n" + grid + "[exclude]\ntraining.seed = 3\n"),
      AllOf(HasSubstr("s.toml:7:10: error: an exclusion can't name training.seed if [sweep] has 'seeds'\n"),
            HasSubstr("list the seeds as training.seed in [grid] instead\n")));
  EXPECT_THAT(report(kProgram + grid + "[baseline]\nlogging.dir = \"x\"\n"),
              HasSubstr("s.toml:6:9: error: 'logging.dir' can't tell trials apart\n"));
  for (const std::string zip : {"zip = 3\n", "zip = [\"a\"]\n", "[grid.zip]\n"})
    EXPECT_THAT(report(kProgram + grid + zip),
                AllOf(HasSubstr(": error: zip has no arrays\n"),
                      HasSubstr("write [grid.zip], and in it keys whose arrays advance together\n")))
        << zip;
  EXPECT_THAT(report(kProgram + "[grid]\nargs.\"\" = 1\n"),
              AllOf(HasSubstr("s.toml:4:6: error: an argument without a name\n"),
                    HasSubstr("write args.NAME: the program gets --NAME VALUE\n")));
  EXPECT_THAT(report(kProgram + "[grid]\nargs.a = [\"x\", \"a\\u0000b\"]\n"),
              AllOf(HasSubstr("s.toml:4:16: error: a string with a NUL character\n"),
                    HasSubstr(": leave \\u0000 out\n")));
  EXPECT_THAT(report("[sweep]\nprogram = [\"{p}\", \"x\"]\n[grid]\nargs.p = [\"./a\", \"./b\"]\n"),
              AllOf(HasSubstr("s.toml:2:12: error: the program itself can't be a placeholder: '{p}'\n"),
                    HasSubstr("name a script here, and pass it the value as an argument\n")));
  for (const std::string where : {"[fixed]\nargs.day = ", "[grid]\nargs.day = ", "[grid]\nargs.b = [1, "})
    EXPECT_THAT(report(kProgram + where + "2026-11-22" + (where.ends_with(", ") ? "]\n" : "\n")),
                AllOf(HasSubstr("' can't be a date\n"), HasSubstr(" write it as a string, in quotes\n")))
        << where;
  EXPECT_THAT(report(kProgram + "[gird]\nargs.a = 1\n"), HasSubstr("unknown table [gird]\n"));
  EXPECT_THAT(report(kProgram + "[grid]\nargs.a = []\n"),
              HasSubstr("s.toml:4:10: error: 'args.a' has no values\n"));
  EXPECT_THAT(report(kProgram + "[grid]\nargs.a = [[1]]\n"),
              HasSubstr("a value of 'args.a' is a number, a string, true or false\n"));
  EXPECT_THAT(report(kProgram + "[grid]\nargs.a = 2026-11-22\n"), HasSubstr("'args.a' can't be a date\n"));
  EXPECT_THAT(report(kProgram + "[fixed]\nargs.a = [\"x\", \"y\"]\n[grid]\nargs.b = 1\n"),
              HasSubstr("'args.a' takes one value here\n"));
  EXPECT_THAT(report(kProgram + "[random]\nsamples = 1000000000\nargs.a = [1]\n"),
              HasSubstr("it must be an integer, at least 1 and at most 100000\n"));
  EXPECT_THAT(report(kProgram + "seeds = [1]\n[random]\nsamples = 2\ntraining.seed = [1, 2]\n"),
              HasSubstr("training.seed is given twice"));
  EXPECT_THAT(report(kProgram + "[fixed]\nargs.a = [1, 2]\n[grid]\nargs.b = 1\n"),
              HasSubstr("'args.a' takes one value here\n"));
  EXPECT_THAT(report(kProgram + "[grid.zip]\nargs.a = [1, 2]\nargs.b = [1]\n"),
              HasSubstr("'args.a' has 2 values, 'args.b' 1\n"));
  EXPECT_THAT(report(kProgram + "[random]\nargs.a = [1]\n"), HasSubstr("a random search needs samples"));
  EXPECT_THAT(report(kProgram + "[random]\nsamples = 3\n"),
              HasSubstr("s.toml:3:2: error: a random search needs keys to draw\n"));
  EXPECT_THAT(
      report(kProgram + "config = \"none.toml\"\n[grid]\nargs.a = 1\n"),
      AllOf(HasSubstr("s.toml:3:10: error: there is no config '"),
            HasSubstr("none.toml'\n  3 | config = \"none.toml\"\n    |          ^~~~~~~~~~~ a relative "
                      "path begins in the folder of the sweep file\n")));
  EXPECT_EQ(report("[sweep]\nprogram = [\"train\", \"{widht}\"]\n[grid]\nargs.width = [1, 2]\n"),
            "s.toml:2:21: error: {widht} stands for args.widht, and nothing gives that a value\n"
            "  2 | program = [\"train\", \"{widht}\"]\n"
            "    |                     ^~~~~~~~~ did you mean {width}?\n");
  EXPECT_THAT(
      report("[sweep]\nprogram = [\"train\", \"{a}\", \"{{b}\"]\n[grid]\nargs.rate = 1\n"),
      AllOf(HasSubstr("name its values in [grid], args.a = [1, 2], or write {{a} for the text itself\n"),
            Not(HasSubstr("args.b"))));
  const std::vector<std::pair<std::string, std::string>> ranges = {
      {"{ from = 1 }", "the range of 'args.a' needs from and to\n"},
      {"{ from = 2, to = 1 }", "ends before it begins\n"},
      {"{ from = 0, to = 1, count = 3, log = true }", "has no logarithm\n"},
      {"{ from = 0.5, to = 1 }", "the range of 'args.a' needs a count\n"},
      {"{ from = 1, to = 2, step = 0 }", "can't be stepped through\n"},
      {"{ from = 1, to = 2, count = 0 }", "has a count that can't be used\n"},
      {"{ from = 1, to = 2, count = 1 }", "has two ends and a count of 1\n"},
      {"{ from = 1, to = 20000 }", "has too many values\n"},
      {"{ from = 0, to = 1, count = 5 }", "does not have 5 evenly spaced integers\n"},
      {"{ from = 1, to = 4, count = 9, log = true }", "write from = 1.0 for others\n"},
      {"{ from = nan, to = 4 }", "has a number that can't be used\n"},
      {"{ from = 1, to = inf }", "has a number that can't be used\n"},
      {"{ from = 1, to = 2, by = 1 }", "unknown key 'by' in the range of 'args.a'\n"},
      {"{ from = \"a\", to = 2 }", "bad value for 'from' of 'args.a'\n"}};
  for (const auto& [range, message] : ranges)
    EXPECT_THAT(report(kProgram + "[grid]\nargs.a = " + range + "\n"), HasSubstr(message)) << range;
  EXPECT_THAT(report("[sweep\n"), HasSubstr("s.toml:1:"));
}

TEST(SweepFile, TakesListsWhereAKeyHasThem) {
  EXPECT_THAT(labels_of("[grid]\nddp.plugins = [[\"a.so\"], [\"a.so\", \"b.so\"]]\n"),
              ElementsAre("plugins=a.so", "plugins=a.so,b.so"));
}

TEST(SweepPlaces, ShareCoresAndGpus) {
  SweepRun run;
  run.machine.cores = {2, 3, 4, 5, 6};
  run.machine.gpus = 4;
  run.settings.max_parallel = 1;
  EXPECT_THAT(place_of(run, 0).cores, IsEmpty()) << "one trial has all";
  run.settings.max_parallel = 2;
  ASSERT_EQ(::unsetenv("CUDA_VISIBLE_DEVICES"), 0);
  EXPECT_THAT(place_of(run, 0).cores, ElementsAre(2, 3));
  EXPECT_THAT(place_of(run, 1).cores, ElementsAre(4, 5));
  EXPECT_EQ(place_of(run, 1).visible_gpus, std::nullopt) << "none is used";
  run.uses_gpus = true;
  EXPECT_EQ(place_of(run, 0).visible_gpus, "0,1");
  EXPECT_EQ(place_of(run, 1).visible_gpus, "2,3");
  ASSERT_EQ(::setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b,7,GPU-d", 1), 0);
  EXPECT_EQ(place_of(run, 1).visible_gpus, "7,GPU-d") << "those that this process sees, by their names";
  ASSERT_EQ(::unsetenv("CUDA_VISIBLE_DEVICES"), 0);
  run.settings.max_parallel = 6;
  EXPECT_THAT(place_of(run, 5).cores, IsEmpty());
  EXPECT_EQ(place_of(run, 5).visible_gpus, std::nullopt);
  run.settings.max_parallel = std::nullopt;
  run.most_ranks = 2;
  EXPECT_EQ(places_of(run), 2) << "two GPUs each";
}

TEST(SweepProgress, EstimatesTheTimeLeft) {
  std::vector<Trial> trials(10);
  for (Trial& trial : trials) trial.result.status = TrialStatus::waiting;
  SweepSettings settings;
  EXPECT_EQ(seconds_left(trials, settings), std::nullopt);
  for (int i = 0; i < 4; ++i) {
    trials[static_cast<std::size_t>(i)].result.status = i ? TrialStatus::done : TrialStatus::failed;
    trials[static_cast<std::size_t>(i)].result.seconds = 5;
  }
  EXPECT_EQ(seconds_left(trials, settings), 30);
  settings.budget_trials = 6;
  EXPECT_EQ(seconds_left(trials, settings), 10);
  settings.budget = 23;
  EXPECT_EQ(seconds_left(trials, settings), 3);
  settings.budget = 10;
  EXPECT_EQ(seconds_left(trials, settings), 0);
}

TEST(SweepFile, RefusesTooManyGridPoints) {
  const std::string many = " = { from = 1, to = 400 }\n";
  const SweepFile sweep = sweep_of("[grid]\nargs.a" + many + "args.b" + many);
  EXPECT_THROW(
      {
        try {
          grid_points_of(sweep);
        } catch (const Error& error) {
          EXPECT_STREQ(error.what(), "the sweep has more than 100000 combinations: try fewer values");
          throw;
        }
      },
      Error);
}

TEST(SweepFile, DefaultsMatchTheSchema) {
  const SweepSettings defaults;
  for (const SweepKeyRow& row : sweep_schema())
    EXPECT_EQ(to_text(row.get(defaults)), to_text(row.option.default_value)) << row.option.name;
}

TEST(SweepProgress, ShowsTheWholeNameOfAMetric) {
  const TemporaryFolder folder;
  const std::string name(80, 'm');
  MetricsFile metrics(folder.write("metrics.jsonl", "{\"step\": 3, \"" + name + "\": 0.123456}\n"), name);
  metrics.finish();
  Trial trial;
  trial.planned.values = {{"args.a", "1"}};
  const RunningText text = running_text(trial, metrics, name, {});
  EXPECT_EQ(text.name, "a=1");
  EXPECT_EQ(text.state, " step 3 " + name + " 0.1235");
}

TEST(SweepProgress, CutsNamesToShowHowFarTrialsAre) {
  const std::vector<RunningText> running = {{"comm_hook=é_fp16 seed=1", " step 33 loss 0.5"},
                                            {"lr=1", " step 2"}};
  const auto within = [&](std::size_t columns) { return line_within(columns, "1/6 trials", running); };
  EXPECT_EQ(within(100), "1/6 trials | comm_hook=é_fp16 seed=1 step 33 loss 0.5 | lr=1 step 2");
  EXPECT_EQ(within(67), "1/6 trials | comm_hook=é_fp16 seed=1 step 33 loss 0.5 | lr=1 step 2");
  EXPECT_EQ(within(66), "1/6 trials | comm_hook=é_fp16 seed=1 step 33 loss 0.5");
  EXPECT_EQ(within(43), "1/6 trials | comm_hook=é_… step 33 loss 0.5");
  EXPECT_EQ(within(37), "1/6 trials") << "a cut name takes 8 columns or more";
}

TEST(SweepPlan, RunsTheBaselineFirstAndRepeatsIt) {
  const SweepFile sweep =
      sweep_of("baseline_every = 2\nrepeats = 2\n[baseline]\nargs.a = 0\n[grid]\nargs.a = [0, 1, 2, 3]\n");
  EXPECT_THAT(order_of(plan_of(sweep, as_it_is)),
              ElementsAre("* a=0 #0", "a=1 #0", "* a=0 #1", "a=2 #0", "a=3 #0",  //
                          "* a=0 #2", "a=1 #1", "a=2 #1", "* a=0 #3", "a=3 #1"));
}

TEST(SweepPlan, RunsTheSecondSeedsBaselineEarly) {
  const auto plan_with = [](const std::string& settings, const std::string& values) {
    return order_of(
        plan_of(sweep_of(settings + "[baseline]\nargs.a = 0\n[grid]\nargs.a = " + values + "\n"), as_it_is));
  };
  EXPECT_THAT(plan_with("seeds = [7, 8, 9]\n", "[1, 2, 3]"),
              ElementsAre("* seed=7 a=0 #0", "seed=7 a=1 #0", "* seed=8 a=0 #0", "seed=7 a=2 #0",
                          "seed=7 a=3 #0", "seed=8 a=1 #0", "seed=8 a=2 #0", "seed=8 a=3 #0",  //
                          "* seed=9 a=0 #0", "seed=9 a=1 #0", "seed=9 a=2 #0", "seed=9 a=3 #0"));
  EXPECT_THAT(plan_with("seeds = [7, 8]\n", "1"),
              ElementsAre("* seed=7 a=0 #0", "seed=7 a=1 #0", "* seed=8 a=0 #0", "seed=8 a=1 #0"));
}

TEST(SweepPlan, RunsTheBaselineASecondTimeRightAfterTheFirstOtherTrial) {
  for (const std::string settings :
       {"", "seeds = [1, 2]\n", "repeats = 3\n", "baseline_every = 2\n", "seeds = [1, 2]\nrepeats = 2\n"})
    for (const std::string values : {"1", "[1, 2]", "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]"}) {
      SCOPED_TRACE(settings + values);
      const auto trials =
          plan_of(sweep_of(settings + "[baseline]\nargs.a = 0\n[grid]\nargs.a = " + values + "\n"), as_it_is)
              .trials;
      ASSERT_GE(trials.size(), 3u);
      EXPECT_TRUE(trials[0].is_baseline && !trials[1].is_baseline && trials[2].is_baseline);
    }
}

TEST(SweepPlan, RepeatsABaselineThatWouldOnlyBeTheFirstTrial) {
  const SweepPlan plan = plan_of(sweep_of("[baseline]\nargs.a = 0\n[grid]\nargs.a = [1, 2]\n"), as_it_is);
  EXPECT_THAT(order_of(plan), ElementsAre("* a=0 #0", "a=1 #0", "* a=0 #1", "a=2 #0"));
  EXPECT_TRUE(plan.repeats_baseline);
  EXPECT_THAT(order_of(plan_of(sweep_of("[baseline]\nargs.a = 0\n[grid]\nargs.a = 1\n"), as_it_is)),
              ElementsAre("* a=0 #0", "a=1 #0", "* a=0 #1"));
  for (const std::string often : {"seeds = [1, 2]\n", "repeats = 2\n", "baseline_every = 1\n"})
    EXPECT_FALSE(plan_of(sweep_of(often + "[baseline]\nargs.a = 0\n[grid]\nargs.a = [1, 2]\n"), as_it_is)
                     .repeats_baseline)
        << often << "it runs twice by itself";
  EXPECT_THAT(plan_of(sweep_of("[baseline]\nargs.a = 0\n[grid]\nargs.a = 0\n"), as_it_is).trials, SizeIs(1))
      << "nothing is compared with it";
}

TEST(SweepPlan, RunsEachGridPointWithEachSeed) {
  const SweepFile sweep = sweep_of("seeds = [7, 8]\n[grid]\nargs.a = [1, 2]\n");
  const SweepPlan plan = plan_of(sweep, as_it_is);
  EXPECT_THAT(order_of(plan),
              ElementsAre("seed=7 a=1 #0", "seed=7 a=2 #0", "seed=8 a=1 #0", "seed=8 a=2 #0"));
  std::set<std::string> ids;
  for (const PlannedTrial& trial : plan.trials) ids.insert(trial.id);
  EXPECT_THAT(ids, SizeIs(4));
  EXPECT_EQ(plan_of(sweep, as_it_is).trials[2].id, plan.trials[2].id);
}

TEST(SweepPlan, MergesEqualGridPoints) {
  const SweepFile sweep = sweep_of("[grid]\nddp.comm_hook = [\"power_sgd\", \"powerSGD\"]\n");
  const auto alike = [](const Assignments&) { return ResolvedPoint{"ddp.comm_hook = power_sgd", ""}; };
  EXPECT_THAT(plan_of(sweep, alike).trials, SizeIs(1));
}

TEST(SweepPlan, ListsWhatCanNotRunOnceForAllSeeds) {
  const SweepFile sweep = sweep_of("seeds = [1, 2]\n[grid]\nargs.a = [1, 2]\n");
  const SweepPlan plan = plan_of(sweep, [](const Assignments& values) {
    return values.at("args.a") == "2" ? ResolvedPoint{"", "it can't\n"} : as_it_is(values);
  });
  EXPECT_THAT(plan.trials, SizeIs(2));
  ASSERT_THAT(plan.invalid, SizeIs(1));
  EXPECT_EQ(plan.invalid[0].problems, "it can't\n");
  EXPECT_EQ(plan.invalid[0].values, (Assignments{{"args.a", "2"}}));
}

TEST(SweepPlan, OmitsAGridPointThatLacksAProgramArgument) {
  SweepFile sweep = sweep_of("[grid.one]\nargs.b = 1\n[grid.two]\nargs.lr = [1, 2]\n");
  sweep.settings.program = {"train", "{lr}"};
  const SweepPlan plan = plan_of(sweep, as_it_is);
  EXPECT_THAT(plan.trials, SizeIs(2));
  ASSERT_THAT(plan.invalid, SizeIs(1));
  EXPECT_EQ(plan.invalid[0].problems, "[sweep] program has {lr}, and nothing gives args.lr a value\n");
  sweep.baseline = Assignments{{"args.b", "2"}};
  try {
    plan_of(sweep, as_it_is);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "the baseline can't run, and everything is compared with it: [sweep] program has {lr}, "
                 "and nothing gives args.lr a value");
  }
}

TEST(SweepPlan, ComparesExclusionsAsNumbersAndNamesUnusedOnes) {
  const SweepPlan plan =
      plan_of(sweep_of("[grid]\nargs.a = { from = 0, to = 2, step = 0.5 }\n"
                       "[exclude.one]\nargs.a = [1.0, 0.5]\n[exclude.two]\nargs.a = 7\nargs.b = 1\n"),
              as_it_is);
  EXPECT_THAT(order_of(plan), ElementsAre("a=0 #0", "a=1.5 #0", "a=2 #0"));
  EXPECT_THAT(plan.remarks, ElementsAre("an exclusion matches no combination: a=7 b=1"));
}

TEST(SweepPlan, ChecksLateDrawsBeforeCallingAnExclusionUnused) {
  const std::string search = "[random]\nsamples = 2000\nargs.a = { from = 1, to = 1000000 }\n";
  const std::string late = grid_points_of(sweep_of(search))[1900].at("args.a");
  EXPECT_THAT(plan_of(sweep_of(search + "[exclude]\nargs.a = " + late + "\n"), as_it_is).remarks, IsEmpty());
}

TEST(SweepPlan, SaysWhenASearchHasFoundTooFew) {
  const SweepPlan plan =
      plan_of(sweep_of("[grid]\nargs.a = 1\n[random]\nsamples = 5\nargs.a = [1, 2, 3]\n"), as_it_is);
  EXPECT_THAT(plan.trials, SizeIs(3));
  EXPECT_THAT(
      plan.remarks,
      ElementsAre("a random search for 5 samples has found only 2 new ones: there are hardly any others"));
}

TEST(SweepPlan, KeepsLabelsOnOneLine) { EXPECT_EQ(label_of({{"args.a", "x\ny\x1b[m"}}, {}), "a=x?y?[m"); }

TEST(SweepPlan, FillsTheProgramsCommandLine) {
  const Assignments values = {{"args.lr", "0.1"}, {"args.b", "2"}, {"ddp.comm_hook", "no"}};
  EXPECT_THAT(command_of({"train", "--rate={lr}", "{}", "{ \"json\": 1 }", "{lr}{b}"}, values),
              ElementsAre("train", "--rate=0.1", "{}", "{ \"json\": 1 }", "0.12"));
  EXPECT_THAT(command_of({"train", "{b"}, values), ElementsAre("train", "{b", "--b", "2", "--lr", "0.1"));
  EXPECT_THAT(command_of({"sh", "-c", "echo ${HOME} {{lr} {lr}"}, {{"args.lr", "1"}}),
              ElementsAre("sh", "-c", "echo ${HOME} {lr} 1"));
  try {
    command_of({"train", "{epochs}"}, values);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[sweep] program has {epochs}, and nothing gives args.epochs a value");
  }
}

TEST(SweepPlan, SpellsOutKeysWithTheSameLastName) {
  EXPECT_EQ(label_of({{"args.seed", "1"}, {"training.seed", "2"}, {"args.lr", "3"}}, {{"args.lr", "3"}}),
            "training.seed=2 args.seed=1");
}

TEST(Metrics, AreReadAsTheyAreWritten) {
  const TemporaryFolder folder;
  MetricsFile metrics(folder.path() / "metrics.jsonl", "loss");
  metrics.read_on();
  EXPECT_THAT(metrics.points(), IsEmpty());
  folder.write("metrics.jsonl",
               "{\"step\": 1, \"loss\": 0.5, \"name\": \"NaN\"}\nno object\n{\"step\": 2, \"lo");
  metrics.read_on();
  ASSERT_THAT(metrics.points(), SizeIs(1));
  folder.write("metrics.jsonl",
               "{\"step\": 1, \"loss\": 0.5, \"name\": \"NaN\"}\nno object\n{\"step\": 2, \"loss\": 0.25}\n"
               "{\"step\": 3, \"loss\": NaN, \"rate\": 1}\n[1]\n{\"step\": 4, \"loss\": null}\n{\"loss\": "
               "-Infinity}\n");
  metrics.read_on();
  ASSERT_THAT(metrics.points(), SizeIs(5));
  EXPECT_EQ(metrics.points()[1].step, 2);
  EXPECT_EQ(metrics.points()[1].value, 0.25);
  for (std::size_t i = 2; i < 5; ++i) EXPECT_TRUE(std::isnan(metrics.points()[i].value)) << i;
  EXPECT_THAT(metrics.names(), ElementsAre("loss", "rate"));
}

TEST(Metrics, SaySoWhenALineIsTooLong) {
  const TemporaryFolder folder;
  const std::string longer =
      "{\"step\": 2, \"loss\": 0.1, \"text\": \"" + std::string(1 << 20, 'x') + "\"}\n";
  const auto file = folder.write(
      "metrics.jsonl", "{\"step\": 1, \"loss\": 0.5}\n" + longer + "{\"step\": 3, \"loss\": 0.2}\n");
  MetricsFile metrics(file, "loss");
  metrics.finish();
  EXPECT_THAT(metrics.points(), SizeIs(2));
  EXPECT_EQ(metrics.step(), 3);
  EXPECT_EQ(metrics.loss(), "line 2 of '" + file.string() + "' is longer than 1 MiB: what it logs is lost");
  folder.write("metrics.jsonl", longer + longer);
  MetricsFile none(file, "loss");
  none.finish();
  TrialResult result;
  judge(none, Yardstick{"loss"}, result);
  EXPECT_EQ(result.reason, "it never logged 'loss'; it logged no metric; line 1 and 1 other of '" +
                               file.string() + "' are longer than 1 MiB each: what they log is lost");
}

TEST(Metrics, AreReadInBoundedPieces) {
  const TemporaryFolder folder;
  const auto file = folder.write("metrics.jsonl", "{\"step\": 1, \"loss\": 0.5}\n");
  std::filesystem::resize_file(file, std::uintmax_t{4} << 40);  // sparse: uses no disk space
  MetricsFile metrics(file, "loss");
  const auto begin = std::chrono::steady_clock::now();
  metrics.read_on();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes(1));
  EXPECT_THAT(metrics.points(), SizeIs(1));
  metrics.finish();
  EXPECT_THAT(metrics.points(), SizeIs(1));
  EXPECT_EQ(metrics.loss(), "'" + file.string() + "' is larger than 1 GiB: what it logs beyond that is lost");
}

TEST(Metrics, SkipADeeplyNestedLine) {
  const TemporaryFolder folder;
  const auto file =
      folder.write("metrics.jsonl", "{\"step\": 1, \"loss\": 0.5, \"x\": " + std::string(400'000, '[') +
                                        std::string(400'000, ']') + "}\n{\"step\": 2, \"loss\": 0.2}\n");
  MetricsFile metrics(file, "loss");
  metrics.finish();
  EXPECT_THAT(metrics.points(), SizeIs(1));
}

std::vector<std::pair<std::int64_t, double>> points_of(const MetricsFile& metrics) {
  std::vector<std::pair<std::int64_t, double>> points;
  for (const MetricPoint& point : metrics.points()) points.emplace_back(point.step, point.value);
  return points;
}

TEST(Metrics, TakeRepeatedStepsFromTheLastAttempt) {
  using Pair = std::pair<std::int64_t, double>;
  const TemporaryFolder run;
  MetricsFile metrics(run.path() / "metrics.jsonl", "loss");
  const std::string first =
      "{\"step\": 1, \"loss\": 1}\n{\"step\": 2, \"loss\": 1}\n{\"step\": 3, \"loss\": 1}\n";
  run.write("metrics.jsonl", first);
  metrics.read_on();
  EXPECT_THAT(points_of(metrics), ElementsAre(Pair(1, 1), Pair(2, 1), Pair(3, 1)));
  // Attempt 1 resumes from step 2: its first line has the same step as the last line before it.
  run.write("attempt_1/metrics_start_bytes", std::to_string(first.size()) + "\n");
  run.write("metrics.jsonl", first + "{\"step\": 3, \"loss\": 2}\n{\"step\": 4, \"loss\": 2}\n");
  metrics.read_on();
  EXPECT_THAT(points_of(metrics), ElementsAre(Pair(1, 1), Pair(2, 1), Pair(3, 2), Pair(4, 2)));
}

TEST(Metrics, DetectARestartByTheLibrarysStepNumbers) {
  using Pair = std::pair<std::int64_t, double>;
  const TemporaryFolder run;
  const auto line = [](int step, int loss) {
    return "{\"step\": " + std::to_string(step) +
           ", \"seconds\": 1, \"bytes_sent\": 0, \"loss\": " + std::to_string(loss) + "}\n";
  };
  run.write("metrics.jsonl", line(1, 1) + line(2, 1) + line(2, 5) + line(3, 1) + line(2, 2) + line(3, 2));
  MetricsFile metrics(run.path() / "metrics.jsonl", "loss");
  metrics.finish();
  EXPECT_THAT(points_of(metrics), ElementsAre(Pair(1, 1), Pair(2, 2), Pair(3, 2)));
  // A program's own lines may number steps in any way.
  run.write("metrics.jsonl", "{\"step\": 2, \"loss\": 1}\n{\"step\": 1, \"loss\": 1}\n");
  MetricsFile own(run.path() / "metrics.jsonl", "loss");
  own.finish();
  EXPECT_THAT(own.points(), SizeIs(2));
}

TEST(Metrics, SkipUnreadableLines) {
  const TemporaryFolder folder;
  const auto file = folder.write("metrics.jsonl",
                                 "{\"step\": 1, \"loss\": 0.5, \"grad_norm\": 1e999}\n"
                                 "{\"step\": 2, \"loss\": 0.4}{\"step\": 3, \"loss\": 0.3}\n"
                                 "{\"step\": 4, \"loss\": 0.2\n"
                                 "{\"step\": 5, \"loss\" : -1e999, \"rate\": 1e-999, \"at\": \"1e999\"}\n");
  MetricsFile metrics(file, "loss");
  metrics.finish();
  ASSERT_THAT(metrics.points(), SizeIs(2));
  EXPECT_EQ(metrics.points()[0].value, 0.5);
  EXPECT_EQ(metrics.points()[1].step, 5);
  EXPECT_TRUE(std::isnan(metrics.points()[1].value));
  EXPECT_THAT(metrics.names(), ElementsAre("grad_norm", "loss", "rate"));
}

TEST(Metrics, RecognizeADivergedRun) {
  const TemporaryFolder folder;
  for (const std::string word :
       {"nan", "-nan", "NaN", "inf", "-inf", "Infinity", "-Infinity", "INF", "1e999", "null"}) {
    const auto file = folder.write(
        "metrics.jsonl",
        "{\"step\": 1, \"loss\": 0.5, \"name\": \"inf\"}\n{\"step\": 2, \"loss\": " + word + "}\n");
    MetricsFile metrics(file, "loss");
    metrics.finish();
    ASSERT_THAT(metrics.points(), SizeIs(2)) << word;
    EXPECT_TRUE(std::isnan(metrics.points().back().value)) << word;
  }
  MetricsFile quoted(folder.write("metrics.jsonl", R"({"step": 1, "path": "C:\\", "loss": NaN}
{"step": 2, "say": "\"NaN\\\"", "loss": NaN})"),
                     "loss");
  quoted.finish();
  EXPECT_THAT(quoted.points(), SizeIs(2)) << "a backslash before a quote may itself be escaped";
  MetricsFile unfinished(
      folder.write("metrics.jsonl", "{\"step\": 1.0, \"loss\": 0.5}\n{\"step\": 2.0, \"loss\": 0.25}"),
      "loss");
  unfinished.finish();
  EXPECT_EQ(unfinished.points().back().value, 0.25);
  EXPECT_EQ(unfinished.step(), 2);
}

History history(const std::vector<double>& values) {
  History history;
  for (const double value : values) history.push_back({static_cast<std::int64_t>(history.size()) + 1, value});
  return history;
}

Histories pointers_to(const std::vector<History>& histories) {
  Histories pointers;
  for (const History& each : histories) pointers.push_back(&each);
  return pointers;
}

TEST(EarlyStopping, CallsARunDivergedOnlyIfItStaysSo) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(has_diverged({}, 1));
  EXPECT_FALSE(has_diverged(history({nan}), 1)) << "it may recover";
  EXPECT_FALSE(has_diverged(history({1, nan}), 1));
  EXPECT_FALSE(has_diverged(history({nan, nan, 1}), 1)) << "it has";
  EXPECT_TRUE(has_diverged(history({1, nan, nan}), 3));
  EXPECT_FALSE(has_diverged(history({1, nan, nan}), 4)) << "no trial is stopped before step 4";
}

TEST(EarlyStopping, StopsTrialsBehindTheMedian) {
  const std::vector<History> trials = {history({1, 2, 3, 4}), history({2, 4, 6, 8}), history({3, 6, 9, 12})};
  const Histories ended = pointers_to(trials);
  // At step 3, the other trials' averages are 2, 4 and 6.
  EXPECT_EQ(hopeless_by_median(history({1, 3, 4}), ended, false, 2), "");
  EXPECT_EQ(hopeless_by_median(history({1, 3, 3.5}), ended, false, 2),
            "at step 3 its best is 3.5, and the median of 3 others is 4");
  EXPECT_EQ(hopeless_by_median(history({9, 8, 4.5}), ended, true, 2),
            "at step 3 its best is 4.5, and the median of 3 others is 4");
  EXPECT_EQ(hopeless_by_median(history({9, 8, 3.5}), ended, true, 2), "");
  EXPECT_EQ(hopeless_by_median(history({1, 1, 1}), ended, false, 4), "") << "too early";
  EXPECT_EQ(hopeless_by_median(history({1, 1, 1}), {ended[0], ended[1]}, false, 1), "") << "too few others";
  EXPECT_EQ(hopeless_by_median({}, ended, false, 1), "");
  EXPECT_EQ(hopeless_by_median(history({0, 0, 0, 0, 0}), ended, false, 1), "") << "no other got that far";
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(hopeless_by_median(history({nan, nan}), ended, false, 1), "") << "it fails by itself";
}

TEST(EarlyStopping, LetsAThirdContinuePastARung) {
  std::vector<History> trials;
  for (const double value : {1.0, 2.0, 3.0, 4.0, 5.0}) trials.push_back(history({value, value, value}));
  const Histories others = pointers_to(trials);
  // Six trials have reached the rung; two of them continue.
  EXPECT_EQ(hopeless_by_halving(history({0, 0, 4.5}), others, false, 3), "");
  EXPECT_EQ(hopeless_by_halving(history({0, 0, 3.5}), others, false, 3),
            "at step 3, 2 of 6 trials were better, and only 2 may continue");
  EXPECT_EQ(hopeless_by_halving(history({9, 9, 1.5}), others, true, 3), "");
  EXPECT_EQ(hopeless_by_halving(history({0, 0}), others, false, 3), "") << "it has not reached the rung";
  EXPECT_EQ(hopeless_by_halving(history({0, 0, 0, 0}), {others[0]}, false, 3), "") << "too few others";
  // Only the last rung that it has reached counts: step 3, then step 9, which no other trial has reached.
  EXPECT_EQ(hopeless_by_halving(history({0, 0, 0}), others, false, 1),
            "at step 3, 5 of 6 trials were better, and only 2 may continue");
  EXPECT_EQ(hopeless_by_halving(history({0, 0, 0, 0, 0, 0, 0, 0, 0}), others, false, 1), "");
}

Trial trial(const Assignments& values, TrialStatus status, double duration, std::optional<double> metric,
            const std::string& measures = "{}", bool is_baseline = false) {
  Trial trial;
  trial.planned.id = label_of(values, {});
  trial.planned.values = values;
  trial.planned.is_baseline = is_baseline;
  trial.result.status = status;
  trial.result.seconds = duration;
  trial.result.metric = metric;
  trial.result.measures = measures;
  return trial;
}

TEST(SweepTable, ListsRowsWithFailedTrialsLast) {
  const std::vector<Trial> trials = {
      trial({{"args.lr", "10"}, {"training.seed", "1"}}, TrialStatus::failed, 1, std::nullopt),
      trial({{"args.lr", "10"}, {"training.seed", "2"}}, TrialStatus::done, 1, 0.1),
      trial({{"args.lr", "1"}, {"training.seed", "1"}}, TrialStatus::done, 1, 0.2)};
  EXPECT_EQ(rows_of(trials, true)[0].values.at("args.lr"), "1");
}

TEST(SweepTable, MarksTheFastestOfTheRowsAsGoodAsTheBest) {
  const auto of = [](const std::string& hook, double metric, double step_seconds) {
    return trial({{"ddp.comm_hook", hook}, {"training.seed", std::to_string(metric)}}, TrialStatus::done, 1,
                 metric, "{\"step_seconds\": " + std::to_string(step_seconds) + "}");
  };
  const std::vector<Trial> trials = {of("best", 0.98, 0.05),   of("best", 0.96, 0.05),
                                     of("near", 0.965, 0.02),  of("near", 0.955, 0.02),
                                     of("coarse", 0.50, 0.01), of("coarse", 0.51, 0.01)};
  const auto rows = rows_of(trials, /*smaller_is_better=*/false);
  ASSERT_THAT(rows, SizeIs(3));
  EXPECT_EQ(rows[0].values.at("ddp.comm_hook"), "best");
  EXPECT_FALSE(rows[0].is_fastest);
  EXPECT_EQ(rows[1].values.at("ddp.comm_hook"), "near");
  EXPECT_TRUE(rows[1].is_fastest) << "0.97 ± 0.014 and 0.96 ± 0.007 can't be told apart";
  EXPECT_FALSE(rows[2].is_fastest) << "faster, and worse";
  const auto one_each = rows_of({trials[0], trials[2]}, false);
  EXPECT_TRUE(one_each[0].is_fastest) << "with one trial each, no spread is known";
  EXPECT_TRUE(rows_of({trials[4], trials[0]}, true)[0].is_fastest);
}

TEST(SweepTable, IgnoresSpeedDifferencesWithinTheSpread) {
  const auto of = [](const std::string& hook, double metric, double step_seconds) {
    return trial({{"ddp.comm_hook", hook}, {"training.seed", std::to_string(step_seconds)}},
                 TrialStatus::done, 1, metric, "{\"step_seconds\": " + std::to_string(step_seconds) + "}");
  };
  const auto rows = rows_of(
      {of("best", 0.98, 0.05), of("best", 0.96, 0.051), of("near", 0.97, 0.02), of("near", 0.96, 0.06)},
      /*smaller_is_better=*/false);
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_TRUE(rows[0].is_fastest) << "0.04 ± 0.03 is not below 0.05 ± 0.001";
  EXPECT_FALSE(rows[1].is_fastest);
}

TEST(SweepTable, SaysWhyTheFirstRowIsNotClearlyTheBest) {
  const auto row = [](double mean, double spread, std::size_t done, std::size_t waiting = 0) {
    ResultRow result;
    result.metric = Measured{mean, spread};
    result.done = done;
    result.waiting = waiting;
    return result;
  };
  EXPECT_EQ(doubt_of_best({row(1, 0.1, 2), row(2, 0.1, 2), row(1.1, 0, 1, 1)}), "") << "the last is not done";
  EXPECT_EQ(doubt_of_best({row(1, 0.1, 1)}), "") << "there is nothing to compare with";
  EXPECT_EQ(doubt_of_best({row(1, 0.1, 2, 1), row(2, 0.1, 2)}), "not all trials of the first row are done");
  EXPECT_EQ(doubt_of_best({row(1, 0, 1), row(2, 0.1, 2)}),
            "the first row has one trial, so its spread is not known");
  EXPECT_EQ(doubt_of_best({row(1, 0.1, 2), row(1.2, 0.3, 2), row(5, 0.1, 2)}),
            "the spread of the first row's metric overlaps with that of 1 other row");
  EXPECT_THAT(doubt_of_best({row(1, 0.1, 2), row(1.2, 0, 1), row(1.1, 0.1, 2)}),
              HasSubstr("overlaps with that of 2 other rows"));
}

TEST(SweepTable, ShowsNoSpeedupOverAFirstTrialAlone) {
  const Assignments own = {{"args.a", "0"}}, other = {{"args.a", "1"}};
  const auto rows_with = [&](TrialStatus first, TrialStatus second) {
    return rows_of(
        {trial(own, first, 2, std::nullopt, "{}", true), trial(other, TrialStatus::done, 0.25, std::nullopt),
         trial(own, second, 0.5, std::nullopt, "{}", true)},
        true);
  };
  for (const TrialStatus second : {TrialStatus::waiting, TrialStatus::running, TrialStatus::failed}) {
    const auto rows = rows_with(TrialStatus::done, second);
    EXPECT_EQ(rows[1].speedup, std::nullopt);
    EXPECT_EQ(speedup_remark(rows),
              "no speed-ups: the only baseline trial that is done is the sweep's first, which a cold machine "
              "slows down; run the sweep again to complete the others (--retry-failed repeats those that "
              "failed)");
  }
  for (const auto& rows :
       {rows_with(TrialStatus::done, TrialStatus::done), rows_with(TrialStatus::failed, TrialStatus::done)}) {
    EXPECT_NE(rows[1].speedup, std::nullopt);
    EXPECT_EQ(speedup_remark(rows), "");
  }
  const auto planned_once = rows_of({trial(own, TrialStatus::done, 2, std::nullopt, "{}", true),
                                     trial(other, TrialStatus::done, 0.25, std::nullopt)},
                                    true);
  EXPECT_EQ(planned_once[1].speedup->mean, 8);
  EXPECT_EQ(speedup_remark(planned_once), "");
  EXPECT_EQ(speedup_remark(rows_of({trial(own, TrialStatus::done, 2, std::nullopt, "{}", true),
                                    trial(other, TrialStatus::waiting, 0, std::nullopt),
                                    trial(own, TrialStatus::waiting, 0, std::nullopt, "{}", true)},
                                   true)),
            "")
      << "there is nothing to compare yet";
}

TEST(SweepTable, ComparesGridPointsOverTheirSeeds) {
  const std::string measures =
      "{\"step_seconds\": 0.01, \"bytes_per_step\": 1000, \"uncompressed_bytes_per_step\": 4000}";
  const std::vector<Trial> trials = {
      trial({{"ddp.comm_hook", "no"}, {"training.seed", "1"}}, TrialStatus::done, 10, 0.5,
            "{\"step_seconds\": 0.02}", true),
      trial({{"ddp.comm_hook", "fp16"}, {"training.seed", "1"}}, TrialStatus::done, 4, 0.75, measures),
      trial({{"ddp.comm_hook", "bf16"}, {"training.seed", "1"}}, TrialStatus::failed, 4, std::nullopt),
      trial({{"ddp.comm_hook", "no"}, {"training.seed", "2"}}, TrialStatus::done, 10, 0.5,
            "{\"step_seconds\": 0.02}", true),
      trial({{"ddp.comm_hook", "fp16"}, {"training.seed", "2"}}, TrialStatus::done, 6, 0.25, measures),
      trial({{"ddp.comm_hook", "bf16"}, {"training.seed", "2"}}, TrialStatus::waiting, 0, std::nullopt),
  };
  const auto rows = rows_of(trials, /*smaller_is_better=*/true);
  ASSERT_THAT(rows, SizeIs(3));
  EXPECT_TRUE(rows[0].is_baseline);
  EXPECT_EQ(rows[1].metric->mean, 0.5);
  EXPECT_NEAR(rows[1].metric->spread, std::sqrt(0.125), 1e-12);
  EXPECT_EQ(rows[1].speedup->mean, 2);
  EXPECT_EQ(rows[1].compression->mean, 4);
  EXPECT_EQ(rows[1].best_id, "comm_hook=fp16 seed=2");
  EXPECT_EQ(rows_of(trials, false)[1].best_id, "comm_hook=fp16 seed=1");
  EXPECT_EQ(rows[2].failed, 1u);
  EXPECT_EQ(rows[2].waiting, 1u);
  EXPECT_EQ(
      table_text(rows, "loss", {}),
      "loss        step   trial      speed-up  sent per step  compression  trials                values\n"
      "0.5         20 ms  10 s       baseline                              2                     "
      "comm_hook=no\n"
      "0.5 ± 0.35  10 ms  5 ± 1.4 s  2x        1 kB           4x           2                     "
      "comm_hook=fp16\n"
      "                                                                    0, 1 failed, 1 to go  "
      "comm_hook=bf16\n");
}

}  // namespace
}  // namespace hookline
