#include "launcher/cli/command.h"

#include <algorithm>
#include <exception>
#include <iostream>

#include "hooks/catalog.h"
#include "hooks/log.h"
#include "launcher/cli/arguments.h"
#include "launcher/cli/exit_code.h"
#include "launcher/cli/verbs.h"
#include "launcher/supervise/program.h"

namespace hookline {
namespace {

struct Verb {
  std::string name;   // "hooks list"
  std::string usage;  // what follows the name
  std::string summary;
  int (*run)(const Arguments&);
};

const std::vector<Verb>& verbs() {
  static const std::vector<Verb> rows = {
      {"launch", "[flags] program [arguments]", "Run a program on several ranks", launch},
      {"submit", "--scheduler S [flags] program [arguments]", "Write a job for a scheduler, and hand it over",
       submit},
      {"replay", "--input DIR --output DIR [flags]", "Put recorded gradients through a hook", replay},
      {"hooks list", "[--json] [--program PROG] [--plugin FILE]", "List the communication hooks", hooks_list},
      {"hooks describe", "NAME [--json] [--program PROG] [--plugin FILE]", "Describe a hook and its options",
       hooks_describe},
      {"config validate", "FILE... [--program PROG]", "Check config files", config_validate},
      {"config show", "[FILE] [--set KEY=VALUE] [--json]", "Show every value and where it comes from",
       config_show},
      {"checkpoint inspect", "DIR [--tensors] [--json]", "Show what a checkpoint holds", checkpoint_inspect},
      {"checkpoint verify", "DIR", "Compare a checkpoint's files with their checksums", checkpoint_verify},
  };
  return rows;
}

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
    if (verb.name.starts_with(group)) {
      std::string command = "  " + verb.name + " " + verb.usage;
      command.resize(std::max<std::size_t>(command.size() + 2, 50), ' ');
      text += command + verb.summary + "\n";
    }
  text += "\n'hookline VERB --help' says more";
  if (group.empty()) text += "; 'hookline --version' prints the version";
  const std::string example = group == "hooks "    ? "hookline hooks describe power_sgd"
                              : group == "config " ? "hookline config show run.toml"
                              : group == "checkpoint "
                                  ? "hookline checkpoint inspect checkpoints"
                                  : "hookline launch --config run.toml ./train --epochs 5";
  return text + ".\n\nExample:\n  " + example + "\n";
}

/// The first words of the verbs that go on with `group`, each once.
std::vector<std::string> words_after(const std::string& group) {
  std::vector<std::string> words;
  for (const Verb& verb : verbs())
    if (verb.name.starts_with(group)) {
      const std::string word =
          verb.name.substr(group.size(), verb.name.find(' ', group.size()) - group.size());
      if (words.empty() || words.back() != word) words.push_back(word);
    }
  return words;
}

[[noreturn]] void unknown_word(const std::string& group, const std::string& word) {
  std::vector<std::string> candidates = words_after(group);
  if (group.empty()) candidates.insert(candidates.end(), {"--help", "--version"});
  const char* what = word.starts_with("-") ? "unknown flag '" : "unknown verb '";
  throw UsageError(what + group + word + "'" + suggestion(word, candidates));
}

/// `name` is what the verb is called so far, for the hint behind a message.
int dispatch(const std::vector<std::string>& arguments, std::string& name) {
  std::string group;
  for (auto word = arguments.begin(); word != arguments.end(); ++word) {
    if (asks_for_help(*word)) {
      std::cout << help(group) << std::flush;
      return kSuccess;
    }
    if (group.empty() && *word == "--version") {
      std::cout << "hookline " HOOKLINE_VERSION "\n" << std::flush;
      return kSuccess;
    }
    for (const Verb& verb : verbs())
      if (verb.name == group + *word) {
        name = verb.name;
        return verb.run({word + 1, arguments.end()});
      }
    const std::vector<std::string> words = words_after(group);
    if (std::find(words.begin(), words.end(), *word) == words.end()) unknown_word(group, *word);
    name = group + *word;
    group = name + " ";
  }
  std::cerr << help(group);
  return kBadInput;
}

}  // namespace

int run_command(const std::vector<std::string>& arguments) {
  std::string name;
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
  } catch (const ProgramError& error) {
    log::error(error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    log::error(error.what());
    return kFailure;
  }
}

}  // namespace hookline
