// hookline test: tries everything that a run depends on, on the ranks of a config.
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bounded_json.h"
#include "base/log.h"
#include "base/regular_file.h"
#include "base/text/count_text.h"
#include "config/resolve.h"
#include "config/schema/origin_text.h"
#include "launcher/cli/short_run/log_folder.h"
#include "launcher/cli/short_run/short_run.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs.h"
#include "launcher/launch/catalog_of.h"
#include "launcher/launch/libexec.h"
#include "launcher/launch/scheduled.h"
#include "launcher/launch/start_ranks.h"
#include "launcher/process/exit_code.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::uint64_t kLargestReportBytes = 16 << 20;

constexpr int kFailedChecks = 1;  // rank 0's exit code once it has reported them

struct TestFlags {
  ShortRunFlags run;
  std::string program;
  double time_limit = 120;  // seconds
  bool json = false;
};

/// Drops a comm_hook that the self-test's program does not have; all other hooks are tried.
void leave_out_unknown_hook(const Catalog& known, RunConfig& config) {
  if (known.find_hook(config.ddp.comm_hook)) return;
  log::warning("comm_hook '" + config.ddp.comm_hook +
               "' is the program's own, and is not tried: the others are");
  config.ddp.comm_hook = config.ddp.comm_wrapper = "no";
  config.ddp.comm_state_option.clear();
}

/// Rank 0's report, even if incomplete. Nothing if rank 0 is on another node, or ended before it began to
/// write.
std::optional<Json> report_in(const fs::path& file) {
  InputFile in(file, kLargestReportBytes);
  Json report = json_or_discarded<Json>(in.read_all());
  return report.is_object() ? std::optional(std::move(report)) : std::nullopt;
}

/// Prints what rank 0 could not print itself. `code`: the exit code of the ranks.
void conclude(std::optional<Json> report, int code, bool json) {
  const bool is_whole = report && report->at("verdict") != "unfinished";
  if (!is_whole && !json && report) {
    const std::size_t tried = report->at("checks").size();
    std::cout << "\n"
              << count_text(tried, "check") << ", and the ranks ended with " << report->at("not_tried")
              << " not tried\n";
  }
  if (json && !is_whole && code != kSuccess) {
    if (!report) report = Json{{"verdict", ""}, {"checks", Json::array()}};
    report->at("verdict") = "failed";
    report->at("checks").push_back(
        {{"name", "run"},
         {"verdict", "failed"},
         {"found", "the test exited with code " + std::to_string(code) + " before all was tried"},
         {"advice", "standard error says why"}});
  }
  if (json && report) std::cout << report->dump(2) << "\n";
  std::cout << std::flush;
}

}  // namespace

int self_test(const Arguments& arguments) {
  TestFlags flags;
  VerbParser parser("hookline test [flags]",
                    "Check what a run depends on: whether the ranks reach each other and how fast, every "
                    "collective, every hook, and the limits of the hosts. With several nodes, start it on "
                    "each of them, as you start a launch.",
                    "hookline test --processes-per-node 2");
  flags.run.add_ranks_flags(parser);
  parser.add_number("--time-limit", flags.time_limit, "SECONDS",
                    "Seconds after which the test gives up; else 120", {1, 86400});
  parser.add_text("--program", flags.program, "PROG",
                  "Accept a config that names a hook of this program; the hook itself is not tried");
  flags.run.add_set_flag(parser);
  parser.add_flag("--json", flags.json, "Print one JSON object at the end");
  if (!parser.parse(arguments)) return kSuccess;
  parser.expect_plain("", 0, 0);

  Sources sources = flags.run.config.sources();
  const std::string verb = "hookline test";
  sources.overrides =
      flags.run.overrides(verb, {{"launch.stall_timeout_seconds", "0", verb},  // it has --time-limit
                                 {"logging.prefix_template", "", verb},
                                 {"logging.show", "all", verb}});
  const CatalogOf known = catalog_of_libexec("self_test_rank");
  // --program makes the names of its hooks known, so that its config can be read.
  const CatalogOf hooks = flags.program.empty() ? known : catalog_of_named(flags.program);
  hooks.apply_to(sources);
  sources.allow_program_hooks = true;
  sources.reads_link_report = false;
  const Resolution resolution = resolve(sources, hooks.catalog);
  std::cerr << resolution.report() << std::flush;
  if (!resolution.ok()) return kBadInput;
  Program program = libexec_rank("self_test_rank", "tries everything on each rank");
  RunConfig config = resolution.config;
  log::set_level(config.logging.level);
  tell_found_config(flags.run.config, sources);
  if (!complete_by_scheduler(config)) return kBadInput;
  if (config.ddp.comm_hook == kAutoHook) config.ddp.comm_hook = "no";  // every hook is tried
  if (config.ddp.plugins.empty()) leave_out_unknown_hook(known.catalog, config);
  if (!is_given(config, "launch.join_timeout_seconds"))
    config.launch.join_timeout_seconds = flags.time_limit / 2;
  take_two_ranks(config);

  LogFolder folder("test", "the test's");
  folder.take_logs(config);
  const fs::path report = folder.path() / "report.json";
  program.arguments.push_back(std::to_string(flags.time_limit));
  program.arguments_here = {report.string()};
  if (flags.json) program.arguments_here.push_back("--silent");
  program.explained_exit = kFailedChecks;
  const int code = start_ranks(config, program);
  conclude(report_in(report), code, flags.json);
  // A test that a signal stopped has found nothing, so its logs are not kept.
  if (code != kSuccess && code <= 128) folder.keep();
  return code;
}

}  // namespace hookline
