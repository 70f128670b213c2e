// hookline config validate: checks files as `launch` would, without running anything.
#include <algorithm>
#include <cstddef>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/text/printable.h"
#include "config/resolve.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs.h"
#include "launcher/launch/catalog_of.h"
#include "launcher/process/exit_code.h"

namespace hookline {
namespace {

using Json = nlohmann::ordered_json;

/// What checking the file by itself, and then with each of its profiles, found. Lists each problem once.
struct Checked {
  std::vector<Diagnostic> problems;
  std::vector<std::string> profiles;
  bool ok = true;
};

Checked check(Sources sources, const Catalog& catalog) {
  Checked checked;
  std::vector<std::string> seen;
  const auto take = [&](const Resolution& resolution) {
    for (const Diagnostic& problem : resolution.diagnostics) {
      const std::string text = render(problem);
      if (std::count(seen.begin(), seen.end(), text)) continue;
      seen.push_back(text);
      checked.problems.push_back(problem);
    }
    checked.ok = checked.ok && resolution.ok();
  };
  const Resolution plain = resolve(sources, catalog);
  take(plain);
  checked.profiles = plain.profiles;
  for (const std::string& profile : plain.profiles) {
    sources.profile = profile;
    take(resolve(sources, catalog));
  }
  return checked;
}

Json json_of(const Diagnostic& problem) {
  Json json = {{"severity", problem.severity == Severity::error ? "error" : "warning"},
               {"source", problem.source},
               {"message", problem.message},
               {"note", problem.note}};
  if (problem.line > 0)
    json.update({{"line", problem.line}, {"column", problem.column}, {"length", problem.length}});
  return json;
}

bool is_unknown_hook(const Diagnostic& problem) { return problem.kind == ProblemKind::unknown_hook; }

void tell(const std::string& file, const Checked& checked, bool program_is_named) {
  for (const Diagnostic& problem : checked.problems) std::cerr << render(problem) << std::flush;
  if (!program_is_named && std::any_of(checked.problems.begin(), checked.problems.end(), is_unknown_hook))
    std::cerr << "if your program registers that hook: hookline config validate " << printable(file)
              << " --program PROG\n"
              << std::flush;
  if (!checked.ok) return;
  std::string profiles;
  for (const std::string& profile : checked.profiles) profiles += (profiles.empty() ? "" : ", ") + profile;
  std::cout << printable(file) << ": ok"
            << (profiles.empty() ? "" : ", with each of its profiles: " + profiles) << "\n"
            << std::flush;
}

}  // namespace

int config_validate(const Arguments& arguments) {
  std::string program;
  bool json = false;
  VerbParser parser("hookline config validate FILE... [flags]",
                    "Check config files, each by itself and with each of its profiles. Environment and "
                    "command line are ignored.",
                    "hookline config validate run.toml");
  parser.add_flag("--json", json, "Print JSON: for each file its problems, with their places");
  parser.add_program(program);
  if (!parser.parse(arguments)) return kSuccess;
  parser.expect_plain("config file", 1, std::numeric_limits<std::size_t>::max());

  const CatalogOf hooks = catalog_of_named(program);
  bool all_ok = true;
  Json results = Json::array();
  for (const std::string& file : parser.plain()) {
    Sources sources;
    sources.file = file;
    hooks.apply_to(sources);
    const Checked checked = check(sources, hooks.catalog);
    all_ok = all_ok && checked.ok;
    if (!json) {
      tell(file, checked, !program.empty());
      continue;
    }
    Json problems = Json::array();
    for (const Diagnostic& problem : checked.problems) problems.push_back(json_of(problem));
    results.push_back(
        {{"file", file}, {"ok", checked.ok}, {"profiles", checked.profiles}, {"problems", problems}});
  }
  if (json) std::cout << results.dump(2, ' ', false, Json::error_handler_t::replace) << "\n" << std::flush;
  return all_ok ? kSuccess : kBadInput;
}

}  // namespace hookline
