// Decides what the wizard asks next, from the answers so far. Needs no terminal.
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
  std::string value;  // as an answer gives it
  std::string note;   // what it means, on one line
};

struct Question {
  std::string id;       // the key that it sets, or kMoreSettings or kScheduler
  std::string text;     // the question, on one line
  std::string help;     // what the key means; empty: the question says it all
  std::string accepts;  // what may be typed
  std::vector<Choice> choices;
  bool may_type = true;       // may an answer be other than a choice
  std::string default_value;  // as an answer gives it
};

struct Answer {
  std::string id, value;
};
using Answers = std::vector<Answer>;

/// The question after those that everybody gets: which table to go through, if any.
inline constexpr const char* kMoreSettings = "more";
inline constexpr const char* kNoMore = "done";

/// The first question if jobs can be submitted to a scheduler: which one should start the run, if any.
inline constexpr const char* kScheduler = "scheduler";
inline constexpr const char* kByHand = "none";

class Interview {
 public:
  /// `parameters`: of the model, for what hooks would send.
  Interview(Catalog catalog, Detected here, std::int64_t parameters);

  /// The question after `answers`; nothing if there is none. Leaves out choices that can't be combined with
  /// earlier answers, and questions with only one possible answer.
  std::optional<Question> next(const Answers& answers) const;

  /// Why `value` is not a valid answer to `question`; empty if it is.
  std::string problem(const Answers& answers, const Question& question, const std::string& value) const;

  /// The config that results from the answers.
  RunConfig config(const Answers& answers) const;

  /// "in a step, each rank sends 1.3 MB, and without a hook 40 MB (for 10 million parameters)". Empty if that
  /// is not known, as for a hook without an estimate or a sharded model.
  std::string traffic(const RunConfig& config) const;

  /// What was detected, on one line: "8 cores, no GPU; network: 10.0.0.1 (eth0)".
  std::string here() const;
  std::string fastest_by_default() const;

  /// The scheduler that the answers choose, such as "slurm"; empty: none.
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
