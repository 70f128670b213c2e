// Splits a shell script into commands and their words, before anything is replaced.
#pragma once

#include <string>
#include <vector>

namespace hookline {

/// Part of a word.
struct ShellPiece {
  std::string text;  // without quotation marks; of a replacement as it is written: "${N:-2}", "$(hostname)"
  bool is_replaced = false;
  bool is_quoted = false;
};

struct RawShellWord {
  std::vector<ShellPiece> pieces;
  std::vector<RawShellWord> array;  // of NAME=(…), whose pieces are "NAME="
  bool is_array = false;

  /// Its pieces, one after the other.
  std::string text() const;
};

struct RawShellCommand {
  int line = 0;  // of its first word, from 1
  std::vector<RawShellWord> words;
  std::vector<std::string> redirections, here_documents;
  int cut_at_line = 0;        // the line that a backslash with a blank behind it ends: it does not continue
  std::string before, after;  // the operators around it, such as "&&"; "\n" for a line's end
  std::vector<std::string> preceding;  // all since the command before it: ")", "&&", "("
};

/// The last one has no words, only what precedes the end. Of "((N++))" the words are "((" and "N++". Throws ImportError for what
/// is opened and not closed.
std::vector<RawShellCommand> split_shell_script(const std::string& text);

/// What stands between the quotation marks of $'…', without its escapes.
std::string without_ansi_escapes(const std::string& text);

/// The pieces of what stands inside of double quotation marks.
std::vector<ShellPiece> quoted_shell_pieces(const std::string& text);

}  // namespace hookline
