#include "launcher/import/launch_line.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

namespace hookline {

bool is_program(const std::string& word, const std::string& name) {
  return word == name || word.ends_with("/" + name);
}

namespace {

/// Sets srun's --ntasks-per-node to 1: hookline launch is one task on each node.
void take_tasks_per_node(Imported& result) {
  std::vector<std::string>& words = result.before;
  const auto srun = std::find_if(words.begin(), words.end(),
                                 [](const std::string& word) { return is_program(word, "srun"); });
  for (auto word = srun; word != words.end(); ++word) {
    constexpr std::string_view kName = "--ntasks-per-node";
    const bool has_next = *word == kName && word + 1 != words.end();
    if (!has_next && !word->starts_with(std::string(kName) + "=")) continue;
    std::string& value = has_next ? word[1] : *word;
    const std::string number = has_next ? value : value.substr(kName.size() + 1);
    if (number == "1") continue;
    value = has_next ? "1" : std::string(kName) + "=1";
    result.leave_out(std::string(kName) + "=" + number,
                     "one hookline launch per node starts all of the node's ranks: the command below has " +
                         std::string(kName) + "=1");
  }
}

std::string stands_as_written(const std::string& word) {
  return "'" + word + "' is in the command below as the script has it: replace it with its value";
}

bool has_only_digits(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

class Splitter {
 public:
  Splitter(const FlagTable& table, Imported& result) : table_(table), result_(result) {}

  LaunchArguments split(const std::vector<ShellWord>& words) {
    std::size_t i = 0;
    for (; i < words.size(); ++i) {
      const std::string& word = words[i].text;
      if (word == "--") {
        ++i;
        break;
      }
      if ((word.starts_with("$") || word.starts_with("`")) && words[i].is_open && may_be_flags(words, i)) {
        result_.leave_out(
            words[i].as_written,
            "only a shell knows which flags it holds: write them into the script, and import it again");
        continue;
      }
      if (!word.starts_with("-") || word == "-") break;
      i = flag(words, i);
    }
    arguments_.program.assign(words.begin() + static_cast<std::ptrdiff_t>(std::min(i, words.size())),
                              words.end());
    return std::move(arguments_);
  }

 private:
  /// Does the variable at `i` hold flags? It is taken to hold the program unless the next word can be the
  /// program.
  static bool may_be_flags(const std::vector<ShellWord>& words, std::size_t i) {
    return i + 1 < words.size() && !words[i + 1].text.starts_with("-");
  }

  /// Reads the flag at `i`; returns the index of its last word.
  std::size_t flag(const std::vector<ShellWord>& words, std::size_t i) {
    const std::string& word = words[i].text;
    const std::size_t equals = word.find('=');
    LaunchFlag flag;
    bool has_value = equals != word.npos;
    if (has_value) flag.value = word.substr(equals + 1);
    flag.is_open = words[i].is_open;
    flag.defaults = words[i].defaults;
    if (!word.starts_with("--")) {
      const auto known = table_.short_names.find(word[1]);
      flag.name = known == table_.short_names.end() ? word.substr(1, equals - 1) : known->second;
      if (known != table_.short_names.end() && word.size() > 2 && !table_.switches.contains(flag.name)) {
        flag.value = word.substr(word[2] == '=' ? 3 : 2);
        has_value = true;
      }
    } else {
      flag.name = word.substr(2, equals == word.npos ? word.npos : equals - 2);
      std::replace(flag.name.begin(), flag.name.end(), table_.dash == '-' ? '_' : '-', table_.dash);
      if (table_.may_be_short) complete(flag.name);
    }
    const std::string shown = "--" + flag.name;
    if (table_.switches.contains(flag.name)) {
      if (has_value) throw ImportError(shown + " takes no value");
      flag.from = shown;
    } else {
      std::string written = has_value ? flag.value : "";
      const std::size_t written_equals = words[i].as_written.find('=');
      if (equals != word.npos && written_equals != std::string::npos)
        written = words[i].as_written.substr(written_equals + 1);
      const bool is_known = table_.valued.contains(flag.name);
      if (!has_value && is_known && i + 1 == words.size()) throw ImportError(shown + " has no value");
      if (!has_value && (is_known || takes_next(words, i))) {
        ++i;
        flag.value = words[i].text;
        written = words[i].as_written;
        flag.is_open = flag.is_open || words[i].is_open;
        flag.defaults.insert(words[i].defaults.begin(), words[i].defaults.end());
      }
      flag.from = shown + (written.empty() ? "" : "=" + written);
    }
    arguments_.flags.push_back(std::move(flag));
    return i;
  }

  /// Is the word after an unknown flag its value, and not the program?
  static bool takes_next(const std::vector<ShellWord>& words, std::size_t i) {
    return i + 2 < words.size() && !words[i + 1].text.starts_with("-") && !words[i + 1].text.ends_with(".py");
  }

  /// Completes a name as argparse does: if it begins exactly one name.
  void complete(std::string& name) const {
    if (table_.switches.contains(name) || table_.valued.contains(name)) return;
    std::string found;
    for (const auto& names : {table_.switches, table_.valued})
      for (const std::string& each : names) {
        if (!each.starts_with(name)) continue;
        if (!found.empty()) return;
        found = each;
      }
    if (!found.empty()) name = found;
  }

  const FlagTable& table_;
  Imported& result_;
  LaunchArguments arguments_;
};

}  // namespace

LaunchArguments split_arguments(const LaunchLine& line, const FlagTable& table, Imported& result) {
  return Splitter(table, result).split(line.arguments);
}

std::string set_flag_for(const std::string& key) {
  const char* const value = key.ends_with("address")    ? "HOST"
                            : key.ends_with("dir")      ? "FOLDER"
                            : key.ends_with("run_id")   ? "ID"
                            : key.ends_with("template") ? "TEXT"
                            : key == "logging.show"     ? "WHAT"
                            : key == "logging.level"    ? "LEVEL"
                            : key == "launch.device"    ? "DEVICE"
                            : key == "launch.binding"   ? "BINDING"
                                                        : "N";
  return "--set " + key + "=" + value;
}

std::string only_a_shell_knows(const std::string& key) {
  return "only a shell knows its value: launch with " + set_flag_for(key);
}

std::string without_brackets(const std::string& address) {
  return address.starts_with('[') && address.ends_with(']') ? address.substr(1, address.size() - 2) : address;
}

void take_surroundings(const LaunchLine& line,
                       const std::map<std::string, std::function<void(const LaunchFlag&)>>& settings,
                       Imported& result) {
  static const std::set<std::string> kOfRanks = {"MASTER_ADDR", "MASTER_PORT",      "RANK",
                                                 "LOCAL_RANK",  "LOCAL_WORLD_SIZE", "WORLD_SIZE"};
  std::map<std::string, ShellWord> variables;  // the command's own override exported ones
  for (const auto& [name, value] : line.environment) variables[name] = value;
  for (const auto& [name, value] : variables) {
    const std::string from = name + "=" + value.as_written;
    if (name == "OMP_NUM_THREADS" && has_only_digits(value.text))
      result.carry("launch.omp_num_threads", value.text, from);
    else if (const auto setting = settings.find(name); setting != settings.end() && !value.is_open)
      setting->second({name, value.text, from, false, value.defaults});
    else if (kOfRanks.contains(name))
      result.leave_out(from, "hookline sets it for each rank");
    else if (value.is_open)
      result.leave_out(from, "only a shell knows its value: set it before hookline launch");
    else
      result.environment.emplace_back(name, value.text);
  }
  for (const ShellWord& word : line.before) {
    result.before.push_back(word.text);
    if (word.is_open) result.remarks.push_back(stands_as_written(word.as_written));
  }
  take_tasks_per_node(result);
  for (const std::string& preparation : line.preparations)
    result.leave_out(preparation, "the command below does not include it: run it first, in the same shell");
  for (const std::string& keyword : line.inside)
    result.leave_out("the '" + keyword + "' around it", "the command below runs once, outside of it");
  if (line.cut_at_line > 0)
    result.leave_out("what follows line " + std::to_string(line.cut_at_line),
                     "a blank follows the backslash that ends that line, so the command ends there: remove "
                     "the blank, and import the script again");
  for (const std::string& redirection : line.redirections)
    result.leave_out(redirection, redirection.find('<') != redirection.npos
                                      ? "ranks' standard input is /dev/null"
                                      : "the ranks' output is in the run's folder, below logging.dir");
  if (line.in_background)
    result.leave_out(
        "the '&' behind it",
        "the command below runs in the foreground: add '&' if your script is to continue meanwhile");
  if (line.into_pipe)
    result.leave_out("the pipe behind it", "the ranks' output is in the run's folder, below logging.dir");
}

void take_program(const std::vector<ShellWord>& program, bool is_module, Imported& result) {
  if (program.empty())
    result.remarks.emplace_back(
        "the script's command names no program: add yours at the end of your hookline launch command");
  if (is_module && !program.empty()) result.program = {"python3", "-m"};
  for (const ShellWord& word : program) {
    if (!word.expanded.empty()) result.expanded[result.program.size()] = word.expanded;
    result.program.push_back(word.text);
    if (word.is_open) result.remarks.push_back(stands_as_written(word.as_written));
  }
}

void take_rdzv_conf(const std::string& name, const std::string& text, Imported& result) {
  std::map<std::string, std::string> keep_alive;
  // Nodes join within join_timeout. torch's older rendezvous backends, static and etcd, call it timeout.
  const bool has_join_timeout = ("," + text).find(",join_timeout=") != std::string::npos;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string pair = text.substr(begin, end - begin);
    const std::size_t equals = pair.find('=');
    const std::string key = pair.substr(0, equals),
                      value = equals == pair.npos ? "" : pair.substr(equals + 1);
    const std::string from = name + " " + pair;
    if (key == "timeout" && has_join_timeout)
      result.leave_out(from, "join_timeout sets the same limit and takes precedence");
    else if (key == "join_timeout" || key == "timeout")
      result.carry("launch.join_timeout_seconds", value, from);
    else if (key == "last_call_timeout")
      result.carry("rendezvous.last_call_seconds", value, from);
    else if ((key == "keep_alive_interval" || key == "keep_alive_max_attempt") && has_only_digits(value))
      keep_alive[key] = value;
    else if (key == "read_timeout")
      result.leave_out(from,
                       "it limits single requests to torch's store: hookline's nodes wait for "
                       "launch.join_timeout_seconds");
    else if (key == "close_timeout")
      result.leave_out(
          from,
          "it limits how long torch's rendezvous takes to close, and hookline's nodes don't wait for that");
    else
      result.leave_out(from, "applies to torch's rendezvous only");
    begin = end + 1;
  }
  if (keep_alive.empty()) return;
  // A node is lost after this many intervals without a heartbeat. torch's defaults are 3 intervals of 5
  // seconds.
  std::int64_t product = 1;
  std::string from = name;
  for (const auto& [key, otherwise] :
       {std::pair("keep_alive_interval", 5), std::pair("keep_alive_max_attempt", 3)}) {
    std::int64_t value = otherwise;
    if (const auto given = keep_alive.find(key); given != keep_alive.end()) {
      const std::string& digits = given->second;
      std::from_chars(digits.data(), digits.data() + digits.size(), value);
      from += std::string(" ") + key + "=" + digits;
    }
    product *= std::min<std::int64_t>(value, 1 << 20);
  }
  result.carry("rendezvous.node_timeout_seconds", std::to_string(product), from);
}

void take_streams(const LaunchFlag& redirects, const LaunchFlag& tee, Imported& result) {
  const auto bits = [&](const LaunchFlag& flag) -> std::optional<int> {
    if (flag.name.empty()) return 0;
    if (flag.value.size() == 1 && flag.value[0] >= '0' && flag.value[0] <= '3') return flag.value[0] - '0';
    result.leave_out(flag.from, flag.is_open
                                    ? only_a_shell_knows("logging.show")
                                    : "hookline shows the same streams of every rank that logging.show_ranks "
                                      "chooses: set logging.show to all, stdout, stderr or none");
    return std::nullopt;
  };
  const auto to_file = bits(redirects), to_both = bits(tee);
  if (!to_file || !to_both || (redirects.name.empty() && tee.name.empty())) return;
  static constexpr const char* kShown[] = {"none", "stdout", "stderr", "all"};
  constexpr int kBoth = 3;
  const std::string from =
      redirects.from + (redirects.name.empty() || tee.name.empty() ? "" : " ") + tee.from;
  result.carry("logging.show", kShown[(kBoth & ~*to_file) | *to_both], from);
}

}  // namespace hookline
