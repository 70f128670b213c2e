#include "launcher/cli/verb_table.h"

namespace hookline {

const std::vector<Verb>& verbs() {
  static const std::vector<Verb> rows = {
      {"launch", "[flags] program [arguments]", "Run a program on several ranks", launch},
      {"submit", "--scheduler S [flags] program [arguments]", "Write a scheduler's job and submit it",
       submit},
      {"sweep", "FILE [flags]", "Run a program with many configs and find the best", sweep},
      {"trial", "DIR", "Run one trial that a sweep has planned for a job", trial},
      {"report", "DIR... [flags]", "Make a report of a sweep", report},
      {"test", "[flags]", "Check what a run depends on: network, collectives, hooks, limits", self_test},
      {"advise", "[flags] program [arguments]", "Measure and predict which communication hook is fastest",
       advise},
      {"env", "[--json] [--config FILE] [--profile NAME]", "Show what a bug report needs", env},
      {"estimate", "[FILE] [--parameters N] [flags]", "Estimate memory, and what each hook sends", estimate},
      {"replay", "--input DIR --output DIR [flags]", "Run recorded gradients through a hook", replay},
      {"new", "DIR [--variant VARIANT]", "Make a project that builds and trains", new_project},
      {"hooks list", "[--json] [--program PROG] [--plugin FILE]", "List the communication hooks", hooks_list},
      {"hooks describe", "NAME [--json] [--program PROG] [--plugin FILE]", "Describe a hook and its options",
       hooks_describe},
      {"config", "[--output FILE] [flags]", "Write a config file by question and answer", config_wizard},
      {"config default", "[--output FILE]", "Print a config file with every key, for you to edit",
       config_default},
      {"config show", "[FILE] [--set KEY=VALUE] [--json]", "Show every value and where it comes from",
       config_show},
      {"config validate", "FILE... [--json]", "Check config files", config_validate},
      {"config get", "FILE KEY", "Print one value of a file", config_get},
      {"config set", "FILE KEY VALUE...", "Set values of a file; its comments stay", config_set},
      {"config diff", "FILE FILE [--json]", "Show how two configs differ", config_diff},
      {"config update", "FILE [--dry-run]", "Bring a file to the current schema version", config_update},
      {"config import", "FILE [--output FILE]", "Convert the settings of torchrun, Accelerate or DeepSpeed",
       config_import},
      {"config where", "[--json]", "Show which file a launch would read", config_where},
      {"config schema", "[--program PROG]", "Print a JSON Schema for editors", config_schema},
      {"checkpoint inspect", "DIR [--tensors] [--json]", "Show what a checkpoint holds", checkpoint_inspect},
      {"checkpoint verify", "DIR", "Compare a checkpoint's files with their checksums", checkpoint_verify},
      {"completion", "bash|zsh|fish", "Print a script that completes commands in a shell", completion},
  };
  return rows;
}

const Verb* find_verb(const std::string& name) {
  for (const Verb& verb : verbs())
    if (verb.name == name) return &verb;
  return nullptr;
}

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

}  // namespace hookline
