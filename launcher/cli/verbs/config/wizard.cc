// hookline config: a config file by question and answer.
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "base/log.h"
#include "checkpoint/replace_durably.h"
#include "config/print.h"
#include "config/starting_file.h"
#include "hooks/catalog/wire_estimate.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs.h"
#include "launcher/cli/verbs/config/measured_hooks.h"
#include "launcher/launch/catalog_of.h"
#include "launcher/process/exit_code.h"
#include "launcher/process/shell.h"
#include "launcher/wizard/detect.h"
#include "launcher/wizard/hold_interview.h"

namespace hookline {
namespace {

struct WizardFlags {
  std::string output = "hookline.toml", answers, program;
  std::int64_t parameters = 10'000'000;
  bool yes = false, force = false, plain = false, measure = false;
};

bool can_move_cursor() {
  const char* const terminal = std::getenv("TERM");
  return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && terminal && *terminal &&
         std::string(terminal) != "dumb";
}

/// May the wizard write the file? Asks before it replaces an existing one.
bool may_write(const WizardFlags& flags, bool is_person) {
  if (const std::string problem = replace_problem(flags.output); !problem.empty()) {
    log::error(problem + "; choose another file with --output FILE");
    return false;
  }
  if (flags.force || !std::filesystem::exists(flags.output)) return true;
  if (!is_person) {
    log::error("'" + flags.output +
               "' is there already: name another file with --output, or give --force to replace it");
    return false;
  }
  std::cout << "'" << flags.output << "' is there already. Replace it at the end? [no] > " << std::flush;
  std::string line;
  std::getline(std::cin, line);
  if (line == "yes" || line == "y") return true;
  log::info("'" + flags.output + "' stays as it is; name another file with --output");
  return false;
}

std::string command_for(const WizardFlags& flags, const RunConfig& config, const Detected& here,
                        const std::string& scheduler) {
  std::string command = "hookline launch";
  if (!scheduler.empty()) command = "hookline submit --scheduler " + scheduler + " --nodes 2";
  if (flags.output != "hookline.toml") command += " --config " + shell_word(flags.output);
  command += " " + (flags.program.empty() ? std::string("./train") : shell_word(flags.program));
  if (!scheduler.empty()) return command + "   (--nodes: as many as you want)";
  return command + (config.launch.nnodes != "1" && here.scheduler.empty() ? "   (on each host)" : "");
}

}  // namespace

int config_wizard(const Arguments& arguments) {
  WizardFlags flags;
  VerbParser parser("hookline config [flags]",
                    "Write a config file by question and answer. It asks only what this machine and your "
                    "earlier answers leave open; '<' or Esc goes back.",
                    "hookline config --output run.toml");
  parser.add_text("--output", flags.output, "FILE", "The file to write; else hookline.toml");
  parser.add_text("--answers", flags.answers, "FILE",
                  "Take the answers from the lines of a file; an empty line is the default");
  parser.add_flag("--yes", flags.yes, "Where the answers end, take the defaults");
  parser.add_flag("--force", flags.force, "Replace the file if it is there");
  parser.add_flag("--plain", flags.plain, "Ask in lines, without moving the cursor");
  parser.add_number("--parameters", flags.parameters, "N",
                    "Number of your model's parameters, to show what each hook would send",
                    {1, kMostTypicalParameters});
  parser.add_flag("--measure", flags.measure,
                  "First measure or predict how long a step takes with each hook on this machine, as "
                  "hookline advise does");
  parser.add_program(flags.program);
  if (!parser.parse(arguments)) return kSuccess;
  parser.expect_plain("", 0, 0);

  const Catalog catalog = catalog_of_named(flags.program).catalog;
  std::istringstream file(flags.answers.empty() ? "" : text_of_file(flags.answers));
  const bool is_person = flags.answers.empty() && isatty(STDIN_FILENO);
  if (!may_write(flags, is_person)) return kBadInput;
  Detected here = detect();
  if (flags.measure) {
    std::cout << "Measuring hooks on this machine …\n" << std::flush;
    measure_hooks(flags.program, flags.parameters, here);
  }
  const Interview interview(catalog, here, flags.parameters);
  std::cout << "Here: " << interview.here() << "\n" << std::flush;

  ScreenDialog screen(STDIN_FILENO, STDOUT_FILENO);
  LineDialog lines(flags.answers.empty() ? std::cin : static_cast<std::istream&>(file), std::cout, is_person);
  Dialog& dialog = is_person && !flags.plain && can_move_cursor() ? static_cast<Dialog&>(screen) : lines;
  const InterviewEnd end = hold_interview(interview, dialog, flags.yes);
  switch (end.how) {
    case InterviewEnd::How::interrupted:
      log::info(end.message);
      return 128 + SIGINT;
    case InterviewEnd::How::answers_missing:
    case InterviewEnd::How::wrong_answer:
      log::error(end.message);
      return kBadInput;
    case InterviewEnd::How::finished:
      break;
  }
  const RunConfig config = interview.config(end.answers);
  const std::string text = chosen_file(config);
  replace_durably(flags.output, text);
  std::cout << "\n--- " << flags.output << "\n" << text << "---\n";
  if (const std::string traffic = interview.traffic(config); !traffic.empty()) std::cout << traffic << "\n";
  std::cout << "run it: " << command_for(flags, config, here, Interview::scheduler_of(end.answers)) << "\n"
            << std::flush;
  return kSuccess;
}

}  // namespace hookline
