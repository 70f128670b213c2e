// How a question gets its answer: from lines, or from somebody at a terminal.
#pragma once

#include <iosfwd>
#include <string>

#include "launcher/wizard/interview.h"

namespace hookline {

struct Reply {
  enum class Kind { answer, back, end_of_input, interrupted };
  Kind kind = Kind::answer;
  std::string text;  // of an answer; empty: the default
};

class Dialog {
 public:
  virtual ~Dialog() = default;

  /// Asks the `number`th question, from 1; `problem`: with the answer before, if it was none.
  virtual Reply ask(const Question& question, int number, const std::string& problem) = 0;

  /// Can it be asked again after a wrong answer? Lines of a file would then answer other questions than they were meant for.
  virtual bool asks_again() const = 0;
};

/// Questions out, a line back: a number picks a choice, an empty line takes the default, "<" goes back.
class LineDialog : public Dialog {
 public:
  /// `is_person`: there is one who reads the questions, and can answer again.
  LineDialog(std::istream& in, std::ostream& out, bool is_person)
      : in_(in), out_(out), is_person_(is_person) {}
  Reply ask(const Question& question, int number, const std::string& problem) override;
  bool asks_again() const override { return is_person_; }

 private:
  std::istream& in_;
  std::ostream& out_;
  bool is_person_;
};

/// Choices by arrow keys or number on a terminal that can move its cursor; Esc or the left arrow goes back.
class ScreenDialog : public Dialog {
 public:
  /// Both ends are the terminal's descriptors.
  ScreenDialog(int in, int out) : in_(in), out_(out) {}
  Reply ask(const Question& question, int number, const std::string& problem) override;
  bool asks_again() const override { return true; }

 private:
  int in_, out_;
};

/// The choice that `text` means: one by its number, from 1, or `text` itself.
std::string meant(const Question& question, const std::string& text);

}  // namespace hookline
