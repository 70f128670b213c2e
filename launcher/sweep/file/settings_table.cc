#include "launcher/sweep/file/settings_table.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/folder_access.h"
#include "base/suggest.h"
#include "config/run_files.h"
#include "config/sources/collect.h"
#include "launcher/sweep/file/command_line.h"

namespace hookline {

SettingsTable::SettingsTable(const SourceText& source, std::filesystem::path folder, SweepRunner runner,
                             std::vector<Diagnostic>& problems)
    : source_(source), folder_(std::move(folder)), runner_(runner), problems_(problems) {
  if (runner == SweepRunner::array_job) settings_.max_parallel.reset();
}

void SettingsTable::read(const TomlNode& table) {
  for (const auto& [name, node] : table.children) {
    places_[name] = node.place;
    if (name == "seeds") {
      read_seeds(node);
      continue;
    }
    const auto& rows = sweep_schema();
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [&](const SweepKeyRow& each) { return each.option.name == name; });
    if (row == rows.end()) {
      std::vector<std::string> names = {"seeds"};
      for (const SweepKeyRow& each : rows) names.push_back(each.option.name);
      const auto near = nearest(name, names);
      std::string all;
      for (const std::string& each : names) all += (all.empty() ? "" : ", ") + each;
      error(node.key, "unknown key '" + name + "' in [sweep]",
            near ? "did you mean '" + *near + "'?" : "[sweep] has " + all);
      continue;
    }
    const auto value = checked_value(given_by(name, node, source_), row->option, "sweep", problems_);
    if (value) row->set(settings_, *value);
    if (name == "program") program_ = node.elements;
    if (value && name == "program") expect_program(node);
    if (name == "config") expect_config(node);
    if (runner_ == SweepRunner::array_job) expect_possible_in_an_array(name, node);
  }
}

void SettingsTable::expect_program(const TomlNode& node) {
  const std::vector<std::string>& words = settings_.program;
  if (words.empty())
    error(node.place, "[sweep] program is empty", "name it with its arguments: [\"build/train\"]");
  else if (!placeholders_of(words.front()).empty())
    error(node.elements.empty() ? node.place : node.elements.front().place,
          "the program itself can't be a placeholder: '" + words.front() + "'",
          "hookline reads the program's hooks before it fills in any value: name a script here, and pass it "
          "the "
          "value as an argument");
}

void SettingsTable::expect_config(const TomlNode& node) {
  const std::filesystem::path config = folder_ / settings_.config;
  std::error_code failure;
  if (settings_.config.empty()) return;
  if (const auto access = find_access_problem(config))
    error(node.place, access->what, access->advice);
  else if (!std::filesystem::exists(config, failure))
    error(node.place, "there is no config '" + config.string() + "'",
          "a relative path begins in the folder of the sweep file");
}

void SettingsTable::expect_possible_in_an_array(const std::string& name, const TomlNode& node) {
  const SweepSettings& now = settings_;
  const auto refuse = [&](const char* needs, const char* instead) {
    error(node.place, "an array job can't apply '" + name + "': " + needs, instead);
  };
  if (name == "early_stopping" && now.stops_early())
    refuse("its trials do not see each other", "write \"none\", or run the sweep without --scheduler");
  if (name == "budget_seconds" && now.budget)
    refuse("Slurm begins trials without asking how long others have run",
           "use budget_trials, or run the sweep without --scheduler");
  if (name == "failed" && now.failed == "stop")
    refuse("Slurm begins trials though others have failed",
           "write \"continue\", or run the sweep without --scheduler");
}

void SettingsTable::read_seeds(const TomlNode& node) {
  for (const TomlNode& each : node.elements) {
    const auto* seed = std::get_if<std::int64_t>(&each.value);
    if (each.kind != TomlNode::Kind::scalar || !seed || *seed < 0) {
      error(each.place, "a seed is an integer, at least 0");
      return;
    }
    if (std::count(settings_.seeds.begin(), settings_.seeds.end(), *seed)) {
      error(each.place, "the seed " + std::to_string(*seed) + " is there twice",
            "to try each seed several times, set 'repeats'");
      return;
    }
    settings_.seeds.push_back(*seed);
  }
  if (node.elements.empty()) error(node.place, "seeds is an array of integers", "write seeds = [1, 2, 3]");
}

void SettingsTable::expect_effect(bool has_baseline) {
  const auto needs = [this](const char* key, const char* what, const char* advice) {
    error(places_.at(key), std::string(key) + " needs " + what, advice);
  };
  if (settings_.metric.empty())
    for (const char* key : {"goal", "metric_value", "early_stopping"})
      if (places_.contains(key) && (key != std::string("early_stopping") || settings_.stops_early()))
        needs(key, "a metric", "name it: [sweep] metric = \"loss\"");
  if (places_.contains("early_stopping_from") && !places_.contains("early_stopping"))
    needs("early_stopping_from", "early_stopping", "write early_stopping = \"median\", or \"halving\"");
  if (places_.contains("baseline_every") && !has_baseline)
    needs("baseline_every", "a baseline",
          "write [baseline], and in it the keys and values of the trial that others are compared with");
  if (settings_.metric == kStepOfLine)
    error(
        places_.at("metric"), "'step' is not a metric",
        "it is the number of the step that a line of metrics belongs to: name a value that the program logs");
}

void SettingsTable::expect_known_placeholders(const std::set<std::string>& given) {
  std::vector<std::string> names;
  for (const std::string& key : given)
    if (key.starts_with(kArgumentPrefix)) names.push_back(key.substr(kArgumentPrefix.size()));
  for (const TomlNode& word : program_) {
    const auto* text = std::get_if<std::string>(&word.value);
    for (const std::string& name : text ? placeholders_of(*text) : std::vector<std::string>()) {
      if (given.contains(std::string(kArgumentPrefix) + name)) continue;
      const auto near = nearest(name, names);
      error(word.place, "{" + name + "} stands for args." + name + ", and nothing gives that a value",
            near ? "did you mean {" + *near + "}?"
                 : "name its values in [grid], args." + name + " = [1, 2], or write {{" + name +
                       "} for the text itself");
    }
  }
}

void SettingsTable::error(Span at, std::string message, std::string note) {
  problems_.push_back(diagnostic_at(source_.place(at), Severity::error, std::move(message), std::move(note)));
}

}  // namespace hookline
