#include "launcher/cli/verbs/sweep/winners.h"

#include <algorithm>
#include <iostream>
#include <string>

#include "base/text/printable.h"
#include "checkpoint/replace_durably.h"
#include "launcher/process/shell.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

/// Writes the config of a row's best trial to `file`; returns the command that runs it.
std::string keep_row(const ResultRow& row, const SweepPlan& plan, const fs::path& file, const char* what) {
  const auto best = std::find_if(plan.trials.begin(), plan.trials.end(),
                                 [&](const PlannedTrial& trial) { return trial.id == row.best_id; });
  replace_durably(file, std::string("# ") + what + " of a sweep: trial " + best->id + ", which ran\n#   " +
                            shown_shell_line(best->program) + "\n" + best->point.config);
  std::vector<std::string> command = {"hookline", "launch", "--config", file.string()};
  for (const auto& [key, name] :
       best->point.own_folders)  // those in the config may hold files of another run
    command.insert(command.end(), {"--set", key + "=" + name + "-" + best->id});
  command.insert(command.end(), best->program.begin(), best->program.end());
  return shown_shell_line(command);
}

}  // namespace

void keep_winners(const std::vector<ResultRow>& rows, const SweepPlan& plan, const SweepRun& run, bool json) {
  const fs::path best = run.folder / "best.toml", fastest = run.folder / "fastest.toml";
  std::error_code none;  // there may be no file to remove
  if (rows.empty() || rows.front().best_id.empty()) {
    fs::remove(best, none);
    fs::remove(fastest, none);
    return;
  }
  const auto result_of = [&](const ResultRow& row) {
    return row.metric ? printable(run.settings.metric) + " " + text_with_spread(*row.metric, row.done)
                      : "no metric";
  };
  const std::string doubt = rows.front().metric ? doubt_of_best(rows) : "";
  std::string text =
      "\n" + (doubt.empty() ? "The best" : "No clear best: " + doubt + ". The first row") + ", with " +
      result_of(rows.front()) + ", is " + printable(best.string()) + ":\n  " +
      printable(keep_row(rows.front(), plan, best,
                         doubt.empty() ? "The best" : "The first row, not clearly the best,")) +
      "\n";
  const auto row =
      std::find_if(rows.begin() + 1, rows.end(), [](const ResultRow& each) { return each.is_fastest; });
  if (row == rows.end()) {
    fs::remove(fastest, none);
  } else {
    const std::string command = keep_row(*row, plan, fastest, "The fastest that does as well as the best");
    std::string speed = row->is_baseline ? ", the baseline" : "";
    if (row->speedup)
      speed = ", " + text_with_spread(*row->speedup, row->done) + " times the baseline's speed";
    text += "The fastest row that is as good, with a mean within the first row's spread (" +
            printable(label_of(row->values, run.same)) + ": " + result_of(*row) + speed + "), is " +
            printable(fastest.string()) + ":\n  " + printable(command) + "\n";
  }
  if (json) return;
  std::cout << text << "A page of all that was found:\n  "
            << printable(shown_shell_line({"hookline", "report", run.folder.string()})) << "\n";
}

}  // namespace hookline
