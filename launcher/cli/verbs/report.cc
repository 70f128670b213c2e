// hookline report: what a sweep has found, as a page, tables and pictures.
#include <ctime>
#include <filesystem>
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/folder_access.h"
#include "base/log.h"
#include "base/text/time_text.h"
#include "checkpoint/replace_durably.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs.h"
#include "launcher/process/exit_code.h"
#include "launcher/report/page.h"
#include "launcher/report/plots.h"
#include "launcher/report/results_text.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

constexpr std::size_t kMostSweeps = 100;

/// Writes to a file, or to standard output if `file` is "-".
void write(const std::string& file, const std::string& text) {
  if (file.empty()) return;
  if (file != "-")
    replace_durably(file, text);
  else
    std::cout << text << std::flush;
}

/// The flag that names an output, and the file.
using Output = std::pair<const char*, std::string>;

/// Throws UsageError if two outputs go to the same file, or both to standard output.
void expect_apart(const std::vector<Output>& outputs) {
  std::map<std::string, const char*> flag_of;
  for (const auto& [flag, file] : outputs) {
    if (file.empty()) continue;
    std::error_code error;
    const fs::path target = fs::weakly_canonical(fs::absolute(file), error);
    const auto [other, is_first] = flag_of.emplace(file == "-" || error ? file : target.string(), flag);
    if (!is_first)
      throw UsageError(
          std::string(other->second) + " and " + flag + " both write " +
          (file == "-" ? "to standard output: name a file" : "'" + file + "': name another file") +
          " for one of them");
  }
}

}  // namespace

int report(const Arguments& arguments) {
  std::string output, csv, json_lines, plots, format, browser;
  VerbParser parser("hookline report DIR... [flags]",
                    "Make a report of a sweep: curves, Pareto fronts, a table, every trial's config and "
                    "the end of its log. The page is one file that needs no network. A sweep may still be "
                    "running. Several sweeps, such as the same one on different networks, share one page.",
                    "hookline report hookline-sweeps/hooks");
  parser.add_text(
      "--output", output, "FILE",
      "File for the page; else report.html in the sweep's folder; required for several sweeps; - is standard "
      "output");
  parser.add_text("--csv", csv, "FILE", "Also write the trials as CSV; - is standard output");
  parser.add_text("--jsonl", json_lines, "FILE", "Also write the trials as JSON lines; - is standard output");
  parser.add_text("--plots", plots, "DIR",
                  "Also write each chart as a picture, which needs Chromium or Chrome");
  parser.add_text("--format", format, "png|svg", "Format of the pictures; else svg");
  parser.add_text("--browser", browser, "PROGRAM",
                  "Browser that draws them; else Chromium or Chrome as found on PATH");
  if (!parser.parse(arguments)) return kSuccess;
  parser.expect_plain("folder of a sweep", 1, kMostSweeps);
  if (plots.empty() && (!format.empty() || !browser.empty()))
    throw UsageError(std::string(format.empty() ? "--browser" : "--format") +
                     " applies to the pictures: say where they go with --plots DIR");
  if (format.empty()) format = "svg";
  if (format != "png" && format != "svg")
    throw UsageError("there is no --format '" + format + "': write png or svg");
  for (const auto& [flag, file] : {std::pair("--output", output), {"--csv", csv}, {"--jsonl", json_lines}}) {
    expect_access(file);
    if (fs::is_directory(file))
      throw UsageError(std::string(flag) + " '" + file + "' is a folder: name a file in it");
  }
  const std::vector<fs::path> folders(parser.plain().begin(), parser.plain().end());
  const auto is_file = [](const fs::path& path) {
    std::error_code none;
    return fs::exists(path, none) && !fs::is_directory(path, none);
  };
  for (const fs::path& folder : folders) {
    expect_access(folder);
    if (is_file(folder))
      throw UsageError("'" + folder.string() +
                       "' is a file: name the folder of a sweep's results, such as hookline-sweeps/" +
                       folder.stem().string());
  }
  expect_access(plots);
  if (!plots.empty() && is_file(plots)) throw UsageError("--plots '" + plots + "' is a file: name a folder");
  if (folders.size() > 1 && output.empty())
    throw UsageError("a page of several sweeps has no folder of its own: name its file with --output FILE");
  if (output.empty()) output = folders[0] / "report.html";
  expect_apart({{"--output", output}, {"--csv", csv}, {"--jsonl", json_lines}});
  if (output == "-" && !plots.empty())
    throw UsageError(
        "--plots draws the charts from the page's file, so the page can't go to standard output: name a file "
        "with --output FILE");
  SweepResults results;
  try {
    results = read_sweep_results(folders);
  } catch (const Error& error) {
    log::error(error.what());
    return kBadInput;
  }
  if (!plots.empty() && browser.empty()) browser = find_browser();
  if (!plots.empty() && browser.empty()) {
    log::error(
        "--plots needs a browser of Chromium's kind, and none is on PATH: install chromium, or name one with "
        "--browser");
    return kBadInput;
  }
  try {
    write(output, report_page(results, time_text(std::time(nullptr))));
    if (output != "-") log::info("the report is " + output);
    write(csv, trials_as_csv(results));
    write(json_lines, trials_as_json_lines(results));
    if (plots.empty()) return kSuccess;
    fs::create_directories(plots);
    for (const auto& [name, picture] : draw_plots(output, format, browser)) {
      const fs::path file = fs::path(plots) / (name + "." + format);
      replace_durably(file, picture);
      log::info("a chart is " + file.string());
    }
    return kSuccess;
  } catch (const std::exception& error) {  // Error or std::filesystem::filesystem_error
    log::error(error.what());
    return kFailure;
  }
}

}  // namespace hookline
