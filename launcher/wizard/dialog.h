// Asks questions, and gets answers from lines of text or from a person at a terminal.
#pragma once

#include <iosfwd>
#include <string>

#include "launcher/wizard/interview.h"

namespace hookline {

struct Reply {
  enum class Kind { answer, back, end_of_input, interrupted };
  Kind kind = Kind::answer;
  std::string text;  // the answer; empty: the default
};

class Dialog {
 public:
  virtual ~Dialog() = default;

  /// Asks question `number`, from 1. `problem`: what was wrong with the previous answer, if anything.
  virtual Reply ask(const Question& question, int number, const std::string& problem) = 0;

  /// May a question be repeated after a wrong answer? If lines of a file answer, the next line is for another
  /// question.
  virtual bool asks_again() const = 0;
};

/// Prints questions and reads lines: a number picks a choice, an empty line the default, and "<" goes back.
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

/// Shows choices on a terminal that can move its cursor: arrow keys or a number choose, Esc or the left arrow
/// goes back.
class ScreenDialog : public Dialog {
 public:
  /// `in`, `out`: descriptors of the terminal.
  ScreenDialog(int in, int out) : in_(in), out_(out) {}
  Reply ask(const Question& question, int number, const std::string& problem) override;
  bool asks_again() const override { return true; }

 private:
  int in_, out_;
};

/// The choice that `text` means: one by its number, from 1, or `text` itself.
std::string meant(const Question& question, const std::string& text);

}  // namespace hookline
