// One problem in a config: where it is, what it is, and what to type instead.
#pragma once

#include <string>

namespace hookline {

/// How bad a problem is.
enum class Severity {
  error,   ///< The config can't be used.
  warning  ///< The config is used as it is.
};

/// What a problem is about, where code acts on it; its texts are for people alone.
enum class ProblemKind {
  other,            ///< One that no code acts on.
  unknown_key,      ///< Or table.
  unknown_hook,     ///< A name that the catalog does not have.
  unknown_wrapper,  ///< Likewise.
  unknown_option,   ///< Of a hook.
  never_starts,     ///< A hook for which no step is left.
  given_twice,      ///< A key or table of a file.
};

/// One problem, and its place. Line and column count from 1 (columns in characters, not bytes); line 0: the
/// problem has no place in a file, and `source` says where the value came from (`HOOKLINE_DDP__COMM_HOOK`,
/// `--set ddp.comm_hook`).
struct Diagnostic {
  Severity severity = Severity::error;  ///< Whether the config can be used all the same.
  std::string source;                   ///< The file as the user named it, the variable, or the flag.
  int line = 0;                         ///< Of the value or key; 0: no place in a file.
  int column = 0;                       ///< Of its first character.
  int length = 1;                       ///< Characters to underline, the caret included.
  std::string line_text;                ///< The offending line, without its newline.
  std::string message;  ///< "unknown key 'matrix_aproximation_rank' in [ddp.comm_state_option]"
  std::string note;     ///< Behind the caret: "not an option of power_sgd; did you mean '…'?"
  ProblemKind kind = ProblemKind::other;  ///< For code that acts on the problem.
};

/// The problem for people, with a line break at its end:
///
///     run.toml:7:1: error: MESSAGE
///       7 | LINE
///         | ^~~~ NOTE
std::string render(const Diagnostic& diagnostic);

}  // namespace hookline
