// Splits a shell script into commands and their words, before any expansion.
#pragma once

#include <string>
#include <vector>

namespace hookline {

/// Part of a word.
struct ShellPiece {
  std::string text;  // without quotes; expansions as written: "${N:-2}", "$(hostname)"
  bool is_replaced = false;
  bool is_quoted = false;
};

struct RawShellWord {
  std::vector<ShellPiece> pieces;
  std::vector<RawShellWord> array;  // words of NAME=(…); `pieces` is then "NAME="
  bool is_array = false;

  /// Its pieces, one after the other.
  std::string text() const;
};

struct RawShellCommand {
  int line = 0;  // of its first word, from 1
  std::vector<RawShellWord> words;
  std::vector<std::string> redirections, here_documents;
  int cut_at_line = 0;                 // line that ends in a backslash and a blank, and so does not continue
  std::string before, after;           // the operators around it, such as "&&"; "\n" for a line's end
  std::vector<std::string> preceding;  // all operators since the command before it: ")", "&&", "("
};

/// The last command has no words, only what precedes the end of the text. The words of "((N++))" are "((" and
/// "N++". Throws ImportError for an opening sign that is not closed.
std::vector<RawShellCommand> split_shell_script(const std::string& text);

/// The text between the quotes of $'…', with its escapes replaced.
std::string without_ansi_escapes(const std::string& text);

/// The pieces of a text inside double quotes.
std::vector<ShellPiece> quoted_shell_pieces(const std::string& text);

}  // namespace hookline
