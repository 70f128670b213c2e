#include "launcher/cli/command.h"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <iostream>

#include "base/folder_access.h"
#include "base/log.h"
#include "hooks/catalog/catalog.h"
#include "launcher/cli/arguments.h"
#include "launcher/cli/terminal_text.h"
#include "launcher/cli/verb_table.h"
#include "launcher/launch/libexec.h"
#include "launcher/process/exit_code.h"
#include "launcher/rank/program.h"

namespace hookline {
namespace {

bool asks_for_help(const std::string& word) { return word == "--help" || word == "-h" || word == "help"; }

/// Help on the verbs whose name starts with `group`: "" for all, "hooks " for one group.
std::string help(const std::string& group) {
  std::string text;
  if (group.empty())
    text = "hookline " HOOKLINE_VERSION
           ": launches and configures distributed training in C++ on libtorch\n"
           "Usage: hookline VERB [flags]\n\n";
  else
    text = "Usage: hookline " + group + "VERB [flags]\n\n";
  text += "Verbs:\n";
  for (const Verb& verb : verbs())
    if (verb.name.starts_with(group) || verb.name + " " == group) {
      std::string command = "  " + verb.name + " " + verb.usage;
      command.resize(std::max<std::size_t>(command.size() + 2, 50), ' ');
      text += command + verb.summary + "\n";
    }
  text += "\n'hookline VERB --help' says more";
  if (group.empty())
    text +=
        "; 'hookline --version' prints the version, and 'hookline --cmake-dir' where CMake finds the C++ "
        "library";
  const std::string example = group == "hooks "    ? "hookline hooks describe power_sgd"
                              : group == "config " ? "hookline config show run.toml"
                              : group == "checkpoint "
                                  ? "hookline checkpoint inspect checkpoints"
                                  : "hookline launch --config run.toml ./train --epochs 5";
  return text + ".\n\nExample:\n  " + example + "\n";
}

[[noreturn]] void unknown_word(const std::string& group, const std::string& word) {
  std::vector<std::string> candidates = words_after(group);
  if (group.empty()) candidates.insert(candidates.end(), {"--cmake-dir", "--help", "--version"});
  const char* what = word.starts_with("-") ? "unknown flag '" : "unknown verb '";
  throw UsageError(what + group + word + "'" + suggestion(word, candidates));
}

/// Is the next word a verb of the group, or was it meant to be one?
bool goes_on(std::vector<std::string>::const_iterator next, std::vector<std::string>::const_iterator end) {
  return next != end && (!next->starts_with("-") || asks_for_help(*next));
}

/// Prints the folder of the CMake package, as CMake's hookline_DIR takes it.
int print_cmake_folder() {
  const std::filesystem::path folder = cmake_folder();
  std::error_code error;
  if (!std::filesystem::exists(folder / "hooklineConfig.cmake", error)) {
    log::error(
        "'" + folder.string() +
        "' has no hooklineConfig.cmake: this is the launcher alone, or a build that is not installed\n"
        "  install hookline's C++ library for your torch: the Python package hookline-torch in the same "
        "environment if hookline came by pip, else the Debian package, the .tar.gz, or a checkout with "
        "cmake --install");
    return kFailure;
  }
  std::cout << folder.string() << "\n" << std::flush;
  return kSuccess;
}

/// Runs the verb. `name` becomes what was recognized of its name, for the hint after an error.
int dispatch(const std::vector<std::string>& arguments, std::string& name) {
  std::string group;
  for (auto word = arguments.begin(); word != arguments.end(); ++word) {
    if (group.empty() && *word == "help" && word + 1 != arguments.end()) {
      std::vector<std::string> about(word + 1, arguments.end());
      about.emplace_back("--help");
      return dispatch(about, name);
    }
    if (asks_for_help(*word)) {
      // `config` is a verb of its own too.
      if (const Verb* const verb = find_verb(name)) {
        verb->run({"--help"});
        std::cout << "\n";
      }
      std::cout << help(group) << std::flush;
      return kSuccess;
    }
    if (group.empty() && *word == "--version") {
      std::cout << "hookline " HOOKLINE_VERSION "\n" << std::flush;
      return kSuccess;
    }
    if (group.empty() && *word == "--cmake-dir") return print_cmake_folder();
    if (group.empty() && *word == "complete-words") return complete_words({word + 1, arguments.end()});
    if (group.empty() && *word == "man-pages") return man_pages({word + 1, arguments.end()});
    if (group.empty() && *word == "reference-pages") return reference_pages({word + 1, arguments.end()});
    const Verb* const verb = find_verb(group + *word);
    const bool is_group = !words_after(group + *word + " ").empty();
    // `config` is a verb, and the first word of others.
    if (verb && !(is_group && goes_on(word + 1, arguments.end()))) {
      name = verb->name;
      return verb->run({word + 1, arguments.end()});
    }
    if (!is_group) unknown_word(group, *word);
    name = group + *word;
    group = name + " ";
  }
  std::cerr << help(group);
  return kBadInput;
}

/// Logs an error that the verb did not handle. Bad input if a folder may not be entered, else a failure.
int explained(const std::filesystem::filesystem_error& error) {
  for (const std::filesystem::path& path : {error.path1(), error.path2()}) {
    const std::string problem =
        error.code() == std::errc::permission_denied ? access_problem(path) : std::string();
    if (problem.empty()) continue;
    log::error(problem);
    return kBadInput;
  }
  log::error(error.what());
  return kFailure;
}

}  // namespace

int run_command(const std::vector<std::string>& arguments) {
  std::string name;
  log::escape_line_breaks_of(arguments);
  const TerminalText output(std::cout, STDOUT_FILENO), messages(std::cerr, STDERR_FILENO);
  try {
    const int code = dispatch(arguments, name);
    if (std::cout.flush()) return code;
    log::error("can't write to standard output");
    return kFailure;
  } catch (const UsageError& error) {
    log::error(std::string(error.what()) + "\n  see: hookline " + (name.empty() ? "" : name + " ") +
               "--help");
    return kBadInput;
  } catch (const CatalogError& error) {
    log::error(error.what());
    return kBadInput;
  } catch (const FolderAccessError& error) {
    log::error(error.what());
    return kBadInput;
  } catch (const ProgramError& error) {
    log::error(error.what());
    return error.exit_code();
  } catch (const std::filesystem::filesystem_error& error) {
    return explained(error);
  } catch (const std::exception& error) {
    log::error(error.what());
    return kFailure;
  }
}

}  // namespace hookline
