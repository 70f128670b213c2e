#include "base/suggest.h"
#include "config/schema/schema.h"
#include "config/sources/collect.h"
#include "config/sources/file_keys.h"
#include "config/sources/migrate.h"

namespace hookline {
namespace {

std::string joined(const std::vector<std::string>& words, const std::string& before,
                   const std::string& after) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + before + word + after;
  return out;
}

std::string shown_node(const TomlNode& node) {
  switch (node.kind) {
    case TomlNode::Kind::table:
      return "a table";
    case TomlNode::Kind::array:
      return "an array";
    case TomlNode::Kind::date:
      return "a date";
    case TomlNode::Kind::scalar:
      break;
  }
  return shown_value(node.value);
}

class FileCollector {
 public:
  FileCollector(const SourceText& source, const Catalog& catalog, Collected& collected)
      : source_(source), catalog_(catalog), collected_(collected) {}

  void root(const TomlNode& node) {
    for (const auto& [name, child] : node.children) {
      if (is_about_files(name)) {
        continue;
      } else if (!key_names(name).empty()) {
        if (is_table(name, child)) table(name, child);
      } else if (child.kind == TomlNode::Kind::table) {
        unknown_table(name, child);
      } else {
        key_outside(name, child);
      }
    }
  }

 private:
  void error(Span at, std::string message, std::string note, ProblemKind kind = ProblemKind::other) {
    collected_.problems.push_back(
        diagnostic_at(source_.place(at), Severity::error, std::move(message), std::move(note), kind));
  }

  Given given(const std::string& name, const TomlNode& node) const {
    Given result = given_by(name, node, source_);
    result.order = collected_.sources;
    return result;
  }

  bool is_table(const std::string& name, const TomlNode& node) {
    if (node.kind == TomlNode::Kind::table) return true;
    error(node.key, "'" + name + "' is " + shown_node(node) + ", not a table",
          "write [" + name + "], and its keys in the lines below");
    return false;
  }

  void table(const std::string& name, const TomlNode& node) {
    for (const auto& [key, child] : node.children) {
      const std::string full = name + "." + key;
      if (full == kHookOptionTable) {
        if (!is_table(full, child)) continue;
        for (const auto& [option, value] : child.children)
          collected_.hook_options.push_back(given(option, value));
      } else if (!key_names(full).empty()) {
        if (is_table(full, child)) table(full, child);
      } else if (find_key(name, key)) {
        collected_.keys[full].push_back(given(key, child));
      } else {
        unknown_key(name, key, child);
      }
    }
  }

  /// True for a hook's option in [ddp]: people forget to put it into [ddp.comm_state_option].
  bool is_hook_option(const std::string& table, const std::string& key) const {
    if (table != "ddp") return false;
    for (const HookRow& hook : catalog_.hooks())
      for (const OptionRow& option : hook.options)
        if (option.name == key) return true;
    return false;
  }

  void unknown_key(const std::string& table, const std::string& key, const TomlNode& node) {
    std::vector<std::string> names = key_names(table);
    if (table == "ddp") names.insert(names.end(), {"comm_state_option", "auto"});
    std::string note = "[" + table + "] has " + joined(names, "", "");
    if (const auto former = former_key(table, key)) {
      note = *former;
    } else if (is_hook_option(table, key)) {
      note = "it belongs in [" + std::string(kHookOptionTable) + "]";
    } else if (const auto near = nearest(key, names)) {
      note = "did you mean '" + *near + "'?";
    } else {
      for (const std::string& other : table_names())
        if (find_key(other, key)) note = "it belongs in [" + other + "]";
    }
    error(node.key, "unknown key '" + key + "' in [" + table + "]", note, ProblemKind::unknown_key);
  }

  void unknown_table(const std::string& name, const TomlNode& node) {
    const auto near = name == "comm_state_option" ? std::optional<std::string>(kHookOptionTable)
                                                  : nearest(name, table_names());
    error(node.key, "unknown table [" + name + "]",
          near ? "did you mean [" + *near + "]?" : "the tables are " + joined(table_names(), "[", "]"),
          ProblemKind::unknown_key);
  }

  void key_outside(const std::string& name, const TomlNode& node) {
    std::string note = "the tables are " + joined(table_names(), "[", "]");
    for (const std::string& table : table_names())
      if (find_key(table, name)) note = "it belongs in [" + table + "]";
    error(node.key, "key '" + name + "' is outside of any table", note);
  }

  const SourceText& source_;
  const Catalog& catalog_;
  Collected& collected_;
};

}  // namespace

Given given_by(const std::string& name, const TomlNode& node, const SourceText& source) {
  Given given;
  given.name = name;
  if (node.kind == TomlNode::Kind::scalar) given.value = node.value;
  given.shown = shown_node(node);
  given.key = source.place(node.key);
  given.place = source.place(node.place);
  return given;
}

void collect_tables(const TomlNode& root, const SourceText& source, const Catalog& catalog,
                    Collected& collected) {
  FileCollector(source, catalog, collected).root(root);
}

}  // namespace hookline
