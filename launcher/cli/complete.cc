#include "launcher/cli/complete.h"

#include <algorithm>
#include <iostream>

#include "base/text/printable.h"
#include "config/resolve.h"
#include "config/schema/schema.h"
#include "config/sources/find_config.h"
#include "hooks/catalog/catalog.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verb_table.h"
#include "launcher/process/exit_code.h"

namespace hookline {
namespace {

using Words = std::vector<std::string>;

DescribedVerb describe(const Verb& verb) {
  Description description;
  verb.run({});
  return description.verb;
}

/// The verb that `words` begin with, by its longest name, and how many words that takes.
const Verb* verb_of(const Words& words, std::size_t& taken) {
  const Verb* found = nullptr;
  std::string name;
  for (std::size_t i = 0; i < words.size(); ++i) {
    name += (i == 0 ? "" : " ") + words[i];
    if (const Verb* verb = find_verb(name)) {
      found = verb;
      taken = i + 1;
    }
  }
  return found;
}

const DescribedFlag* find_flag(const DescribedVerb& verb, const std::string& name) {
  for (const DescribedFlag& flag : verb.flags)
    if (flag.name == name) return &flag;
  return nullptr;
}

void add_values(const OptionRow& row, const std::string& head, std::vector<Candidate>& candidates) {
  Words values = row.allowed;
  if (row.type == OptionType::boolean) values = {"true", "false"};
  if (row.or_word) values.push_back(*row.or_word);
  for (const std::string& value : values) candidates.push_back({head + value, ""});
}

void add_hooks(const Catalog& catalog, const std::string& head, std::vector<Candidate>& candidates) {
  for (const HookRow& hook : catalog.hooks()) candidates.push_back({head + hook.name, hook.summary});
}

void add_wrappers(const Catalog& catalog, const std::string& head, std::vector<Candidate>& candidates) {
  for (const WrapperRow& wrapper : catalog.wrappers())
    candidates.push_back({head + wrapper.name, wrapper.summary});
}

/// Adds the values of a key, each with `head` in front.
void add_values_of_key(const Catalog& catalog, const std::string& key, const std::string& head,
                       std::vector<Candidate>& candidates) {
  if (key == "ddp.comm_hook") {
    add_hooks(catalog, head, candidates);
    return candidates.push_back({head + kAutoHook, "Chosen while the run trains."});
  }
  if (key == "ddp.comm_wrapper") return add_wrappers(catalog, head, candidates);
  if (const KeyRow* row = find_key(key)) return add_values(row->option, head, candidates);
  const std::string options = std::string(kHookOptionTable) + ".";
  if (!key.starts_with(options)) return;
  for (const HookRow& hook : catalog.hooks())
    for (const OptionRow& option : hook.options)
      if (options + option.name == key) return add_values(option, head, candidates);
}

void add_keys(const Catalog& catalog, const std::string& tail, std::vector<Candidate>& candidates) {
  for (const std::string& key : all_keys(catalog)) {
    const KeyRow* const row = find_key(key);
    candidates.push_back({key + tail, row ? row->option.help : "an option of the hook"});
  }
}

/// `begun`: the part of the word that is typed so far.
Completions values_of_flag(const Catalog& catalog, const DescribedFlag& flag, const std::string& begun,
                           const std::string& config_file) {
  Completions result;
  const std::size_t equals = begun.find('=');
  if (flag.name == "--set" || flag.name == "--state-option") {
    const std::string table = flag.name == "--set" ? "" : std::string(kHookOptionTable) + ".";
    if (equals != begun.npos) {
      add_values_of_key(catalog, table + begun.substr(0, equals), begun.substr(0, equals + 1),
                        result.candidates);
    } else {
      add_keys(catalog, "=", result.candidates);
      std::erase_if(result.candidates, [&](const Candidate& each) { return !each.word.starts_with(table); });
      for (Candidate& each : result.candidates) each.word.erase(0, table.size());
    }
  } else if (flag.value == "HOOK") {
    add_hooks(catalog, "", result.candidates);
  } else if (flag.value == "WRAPPER") {
    add_wrappers(catalog, "", result.candidates);
  } else if (flag.name == "--scheduler") {
    result.candidates = {{"slurm", ""}, {"kubernetes", ""}, {"mpirun", ""}};
  } else if (flag.name == "--profile") {
    Sources sources;
    sources.file = config_file.empty() ? find_config() : std::optional<std::filesystem::path>(config_file);
    for (const std::string& profile : resolve(sources, catalog).profiles)
      result.candidates.push_back({profile, ""});
  } else {
    result.files = flag.value == "FILE" || flag.value == "DIR" || flag.value == "PROG";
  }
  return result;
}

Completions plain_words(const Catalog& catalog, const std::string& verb, const Words& plain) {
  Completions result;
  if (verb == "hooks describe") {
    add_hooks(catalog, "", result.candidates);
  } else if (verb == "completion") {
    result.candidates = {{"bash", ""}, {"zsh", ""}, {"fish", ""}};
  } else if (verb == "config get" || verb == "config set") {
    // FILE KEY VALUE KEY VALUE …
    if (plain.empty()) {
      result.files = true;
    } else if (plain.size() % 2 == 1) {
      add_keys(catalog, "", result.candidates);
    } else {
      add_values_of_key(catalog, plain.back(), "", result.candidates);
    }
  } else {
    result.files = true;
  }
  return result;
}

Completions after_verb(const Verb& verb, const Words& words) {
  const Catalog catalog = Catalog::built_in();
  const DescribedVerb described = describe(verb);
  const bool launches = verb.name == "launch" || verb.name == "submit";
  Words plain;
  std::string config_file;
  const DescribedFlag* open = nullptr;  // the flag whose value comes next
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (open) {
      if (open->name == "--config") config_file = word;
      open = nullptr;
    } else if (word == "--" || (launches && !word.starts_with("-") && !word.ends_with(".toml"))) {
      return {true, {}};  // the program and its own arguments
    } else if (word.starts_with("-")) {
      const DescribedFlag* const flag = find_flag(described, word.substr(0, word.find('=')));
      if (flag && !flag->value.empty() && word.find('=') == word.npos) open = flag;
    } else {
      plain.push_back(word);
    }
  }
  const std::string& begun = words.back();
  if (open) return values_of_flag(catalog, *open, begun, config_file);
  const std::size_t equals = begun.find('=');
  if (begun.starts_with("--") && equals != begun.npos) {
    const DescribedFlag* const flag = find_flag(described, begun.substr(0, equals));
    if (!flag) return {};
    Completions result = values_of_flag(catalog, *flag, begun.substr(equals + 1), config_file);
    for (Candidate& each : result.candidates) each.word.insert(0, begun.substr(0, equals + 1));
    return result;
  }
  if (!begun.starts_with("-")) return plain_words(catalog, verb.name, plain);
  Completions result;
  for (const DescribedFlag& flag : described.flags) result.candidates.push_back({flag.name, flag.help});
  return result;
}

}  // namespace

Completions complete(const Words& words) {
  Completions result;
  if (words.empty()) return result;
  std::size_t taken = 0;
  const Words before(words.begin(), words.end() - 1);
  const Verb* const verb = verb_of(before, taken);
  std::string group;
  for (const std::string& word : before) group += word + " ";
  if (taken == before.size() || !verb) {
    for (const std::string& word : words_after(group)) {
      const Verb* const next = find_verb(group + word);
      result.candidates.push_back({word, next ? next->summary : ""});
    }
    if (before.empty())
      result.candidates.insert(result.candidates.end(),
                               {{"--cmake-dir", ""}, {"--help", ""}, {"--version", ""}});
  }
  if (verb) {
    Completions more = after_verb(*verb, {words.begin() + static_cast<std::ptrdiff_t>(taken), words.end()});
    // Where more words of a verb are possible, file names are not.
    result.files = more.files && result.candidates.empty();
    result.candidates.insert(result.candidates.end(), more.candidates.begin(), more.candidates.end());
  }
  // A shell prints candidates as they are, so those with control characters, as in a profile's name, are
  // dropped.
  std::erase_if(result.candidates, [&](const Candidate& each) {
    return !each.word.starts_with(words.back()) || printable(each.word) != each.word;
  });
  return result;
}

int complete_words(const Arguments& arguments) {
  // Everything after "--" is the command line as typed.
  const auto begin = std::find(arguments.begin(), arguments.end(), "--");
  const Completions completions = complete({begin == arguments.end() ? begin : begin + 1, arguments.end()});
  if (completions.files) std::cout << ":files\n";
  for (const Candidate& each : completions.candidates)
    std::cout << each.word << "\t" << printable(each.note) << "\n";
  std::cout << std::flush;
  return kSuccess;
}

}  // namespace hookline
