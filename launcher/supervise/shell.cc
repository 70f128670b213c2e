#include "launcher/supervise/shell.h"

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

CommandOutput output_of(const std::vector<std::string>& command) {
  FILE* const pipe = popen((shell_line(command) + " 2>&1").c_str(), "r");
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
