// Sweep folders for report tests.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/run_hookline.h"
#include "launcher/sweep/state.h"

namespace hookline::testing {

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// Runs a sweep with three rows. The program's loss falls faster the larger lr is; lr = 0.4 fails.
inline void run_sweep_of_three(const Sandbox& sandbox) {
  sandbox.script(
      "train.sh",
      "[ \"$2\" = 0.4 ] && { echo 'it </script> fell over' >&2; exit 3; }\n"
      "for step in 1 2 3; do\n"
      "  awk -v s=$step -v lr=$2 'BEGIN { printf \"{\\\"step\\\": %d, \\\"seconds\\\": %g, "
      "\\\"bytes_sent\\\": %d, \\\"loss\\\": %g}\\n\", s, s / 10, s * 1000, 1 / (1 + s * lr) }'\n"
      "done > \"$HOOKLINE_RUN_DIR/metrics.jsonl\"\n"
      "echo '{\"step_seconds\": 0.1, \"bytes_per_step\": 1000, \"phase_seconds\": {\"forward\": 0.02}, "
      "\"uncompressed_bytes_per_step\": 4000}' "
      "> \"$HOOKLINE_RUN_DIR/summary.json\"\n");
  sandbox.folder.write("tried.toml",
                       "[sweep]\nprogram = [\"./train.sh\"]\nmetric = \"loss\"\n"
                       "[baseline]\nargs.lr = 0.1\n[grid]\nargs.lr = [0.2, 0.4]\n");
  EXPECT_EQ(sandbox.run({"sweep", "tried.toml", "--output", "results"}).exit_code, 1);
}

/// Creates a sweep's folder with `count` completed trials.
inline void keep_trials(const std::filesystem::path& folder, std::size_t count, bool has_baseline = false,
                        const std::string& goal = "min") {
  SweepPlan plan;
  for (std::size_t i = 0; i < count; ++i) {
    PlannedTrial trial;
    trial.id = "trial" + std::to_string(i);
    trial.values = {{"args.lr", std::to_string(i)}};
    trial.program = {"./train"};
    trial.is_baseline = has_baseline && i == 0;
    plan.trials.push_back(trial);
  }
  SweepState state(folder);
  SweepFacts facts;
  facts.name = "many";
  facts.metric = "loss";
  facts.goal = goal;
  state.take(plan, facts);
  for (std::size_t i = 0; i < count; ++i) {
    const std::filesystem::path run = folder / "trials" / plan.trials[i].id / "runs" / "latest";
    std::filesystem::create_directories(run);
    std::ofstream(run / "../../config.toml") << "[launch]\n";
    std::ofstream log(run / "metrics.jsonl");
    for (int step = 1; step <= 50; ++step) {
      const double loss = 1.0 / static_cast<double>(step + static_cast<int>(i));
      log << nlohmann::json{{"step", step},
                            {"seconds", 0.1 * step},
                            {"loss", loss},
                            {"compression_error", loss / 2}}
          << "\n";
    }
    TrialResult result;
    result.metric = 1.0 / static_cast<double>(50 + i);
    result.seconds = 1;
    result.ran_well = true;
    result.measures =
        R"({"step_seconds": 0.1, "bytes_per_step": 1000, "uncompressed_bytes_per_step": 4000,)"
        R"( "phase_seconds": {"forward": 0.02, "backward": 0.04, "exposed_communication": 0.01,)"
        R"( "optimizer": 0.01, "other": 0.02}, "stage_bytes": {"gradients": 600, "q": 400}})";
    state.end(plan.trials[i].id, result);
  }
}

}  // namespace hookline::testing
