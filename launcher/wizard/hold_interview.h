// An interview from its first question to its last.
#pragma once

#include "launcher/wizard/dialog.h"
#include "launcher/wizard/interview.h"

namespace hookline {

struct InterviewEnd {
  enum class How { finished, interrupted, answers_missing, wrong_answer };
  How how = How::finished;
  Answers answers;
  std::string message;  // if it did not finish: why
};

/// Asks through `dialog`, goes back where it is told to, and asks again where an answer is none. At the end of the input all
/// further questions have their defaults if `defaults_at_end`.
InterviewEnd hold_interview(const Interview& interview, Dialog& dialog, bool defaults_at_end);

}  // namespace hookline
