// A config file, the files that it includes, and its profiles.
#include <algorithm>
#include <memory>
#include <set>

#include "base/folder_access.h"
#include "base/regular_file.h"
#include "base/suggest.h"
#include "base/text/bytes_text.h"
#include "config/schema/schema.h"
#include "config/sources/collect.h"
#include "config/sources/file_keys.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

constexpr std::size_t kDeepestIncludes = 32;   // each takes some of the stack
constexpr std::size_t kMostFiles = 256;        // in all
constexpr std::size_t kMostBytes = 256 << 10;  // in all: the parser takes seconds for more

struct ReadFile {
  SourceText source;
  TomlDocument document;
};

fs::path real_path(const fs::path& file) {
  std::error_code error;
  const fs::path path = fs::weakly_canonical(fs::absolute(file, error), error);
  return error ? file : path;
}

const TomlNode* child_of(const TomlNode& node, std::string_view name) {
  for (const auto& [key, child] : node.children)
    if (key == name) return &child;
  return nullptr;
}

class Files {
 public:
  Files(const Catalog& catalog, Collected& collected) : catalog_(catalog), collected_(collected) {}

  /// Reads `file` after all files that it includes. A file that is included several times is read once, the
  /// first time. `included_at`: the place that includes `file`.
  void read(const fs::path& file, const std::optional<std::string>& text = {},
            const std::string& included_at = {}) {
    const fs::path real = real_path(file);
    if (!seen_.insert(real).second) return;
    auto source = text ? source_of(file.string(), *text) : read_source(file);
    if (const auto* problem = std::get_if<Diagnostic>(&source)) {
      collected_.problems.push_back(*problem);
      std::string& note = collected_.problems.back().note;
      if (!included_at.empty()) note += (note.empty() ? "" : "; ") + included_at + " includes it";
      collected_.incomplete = true;
      return;
    }
    const std::size_t bytes = std::get<SourceText>(source).text().size();
    if (bytes > kMostBytes - bytes_) {
      collected_.problems.push_back(diagnostic_at(
          Place{file.string()}, Severity::error,
          "makes the config too large: its files have more than " + binary_bytes_text(kMostBytes) +
              " together",
          (included_at.empty() ? "" : included_at + " includes it; ") + "remove what no run needs"));
      collected_.incomplete = true;
      return;
    }
    bytes_ += bytes;
    auto read = std::make_unique<ReadFile>(ReadFile{std::move(std::get<SourceText>(source)), {}});
    read->document = parse_toml(read->source);
    for (const Diagnostic& problem : read->document.problems) collected_.problems.push_back(problem);
    collected_.incomplete = collected_.incomplete || !read->document.problems.empty();
    open_.push_back({real, file});
    for (const TomlNode& root : read->document.roots) {
      check_version(root, read->source);
      if (const TomlNode* include = child_of(root, kIncludeKey)) read_included(*include, read->source, file);
    }
    open_.pop_back();
    ++collected_.sources;
    for (const TomlNode& root : read->document.roots)
      collect_tables(root, read->source, catalog_, collected_);
    collected_.files.push_back(file.string());
    files_.push_back(std::move(read));
  }

  /// The values of profile `name`, which `asked_by` asks for. The names in all other profiles are checked as
  /// well.
  void profiles(const std::optional<std::string>& name, const std::string& asked_by) {
    std::vector<std::string>& names = collected_.profiles;
    for (const auto& file : files_) {
      for (const TomlNode& root : file->document.roots) {
        const TomlNode* profiles = child_of(root, kProfileTable);
        if (!profiles || !expect_table(*profiles, kProfileTable, "[profile.NAME.ddp]", file->source))
          continue;
        ++collected_.sources;
        for (const auto& [profile, tables] : profiles->children) {
          if (!std::count(names.begin(), names.end(), profile)) names.push_back(profile);
          if (expect_table(tables, profile, "[profile." + profile + ".ddp]", file->source))
            collect_profile(tables, file->source, profile == name);
        }
      }
    }
    if (!name || std::count(names.begin(), names.end(), *name)) return;
    std::string note = "no file has a profile: write [profile." + *name + ".ddp], and its keys below";
    if (!names.empty()) {
      const auto near = nearest(*name, names);
      note = near ? "did you mean '" + *near + "'?" : "the profiles are ";
      for (std::size_t i = 0; !near && i < names.size(); ++i) note += (i == 0 ? "" : ", ") + names[i];
    }
    if (files_.empty()) note = "there is no config file: name one with --config";
    if (!collected_.incomplete || files_.empty())
      collected_.problems.push_back(
          diagnostic_at(Place{asked_by}, Severity::error, "there is no profile '" + *name + "'", note));
  }

 private:
  struct Open {
    fs::path real, named;
  };

  void error(const SourceText& source, Span at, std::string message, std::string note) {
    collected_.problems.push_back(
        diagnostic_at(source.place(at), Severity::error, std::move(message), std::move(note)));
  }

  bool expect_table(const TomlNode& node, const std::string& name, const std::string& example,
                    const SourceText& source) {
    if (node.kind == TomlNode::Kind::table) return true;
    error(source, node.key, "'" + name + "' is a value, not a table",
          "write " + example + ", and its keys in the lines below");
    return false;
  }

  void check_version(const TomlNode& root, const SourceText& source) {
    const TomlNode* version = child_of(root, kSchemaVersionKey);
    if (!version) return;
    const bool is_scalar = version->kind == TomlNode::Kind::scalar;
    const auto* number = is_scalar ? std::get_if<std::int64_t>(&version->value) : nullptr;
    const std::string now = std::to_string(kSchemaVersion);
    if (!number || *number < 1) {
      error(source, version->place, "bad value for 'schema_version'", "must be an integer from 1 to " + now);
    } else if (*number > kSchemaVersion) {
      error(source, version->place, "this file is of schema version " + std::to_string(*number),
            "this hookline knows those up to " + now + ": it is older than the file");
    }
  }

  void read_included(const TomlNode& include, const SourceText& source, const fs::path& by) {
    const auto* names = include.kind == TomlNode::Kind::scalar
                            ? std::get_if<std::vector<std::string>>(&include.value)
                            : nullptr;
    if (!names) {
      error(source, include.place, "bad value for 'include'",
            "must be an array of files: include = [\"base.toml\"]");
      return;
    }
    for (const std::string& name : *names) {
      const fs::path file = (by.parent_path() / name).lexically_normal();
      const fs::path real = real_path(file);
      const auto again =
          std::find_if(open_.begin(), open_.end(), [&](const Open& open) { return open.real == real; });
      std::error_code ignored;
      if (again != open_.end()) {
        std::string circle;
        for (auto open = again; open != open_.end(); ++open) circle += open->named.string() + " → ";
        error(source, include.place, "'" + name + "' is included in a circle", circle + file.string());
      } else if (const auto access = find_access_problem(name.empty() ? "" : file)) {
        error(source, include.place, access->what, access->advice);
      } else if (name.empty() || !fs::exists(file, ignored)) {
        error(source, include.place, "'" + name + "' can't be included: there is no such file",
              name.empty()
                  ? "name a file"
                  : "looked for " + file.string() + ": the path is relative to the folder of this file");
      } else if (seen_.contains(real)) {
        continue;
      } else if (open_.size() > kDeepestIncludes) {
        error(source, include.place, "'" + name + "' is included too deep",
              "files include each other at most " + std::to_string(kDeepestIncludes) +
                  " deep: include it in one of those above, such as " + open_.front().named.string());
        collected_.incomplete = true;
      } else if (seen_.size() == kMostFiles) {
        error(source, include.place, "'" + name + "' is one file too many",
              "a config consists of at most " + std::to_string(kMostFiles) +
                  " files: put the values of several into one");
        collected_.incomplete = true;
        return;
      } else {
        read(file, {}, source.place(include.place).text());
      }
    }
  }

  void collect_profile(const TomlNode& tables, const SourceText& source, bool is_chosen) {
    for (const auto& [name, child] : tables.children) {
      if (is_about_files(name))
        error(source, child.key, "'" + name + "' can't be in a profile", "it belongs before all tables");
    }
    if (is_chosen) return collect_tables(tables, source, catalog_, collected_);
    Collected names_alone;
    collect_tables(tables, source, catalog_, names_alone);
    for (Diagnostic& problem : names_alone.problems) collected_.problems.push_back(std::move(problem));
  }

  const Catalog& catalog_;
  Collected& collected_;
  std::vector<std::unique_ptr<ReadFile>> files_;
  std::size_t bytes_ = 0;   // of all files so far
  std::vector<Open> open_;  // files being read, the outermost first
  std::set<fs::path> seen_;
};

}  // namespace

void collect_files(const Sources& sources, const Catalog& catalog, Collected& collected) {
  Files files(catalog, collected);
  if (sources.file) files.read(*sources.file, sources.file_text);
  if (sources.profile) return files.profiles(sources.profile, "--profile");
  const auto variable = std::find_if(sources.environment.begin(), sources.environment.end(),
                                     [](const auto& each) { return each.first == "HOOKLINE_PROFILE"; });
  if (variable == sources.environment.end() || variable->second.empty()) return files.profiles({}, "");
  files.profiles(variable->second, variable->first);
}

}  // namespace hookline
