// What the wizard asks next: decided from the answers so far, without a terminal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/resolve.h"
#include "config/schema/detected.h"
#include "config/schema/schema.h"
#include "hooks/catalog/catalog.h"

namespace hookline {

/// One of the values that a question offers.
struct Choice {
  std::string value;  // as it is answered
  std::string note;   // what it means, in a line
};

struct Question {
  std::string id;       // the key that it sets, or kMoreSettings
  std::string text;     // what is asked, in a line
  std::string help;     // what the key means; empty: the question says it all
  std::string accepts;  // what may be typed
  std::vector<Choice> choices;
  bool may_type = true;       // something else than a choice
  std::string default_value;  // as it is answered
};

struct Answer {
  std::string id, value;
};
using Answers = std::vector<Answer>;

/// The question behind those that everybody is asked: which table to go through, if any.
inline constexpr const char* kMoreSettings = "more";
inline constexpr const char* kNoMore = "done";

/// The first question where jobs can be handed to a scheduler: which one is to start the run, if any.
inline constexpr const char* kScheduler = "scheduler";
inline constexpr const char* kByHand = "none";

class Interview {
 public:
  /// `parameters`: of the model, for what hooks would send.
  Interview(Catalog catalog, Detected here, std::int64_t parameters);

  /// The question behind `answers`; nothing once all is said. Choices that can't be combined with what was answered are left
  /// out, and so is a question with a single answer.
  std::optional<Question> next(const Answers& answers) const;

  /// Why `value` is no answer to `question`; empty if it is one.
  std::string problem(const Answers& answers, const Question& question, const std::string& value) const;

  /// The config that the answers make.
  RunConfig config(const Answers& answers) const;

  /// "In a step a rank sends 1.3 MB instead of 40 MB, of a model of 10 million parameters."; empty for a hook of which that is not
  /// known.
  std::string traffic(const RunConfig& config) const;

  /// What was detected, in a line each.
  std::string here() const;
  std::string fastest_by_default() const;

  /// The scheduler that the answers name, "slurm"; empty: none.
  static std::string scheduler_of(const Answers& answers);

 private:
  Detected here_with(const Answers& answers) const;
  std::optional<Question> scheduler_question(const Answers& answers) const;
  Resolution resolve_with(const Answers& answers) const;
  std::optional<Question> question_of(const KeyRow& row, const Answers& answers,
                                      const RunConfig& so_far) const;
  std::optional<Question> option_question(const Answers& answers, const RunConfig& so_far,
                                          bool first_ones) const;
  std::optional<Question> in_table(const std::string& table, const Answers& answers,
                                   const RunConfig& so_far) const;
  Question more_question(const Answers& answers, const RunConfig& so_far) const;
  bool is_possible(const Answers& answers, const std::string& id, const std::string& value) const;

  Catalog catalog_;
  Detected here_;
  std::int64_t parameters_;
};

}  // namespace hookline
