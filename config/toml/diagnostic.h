// One problem in a config: where it is, what it is, and what to type instead.
#pragma once

#include <string>

namespace hookline {

enum class Severity { error, warning };

/// What a problem is about, where code acts on it; its texts are for people alone.
enum class ProblemKind {
  other,
  unknown_key,  // or table
  unknown_hook,
  unknown_wrapper,
  unknown_option,  // of a hook
  never_starts,    // a hook for which no step is left
  given_twice,     // a key or table of a file
};

/// Line and column count from 1 (columns in characters, not bytes); line 0: the problem has no place in a
/// file, and `source` says where the value came from ("HOOKLINE_DDP__COMM_HOOK", "--set ddp.comm_hook").
struct Diagnostic {
  Severity severity = Severity::error;
  std::string source;  // file as the user named it, variable, or flag
  int line = 0;
  int column = 0;
  int length = 1;         // characters to underline, the caret included
  std::string line_text;  // the offending line, without its newline
  std::string message;    // "unknown key 'matrix_aproximation_rank' in [ddp.comm_state_option]"
  std::string note;       // behind the caret: "not an option of power_sgd; did you mean '…'?"
  ProblemKind kind = ProblemKind::other;
};

/// run.toml:7:1: error: MESSAGE
///   7 | LINE
///     | ^~~~ NOTE
std::string render(const Diagnostic& diagnostic);

}  // namespace hookline
