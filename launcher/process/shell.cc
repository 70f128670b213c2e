#include "launcher/process/shell.h"

#include <sys/wait.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <string_view>
#include <system_error>

namespace hookline {

std::string shell_word(const std::string& word) {
  const bool is_plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) ||
           std::string_view("_-+=./:,@%").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (is_plain) return word;
  std::string result = "'";
  for (const char c : word) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::string shell_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + shell_word(word);
  return line;
}

std::string shown_shell_line(const std::vector<std::string>& words) {
  const auto is_control = [](char c) { return std::iscntrl(static_cast<unsigned char>(c)) != 0; };
  std::string line;
  for (const std::string& word : words) {
    line += line.empty() ? "" : " ";
    if (std::none_of(word.begin(), word.end(), is_control)) {
      line += shell_word(word);
      continue;
    }
    line += "$'";
    for (const char c : word) {
      char code[8];
      std::snprintf(code, sizeof code, "\\%03o", static_cast<unsigned char>(c));
      line += c == '\n'                ? std::string("\\n")
              : c == '\t'              ? std::string("\\t")
              : c == '\r'              ? std::string("\\r")
              : is_control(c)          ? std::string(code)
              : c == '\'' || c == '\\' ? std::string("\\") + c
                                       : std::string(1, c);
    }
    line += "'";
  }
  return line;
}

CommandOutput output_of(const std::vector<std::string>& command) {
  // exec replaces the shell, which would otherwise report on the launcher's standard error how the command
  // was killed.
  FILE* const pipe = popen(("exec " + shell_line(command) + " 2>&1").c_str(), "r");
  if (!pipe) throw std::system_error(errno, std::generic_category(), "can't run '" + command[0] + "'");
  CommandOutput output;
  char block[4096];
  while (const std::size_t count = std::fread(block, 1, sizeof block, pipe)) output.text.append(block, count);
  const int status = pclose(pipe);
  while (!output.text.empty() && output.text.back() == '\n') output.text.pop_back();
  output.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return output;
}

}  // namespace hookline
