// hookline config get: one value of a file.
#include <iostream>

#include "config/sources/file_keys.h"
#include "config/toml/edit.h"
#include "config/toml/toml_tree.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs.h"
#include "launcher/cli/verbs/config/file_key.h"
#include "launcher/cli/verbs/config/read_or_report.h"
#include "launcher/launch/catalog_of.h"
#include "launcher/process/exit_code.h"

namespace hookline {
namespace {

constexpr int kNotSet = 1;

const TomlNode* find(const TomlNode& node, const KeyPath& path) {
  const TomlNode* at = &node;
  for (const std::string& name : path) {
    const TomlNode* below = nullptr;
    for (const auto& [key, child] : at->children)
      if (key == name) below = &child;
    if (!below) return nullptr;
    at = below;
  }
  return at;
}

}  // namespace

int config_get(const Arguments& arguments) {
  std::string program;
  VerbParser parser(
      "hookline config get FILE KEY [flags]",
      "Print the value that a file gives a key: a string without its quotes, anything else as TOML. Exits "
      "with 1 if the file sets no value; 'hookline config show' prints what a run would get.",
      "hookline config get run.toml ddp.comm_hook");
  parser.add_program(program);
  if (!parser.parse(arguments)) return kSuccess;
  parser.expect_plain("FILE or KEY", 2, 2);
  const FileKey key = file_key(parser.plain()[1], catalog_of_named(program).catalog);

  const auto source = read_or_report(parser.plain()[0]);
  if (!source) return kBadInput;
  const TomlDocument document = parse_toml(*source);
  for (const Diagnostic& problem : document.problems) std::cerr << render(problem) << std::flush;
  if (!document.problems.empty()) return kBadInput;
  const TomlNode* const node = find(document.roots.front(), key.path);
  if (!node) return kNotSet;
  const auto* text = node->kind == TomlNode::Kind::scalar ? std::get_if<std::string>(&node->value) : nullptr;
  std::cout << (text ? *text : std::string(source->at(node->place))) << "\n" << std::flush;
  return kSuccess;
}

}  // namespace hookline
