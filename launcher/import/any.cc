
#include "base/lines.h"
#include "base/text/list_text.h"
#include "launcher/import/imported.h"
#include "launcher/import/launchers.h"

namespace hookline {
namespace {

/// A text with one of these words is read as a script, so that errors say what is wrong with it. Other
/// scripts may spell a launcher so that only parsing finds it.
bool mentions_a_launcher(const std::string& text) {
  for (const char* name : {"torchrun", "torch.distributed.", "accelerate launch", "accelerate-launch",
                           "accelerate.commands.launch"})
    if (text.find(name) != text.npos) return true;
  return false;
}

/// Does a line start with one of Accelerate's keys? Then the text is YAML, even if its comments mention a
/// launcher.
bool looks_like_accelerates_yaml(const std::string& text) {
  for (const char* key : {"distributed_type:", "compute_environment:", "num_processes:"})
    if (text.starts_with(key) || text.find(std::string("\n") + key) != text.npos) return true;
  return false;
}

/// Does a line start with a key, or does the text begin like a list, a mapping or a complex key of YAML?
bool may_be_yaml(const std::string& text) {
  if (text.find_first_of("[{?") == 0) return true;
  for (const std::string_view line : lines_of(text)) {
    const std::size_t end =
        line.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    if (end != line.npos && end > 0 && line[end] == ':' && (end + 1 == line.size() || line[end + 1] == ' '))
      return true;
  }
  return false;
}

/// Editors on Windows end lines with "\r\n".
std::string with_plain_line_ends(const std::string& text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] != '\r' || i + 1 == text.size() || text[i + 1] != '\n') result += text[i];
  return result;
}

std::string listed(const std::vector<LaunchLine>& lines) {
  std::vector<std::string> numbers;
  for (const LaunchLine& each : lines) numbers.push_back(std::to_string(each.line));
  return list_text(numbers);
}

/// Does the text start a launcher, however it is spelled: `accelerate  "launch"`, `$LAUNCHER launch`?
bool starts_a_launcher(const std::string& text) {
  ShellScript script;
  try {
    script = read_shell_script(text);
  } catch (const ImportError&) {
    if (text.starts_with("#!")) throw;
    return false;  // may be YAML or a list of hosts instead
  }
  return !launch_lines_in(script).empty();
}

Imported import_script(const std::string& text, const std::filesystem::path& file) {
  const std::vector<LaunchLine> lines = launch_lines_in(read_shell_script(text));
  if (lines.empty()) throw ImportError("it has no command line of torchrun or accelerate launch");
  if (lines.size() == 2 && lines[0].line == lines[1].line)
    throw ImportError(
        "line " + std::to_string(lines[0].line) +
        " starts two programs, and a config is for one: put the one to import into a file of its own");
  if (lines.size() > 1)
    throw ImportError(
        "lines " + listed(lines) +
        " each start a program, and a config is for one: put the one to import into a file of its own");
  Imported result =
      lines[0].launcher == "torchrun" ? import_torchrun(lines[0]) : import_accelerate_launch(lines[0], file);
  if (text.starts_with("#SBATCH ") || text.find("\n#SBATCH ") != text.npos)
    result.leave_out("the #SBATCH lines",
                     "submit the run with hookline submit --scheduler slurm, and pass each of sbatch's "
                     "options with --scheduler-arg");
  return result;
}

}  // namespace

Imported import_any(const std::string& original, const std::filesystem::path& file) {
  const std::string text = with_plain_line_ends(original);
  if (!text.starts_with("#!") && looks_like_accelerates_yaml(text)) return import_accelerate(text);
  if (mentions_a_launcher(text) || starts_a_launcher(text)) return import_script(text, file);
  if (text.find("slots=") != text.npos) return import_hostfile(text);
  try {
    if (!text.starts_with("#!")) return import_accelerate(text);
  } catch (const ImportError&) {
    if (may_be_yaml(text)) throw;
  }
  throw ImportError(
      "it is none of: Accelerate's YAML, a script with torchrun or accelerate launch, a hostfile (HOST "
      "slots=N)");
}

}  // namespace hookline
