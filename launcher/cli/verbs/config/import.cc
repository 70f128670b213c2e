// hookline config import: turns another launcher's configuration into TOML.
#include <iostream>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/text/count_text.h"
#include "config/starting_file.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs.h"
#include "launcher/cli/verbs/config/written_file.h"
#include "launcher/import/imported.h"
#include "launcher/import/launch_line.h"
#include "launcher/launch/unread_config.h"
#include "launcher/process/exit_code.h"
#include "launcher/process/shell.h"

namespace hookline {
namespace {

/// The command to run in place of the imported one; users copy it from the terminal.
std::string run_line(const Imported& imported, const std::string& config_file) {
  std::string line;
  for (const auto& [name, value] : imported.environment) line += name + "=" + shown_shell_line({value}) + " ";
  if (!imported.before.empty()) line += shown_shell_line(imported.before) + " ";
  line += "hookline launch";
  line += " --config " + shell_word(config_file);
  for (std::size_t i = 0; i < imported.program.size(); ++i) {
    const auto expanded = imported.expanded.find(i);
    line += " " + (expanded == imported.expanded.end() ? shown_shell_line({imported.program[i]})
                                                       : expanded->second);
  }
  return line;
}

/// The Python script that the command runs; empty if it runs none.
std::string python_script(const Imported& imported) {
  std::vector<std::string> words = imported.program;
  std::erase_if(words, [](const std::string& word) { return word.starts_with("-"); });
  if (!words.empty() && words[0].ends_with(".py")) return words[0];
  return words.size() > 1 && is_python(words[0]) ? words[1] : "";
}

/// Warns of settings that have no effect on a Python script. Accelerate passes them to a script in variables.
void tell_what_a_script_ignores(const Imported& imported, const RunConfig& config) {
  const std::string script = python_script(imported);
  std::string keys;
  for (const RankSetting& each : rank_settings(config)) keys += (keys.empty() ? "" : ", ") + each.key;
  if (!script.empty() && !keys.empty())
    log::warning("'" + script + "' is a Python script, and only hookline's library acts on " + keys +
                 ": set the same in the script itself, unless it uses that library");
}

/// Logs the count after the list: few people read a long list to its end, and the command below it looks
/// complete.
void tell_how_much_is_left_out(const Imported& imported) {
  const std::size_t count = imported.left_out.size();
  if (count == 0) return;
  log::warning(count_text(count, "thing") +
               (count == 1 ? " was left out: see the 'left out' line above for the reason"
                           : " were left out: see the 'left out' lines above for the reasons"));
}

}  // namespace

int config_import(const Arguments& arguments) {
  WrittenFile output;
  VerbParser parser(
      "hookline config import FILE [--output FILE] [flags]",
      "Make a config from Accelerate's YAML, from a script that runs torchrun or accelerate launch, or from "
      "a DeepSpeed hostfile, and list what does not carry over, with the reason.",
      "hookline config import ~/.cache/huggingface/accelerate/default_config.yaml --output run.toml");
  output.add_flags(parser);
  if (!parser.parse(arguments)) return kSuccess;
  parser.expect_plain("file to import", 1, 1);

  const std::string& file = parser.plain()[0];
  const std::string text = text_of_file(file, kLargestImportBytes);
  if (text.empty()) throw UsageError("'" + file + "' is empty");
  Imported imported;
  try {
    imported = import_any(text, file);
  } catch (const ImportError& error) {
    log::error("'" + file + "' can't be imported: " + error.what());
    return kBadInput;
  }
  Sources sources;
  sources.overrides = imported.values;
  const Resolution resolution = resolve(sources, Catalog::built_in());
  std::cerr << resolution.report() << std::flush;
  if (!resolution.ok()) return kBadInput;

  log::info("'" + file + "' is " + imported.kind);
  for (const Override& value : imported.values)
    log::info("  " + value.where + " becomes " + value.key + " = " + value.value);
  for (const auto& [what, why] : imported.left_out) log::warning("  left out: " + what + ": " + why);
  for (const std::string& remark : imported.remarks) log::warning("  " + remark);
  const int code = output.write(chosen_file(resolution.config));
  if (code != kSuccess) return code;
  if (!imported.program.empty() && output.file.empty())
    log::info("save this as hookline.toml, and run it: " + run_line(imported, "hookline.toml"));
  else if (!imported.program.empty())
    log::info("run it: " + run_line(imported, output.file));
  tell_what_a_script_ignores(imported, resolution.config);
  tell_how_much_is_left_out(imported);
  return code;
}

}  // namespace hookline
