#include "launcher/sweep/file/sweep_file.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/suggest.h"
#include "base/text/count_text.h"
#include "config/schema/schema.h"
#include "config/toml/source_text.h"
#include "config/toml/toml_tree.h"
#include "launcher/sweep/file/command_line.h"
#include "launcher/sweep/file/settings_table.h"
#include "launcher/sweep/file/sweep_values.h"

namespace hookline {
namespace {

constexpr const char* kZip = "zip";
constexpr const char* kSeedsAdvice =
    "write its values as seeds in [sweep], or as training.seed, but not as both";

class Reader {
 public:
  Reader(const SourceText& source, std::filesystem::path folder, const Catalog& catalog, SweepRunner runner)
      : source_(source),
        values_(catalog, [this](Span at, const std::string& message,
                                const std::string& note) { error(at, message, note); }),
        table_(source, std::move(folder), runner, problems_) {}

  void root(const TomlNode& root) {
    static const std::vector<std::string> tables = {"sweep",  "fixed",   "grid",
                                                    "random", "exclude", "baseline"};
    for (const auto& [name, node] : root.children) {
      if (std::find(tables.begin(), tables.end(), name) == tables.end()) {
        const auto near = nearest(name, tables);
        error(node.key, "unknown table [" + name + "]",
              near ? "did you mean [" + *near + "]?"
                   : "a sweep has [sweep], [fixed], [grid], [random], [exclude] and [baseline]");
      } else if (node.kind != TomlNode::Kind::table) {
        error(node.key, "'" + name + "' is not a table",
              "write [" + name + "], and its keys in the lines below");
      } else if (name == "sweep") {
        table_.read(node);
      } else if (name == "fixed") {
        std::vector<GivenKey> fixed;
        sweep_.fixed = values_.assignments(node, fixed);
      } else if (name == "baseline") {
        std::vector<GivenKey> given;
        sweep_.baseline = values_.assignments(node, given);
        for (const auto& [key, place] : given) expect_to_tell_apart(key, place);
      } else if (name == "grid") {
        read_each(node, &Reader::grid, "a grid of nothing", "name keys and the values to try");
      } else if (name == "random") {
        read_each(node, &Reader::search, "a random search needs keys to draw",
                  "write args.lr = { from = 1e-4, to = 1e-1, log = true }, or an array to choose from");
      } else {
        read_each(node, &Reader::exclude, "an exclusion of nothing",
                  "name keys and the values that don't go together");
      }
    }
  }

  void finish() {
    if (!table_.has("program"))
      error_of_file("[sweep] program is missing",
                    "name it with its arguments: program = [\"build/train\", \"--epochs\", \"3\"]");
    if (sweep_.grids.empty() && sweep_.searches.empty() && !sweep_.baseline)
      error_of_file("there is nothing to sweep over", "write [grid], and in it keys with the values to try");
    for (const auto& [key, place] : tried_) {
      if (sweep_.fixed.contains(key))
        error(place, "'" + key + "' is in [fixed] too",
              "a fixed value is that of every trial: keep one of the two");
      if (key == kSeedKey && !table_.settings().seeds.empty())
        error(place, "training.seed is given twice", kSeedsAdvice);
      expect_to_tell_apart(key, place);
    }
    for (const auto& [key, place] : excluded_)
      if (key == kSeedKey && !table_.settings().seeds.empty())
        error(place, "an exclusion can't name training.seed if [sweep] has 'seeds'",
              "each grid point is tried with each of those seeds: list the seeds as training.seed in [grid] "
              "instead");
    const bool is_given =
        sweep_.fixed.contains(kSeedKey) || (sweep_.baseline && sweep_.baseline->contains(kSeedKey));
    if (!table_.settings().seeds.empty() && is_given)
      error(table_.place_of("seeds"), "training.seed is given twice", kSeedsAdvice);
    table_.expect_effect(sweep_.baseline.has_value());
    table_.expect_known_placeholders(given_keys());
  }

  SweepFile take() {
    sweep_.settings = table_.settings();
    return std::move(sweep_);
  }
  const std::vector<Diagnostic>& problems() const { return problems_; }

 private:
  void error(Span at, std::string message, std::string note = "") {
    problems_.push_back(
        diagnostic_at(source_.place(at), Severity::error, std::move(message), std::move(note)));
  }

  /// An error about something that the file lacks, and so without a place in it.
  void error_of_file(std::string message, std::string note) {
    problems_.push_back(
        diagnostic_at({source_.name(), 0, 0, 1, ""}, Severity::error, std::move(message), std::move(note)));
  }

  /// Every key that the file gives a value.
  std::set<std::string> given_keys() const {
    std::set<std::string> keys;
    for (const Assignments* values : {&sweep_.fixed, sweep_.baseline ? &*sweep_.baseline : nullptr})
      if (values)
        for (const auto& [key, value] : *values) keys.insert(key);
    for (const auto& [key, place] : tried_) keys.insert(key);
    return keys;
  }

  void expect_to_tell_apart(const std::string& key, Span place) {
    if (key.starts_with("logging."))
      error(place, "'" + key + "' can't tell trials apart",
            "logging keys can be in [fixed] or in the config; the sweep itself sets dir, show and status");
  }

  /// [grid] itself or, if it holds only tables, none of them named like a table of the config, each
  /// [grid.NAME]. The same goes for [random] and [exclude].
  std::vector<const TomlNode*> one_or_more(const TomlNode& node) {
    const auto is_key = [](const std::string& name) {
      return name == kArgumentTable || !key_names(name).empty();
    };
    const bool is_one =
        node.children.empty() ||
        std::any_of(node.children.begin(), node.children.end(), [&](const auto& child) {
          return is_key(child.first) || child.first == kZip || child.second.kind != TomlNode::Kind::table;
        });
    if (is_one) return {&node};
    std::vector<const TomlNode*> several;
    for (const auto& child : node.children) several.push_back(&child.second);
    return several;
  }

  /// Reads each of the tables with `read`, which returns whether it found any keys. If it found none and
  /// reported no other problem, reports `message` for the table.
  void read_each(const TomlNode& node, bool (Reader::*read)(const TomlNode&), const char* message,
                 const char* advice) {
    for (const TomlNode* each : one_or_more(node)) {
      const std::size_t problems = problems_.size();
      if (!(this->*read)(*each) && problems_.size() == problems) error(each->key, message, advice);
    }
  }

  bool exclude(const TomlNode& table) {
    sweep_.exclusions.push_back(values_.dimensions(table, excluded_));
    return !sweep_.exclusions.back().empty();
  }

  bool grid(const TomlNode& table) {
    Grid grid;
    TomlNode rest = table;
    const auto zip = std::find_if(rest.children.begin(), rest.children.end(),
                                  [](const auto& child) { return child.first == kZip; });
    if (zip != rest.children.end()) {
      if (zip->second.kind != TomlNode::Kind::table || zip->second.children.empty())
        error(zip->second.key, "zip has no arrays",
              "write [grid.zip], and in it keys whose arrays advance together");
      grid.zip = values_.dimensions(zip->second, tried_);
      const auto differs = std::find_if(grid.zip.begin(), grid.zip.end(), [&](const Dimension& each) {
        return each.values.size() != grid.zip.front().values.size();
      });
      if (differs != grid.zip.end())
        error(zip->second.key, "the arrays of zip differ in length",
              "'" + grid.zip.front().key + "' has " + count_text(grid.zip.front().values.size(), "value") +
                  ", '" + differs->key + "' " + std::to_string(differs->values.size()));
      rest.children.erase(zip);
    }
    grid.dimensions = values_.dimensions(rest, tried_);
    expect_each_key_once(grid, table);
    sweep_.grids.push_back(std::move(grid));
    return !sweep_.grids.back().dimensions.empty() || !sweep_.grids.back().zip.empty();
  }

  void expect_each_key_once(const Grid& grid, const TomlNode& table) {
    std::set<std::string> keys;
    for (const auto* dimensions : {&grid.dimensions, &grid.zip})
      for (const Dimension& each : *dimensions)
        if (!keys.insert(each.key).second)
          error(table.key, "'" + each.key + "' is in the grid and in its zip", "keep one of them");
  }

  bool search(const TomlNode& table) {
    RandomSearch search;
    TomlNode rest = table;
    rest.children.clear();
    bool has_samples = false;
    for (const auto& [name, node] : table.children) {
      if (name != "samples" && name != "seed") {
        rest.children.emplace_back(name, node);
        continue;
      }
      const auto* number = std::get_if<std::int64_t>(&node.value);
      const std::int64_t least = name == "samples" ? 1 : 0;
      constexpr std::int64_t kMostSamples = 100'000;
      if (node.kind != TomlNode::Kind::scalar || !number || *number < least ||
          (name == "samples" && *number > kMostSamples)) {
        error(node.place, "bad value for '" + name + "' in [random]",
              "it must be an integer, at least " + std::to_string(least) +
                  (name == "samples" ? " and at most " + std::to_string(kMostSamples) : ""));
      } else {
        (name == "samples" ? search.samples : search.seed) = *number;
      }
      has_samples = has_samples || name == "samples";
    }
    if (!has_samples) error(table.key, "a random search needs samples", "write how many: samples = 20");
    for (const auto& [key, node] : values_.keys_below(rest)) {
      tried_.emplace_back(key, node->key);
      search.draws.push_back(values_.draw(key, *node));
    }
    sweep_.searches.push_back(std::move(search));
    return !sweep_.searches.back().draws.empty();
  }

  const SourceText& source_;
  SweepValues values_;
  std::vector<GivenKey> tried_, excluded_;  // of [grid] and [random]; of [exclude]
  std::vector<Diagnostic> problems_;
  SettingsTable table_;
  SweepFile sweep_;
};

}  // namespace

ReadSweep read_sweep(const std::filesystem::path& file, const Catalog& catalog, SweepRunner runner) {
  ReadSweep result;
  const auto source = read_source(file);
  if (const auto* problem = std::get_if<Diagnostic>(&source)) {
    result.report = render(*problem);
    return result;
  }
  const auto& text = std::get<SourceText>(source);
  const TomlDocument document = parse_toml(text);
  Reader reader(text, file.parent_path(), catalog, runner);
  for (const TomlNode& root : document.roots) reader.root(root);
  if (document.problems.empty()) reader.finish();
  for (const auto* problems : {&document.problems, &reader.problems()})
    for (const Diagnostic& each : *problems) result.report += render(each);
  result.ok = result.report.empty();
  result.sweep = reader.take();
  return result;
}

std::string program_named_in(const std::filesystem::path& file) {
  const auto source = read_source(file);
  if (!std::holds_alternative<SourceText>(source)) return "";
  for (const TomlNode& root : parse_toml(std::get<SourceText>(source)).roots)
    for (const auto& [table, node] : root.children)
      for (const auto& [name, value] : node.children) {
        const auto* words = std::get_if<std::vector<std::string>>(&value.value);
        if (table == "sweep" && name == "program" && words && !words->empty() &&
            placeholders_of(words->front()).empty())
          return words->front();
      }
  return "";
}

}  // namespace hookline
