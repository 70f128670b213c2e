// Holds an interview, from the first question to the last.
#pragma once

#include "launcher/wizard/dialog.h"
#include "launcher/wizard/interview.h"

namespace hookline {

struct InterviewEnd {
  enum class How { finished, interrupted, answers_missing, wrong_answer };
  How how = How::finished;
  Answers answers;
  std::string message;  // why, if it did not finish
};

/// Asks through `dialog`, goes back when told to, and asks again after an invalid answer. If the input ends
/// and `defaults_at_end` is set, all further questions get their defaults.
InterviewEnd hold_interview(const Interview& interview, Dialog& dialog, bool defaults_at_end);

}  // namespace hookline
