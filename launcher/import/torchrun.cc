// Flags as torch/distributed/run.py has them.
#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "launcher/import/imported.h"

namespace hookline {
namespace {

using Words = std::vector<std::string>;

/// As a shell splits a line: quotes, backslashes, comments. Variables stay as they are written.
Words shell_words(const std::string& text) {
  Words words;
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote) {
      if (c == quote) {
        quote = 0;
      } else if (c == '\\' && quote == '"' && i + 1 < text.size()) {
        word += text[++i];
      } else {
        word += c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      in_word = true;
    } else if (c == '\\' && i + 1 < text.size()) {
      if (text[++i] != '\n') {
        word += text[i];
        in_word = true;
      }
    } else if (c == '#' && !in_word) {
      while (i + 1 < text.size() && text[i + 1] != '\n') ++i;
    } else if (std::isspace(static_cast<unsigned char>(c)) || c == ';' || c == '&' || c == '|') {
      if (in_word) words.push_back(word);
      if (c == '\n' || c == ';' || c == '&' || c == '|') words.push_back("\n");  // the command's end
      word.clear();
      in_word = false;
    } else {
      word += c;
      in_word = true;
    }
  }
  if (quote) throw ImportError(std::string("a quotation mark ") + quote + " is not closed");
  if (in_word) words.push_back(word);
  return words;
}

/// The words behind the launcher's name, up to the end of its command.
Words arguments_of(const Words& words) {
  for (auto word = words.begin(); word != words.end(); ++word) {
    const bool is_torchrun = *word == "torchrun" || word->ends_with("/torchrun");
    const bool is_module = *word == "torch.distributed.run" || *word == "torch.distributed.launch";
    if (!is_torchrun && !is_module) continue;
    return {word + 1, std::find(word + 1, words.end(), "\n")};
  }
  throw ImportError("there is no torchrun in it, and no torch.distributed.run");
}

struct Endpoint {
  std::string host, port;
};

Endpoint endpoint_of(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == text.npos) return {text, ""};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

const std::set<std::string>& switches() {
  static const std::set<std::string> names = {
      "standalone", "module", "no-python", "run-path", "m", "use-agent-store", "no-use-agent-store"};
  return names;
}

const std::map<std::string, std::string>& keys() {
  static const std::map<std::string, std::string> rows = {
      {"nnodes", "launch.nnodes"},
      {"nproc-per-node", "launch.processes_per_node"},
      {"max-restarts", "launch.max_restarts"},
      {"master-addr", "rendezvous.main_address"},
      {"master-port", "rendezvous.main_port"},
      {"rdzv-id", "rendezvous.run_id"},
      {"log-dir", "logging.dir"},
      {"log-line-prefix-template", "logging.prefix_template"},
      {"shutdown-timeout", "launch.grace_period_seconds"},
  };
  return rows;
}

const std::map<std::string, std::string>& reasons() {
  static const std::map<std::string, std::string> rows = {
      {"rdzv-backend", "hosts meet in one way: at the store of main_address"},
      {"standalone", "runs of one host need no address and share no port"},
      {"monitor-interval", "the end of a rank is noticed at once"},
      {"start-method", "ranks are programs of their own"},
      {"role", "ranks have one role"},
      {"redirects", "logs always hold all of the ranks' output: logging.show says what is shown as well"},
      {"tee", "logs always hold all of the ranks' output: logging.show says what is shown as well"},
      {"local-ranks-filter", "logging.show_ranks counts ranks over all hosts"},
      {"local-addr", "hosts name themselves"},
      {"module", "the program is python3 -m MODULE then"},
      {"m", "the program is python3 -m MODULE then"},
      {"no-python", "programs are run as they are"},
      {"run-path", "programs are run as they are"},
      {"signals-to-handle", "SIGTERM, SIGINT, SIGHUP and SIGQUIT are handled"},
      {"event-log-handler", "hookline has no event log"},
      {"logs-specs", "is of Python"},
      {"duplicate-stdout-filters", "hookline filters no lines"},
      {"duplicate-stderr-filters", "hookline filters no lines"},
  };
  return rows;
}

class Reader {
 public:
  Imported read(const Words& arguments) {
    result_.kind = "a command line of torchrun";
    std::size_t i = 0;
    bool is_module = false;
    for (; i < arguments.size() && arguments[i].starts_with("-"); ++i) {
      std::string name = arguments[i].substr(arguments[i].find_first_not_of('-'));
      const std::size_t equals = name.find('=');
      std::string value = equals == name.npos ? "" : name.substr(equals + 1);
      name = name.substr(0, equals);
      std::replace(name.begin(), name.end(), '_', '-');
      if (!switches().contains(name) && equals == name.npos && arguments[i].find('=') == std::string::npos) {
        if (i + 1 == arguments.size()) throw ImportError(arguments[i] + " has no value");
        value = arguments[++i];
      }
      flag(name, value);
      is_module = is_module || name == "module" || name == "m";
    }
    result_.program.assign(arguments.begin() + static_cast<std::ptrdiff_t>(i), arguments.end());
    if (is_module) result_.program.insert(result_.program.begin(), {"python3", "-m"});
    return std::move(result_);
  }

 private:
  void flag(const std::string& name, const std::string& value) {
    const std::string from = "--" + name + (value.empty() ? "" : "=" + value);
    if (value.find('$') != value.npos) {
      result_.leave_out(from, "a variable of the shell: give it with --set, or as HOOKLINE_TABLE__KEY");
    } else if (name == "nproc-per-node" && (value == "gpu" || value == "auto")) {
      result_.carry("launch.processes_per_node", "auto", from);
    } else if (name == "nproc-per-node" && value == "cpu") {
      result_.leave_out(from, "a rank a core is rarely meant: set launch.processes_per_node");
    } else if (name == "node-rank") {
      result_.leave_out(
          from,
          "one file is for all hosts, which are counted as they come; or --set launch.node_rank=" + value);
    } else if (name == "rdzv-endpoint") {
      const Endpoint at = endpoint_of(value);
      result_.carry("rendezvous.main_address", at.host, from);
      if (!at.port.empty() && at.port != "0") result_.carry("rendezvous.main_port", at.port, from);
    } else if (name == "rdzv-conf") {
      conf(value);
    } else if (name == "numa-binding") {
      result_.carry("launch.binding", "numa", from);
    } else if (const auto key = keys().find(name); key != keys().end()) {
      result_.carry(key->second, value, from);
    } else {
      const auto reason = reasons().find(name);
      result_.leave_out(
          from, reason != reasons().end() ? reason->second : "torchrun has no such flag that hookline knows");
    }
  }

  /// "join_timeout=600,last_call_timeout=30"
  void conf(const std::string& text) {
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      const std::string pair = text.substr(begin, end - begin);
      const std::string name = pair.substr(0, pair.find('=')),
                        value = pair.substr(std::min(pair.find('='), pair.size() - 1) + 1);
      const std::string from = "--rdzv-conf " + pair;
      if (name == "join_timeout" || name == "timeout")
        result_.carry("launch.join_timeout_seconds", value, from);
      else if (name == "last_call_timeout")
        result_.carry("rendezvous.last_call_seconds", value, from);
      else
        result_.leave_out(from, "is of torch's rendezvous");
      begin = end + 1;
    }
  }

  Imported result_;
};

}  // namespace

Imported import_torchrun(const std::string& text) { return Reader().read(arguments_of(shell_words(text))); }

}  // namespace hookline
