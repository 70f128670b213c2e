#include "launcher/launch/script_kind.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <sstream>
#include <string_view>
#include <system_error>

#include "base/folder_access.h"
#include "base/regular_file.h"
#include "hooks/catalog/hook_rows.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

constexpr std::array<std::string_view, 16> kInterpreters = {"python",  "pypy", "ipython",  // Python's
                                                            "sh",      "bash", "dash",    "zsh",  "ksh",
                                                            "fish",    "perl", "ruby",    "node", "julia",
                                                            "Rscript", "java", "lua"};
constexpr std::size_t kPythons = 3;

/// Is `file` called so? "python3.11" counts as python.
bool is_called(const fs::path& file, std::span<const std::string_view> names) {
  std::string name = file.filename().string();
  while (!name.empty() && std::string_view("0123456789.-").find(name.back()) != std::string_view::npos)
    name.pop_back();
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_python(const fs::path& file) { return is_called(file, std::span(kInterpreters).first<kPythons>()); }

fs::path real_path(const fs::path& file) {
  std::error_code error;
  fs::path real = fs::canonical(file, error);
  return error ? file : real;
}

bool is_interpreter(const fs::path& file) { return is_called(real_path(file), kInterpreters); }

/// The words after "#!" in its first line. Empty if it has none.
std::string interpreter_line(const fs::path& file) {
  char start[256] = {};
  InputFile(file).read(start, sizeof start - 1);
  const std::string text = start;
  return text.starts_with("#!") ? text.substr(2, text.find('\n') - 2) : "";
}

/// Is it a Python, or a file of Python's?
bool is_of_python(const std::string& word) { return is_python(word) || word.ends_with(".py"); }

/// Does a word of the line name a Python, or a file of Python's?
bool names_python(const std::string& line) {
  std::istringstream words(line);
  for (std::string word; words >> word;)
    if (is_of_python(word)) return true;
  return false;
}

}  // namespace

std::string script_kind(const Program& program) {
  if (program.file == program.executable && is_interpreter(program.file)) return "an interpreter";
  const bool is_script = !interpreter_line(program.file).empty() || program.file != program.executable ||
                         is_interpreter(program.executable);
  return is_script ? "a script" : "";
}

bool runs_python(const Program& program) {
  if (is_python(real_path(program.executable))) return true;
  if (names_python(interpreter_line(program.file))) return true;
  bool shows_python = false;
  for (auto argument = program.arguments.begin() + 1; argument != program.arguments.end(); ++argument) {
    const bool is_text = *(argument - 1) == "-c";  // of a shell
    shows_python = shows_python || is_of_python(*argument) ||
                   names_python(is_text ? *argument : interpreter_line(*argument));
  }
  return shows_python && !may_not_read(program.file) && read_build(program.file).empty();
}

}  // namespace hookline
