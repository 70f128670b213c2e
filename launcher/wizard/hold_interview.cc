#include "launcher/wizard/hold_interview.h"

namespace hookline {

InterviewEnd hold_interview(const Interview& interview, Dialog& dialog, bool defaults_at_end) {
  using How = InterviewEnd::How;
  Answers answers;
  std::string problem;
  bool at_end = false;
  while (const auto question = interview.next(answers)) {
    Reply reply;
    if (!at_end) reply = dialog.ask(*question, static_cast<int>(answers.size()) + 1, problem);
    problem.clear();
    switch (reply.kind) {
      case Reply::Kind::interrupted:
        return {How::interrupted, {}, "nothing was written"};
      case Reply::Kind::end_of_input:
        if (!defaults_at_end)
          return {How::answers_missing,
                  {},
                  "the answers end before question " + std::to_string(answers.size() + 1) + ", " +
                      question->id +
                      ": nothing was written; give --yes to take the defaults of all that is left"};
        at_end = true;
        continue;
      case Reply::Kind::back:
        if (!answers.empty()) answers.pop_back();
        continue;
      case Reply::Kind::answer:
        break;
    }
    const std::string value = reply.text.empty() ? question->default_value : reply.text;
    problem = interview.problem(answers, *question, value);
    if (problem.empty()) {
      answers.push_back({question->id, value});
    } else if (at_end || !dialog.asks_again()) {
      return {How::wrong_answer,
              {},
              "'" + value + "' is not an answer to question " + std::to_string(answers.size() + 1) + ", " +
                  question->id + ": " + problem};
    }
  }
  return {How::finished, answers, ""};
}

}  // namespace hookline
