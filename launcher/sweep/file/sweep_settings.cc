#include "launcher/sweep/file/sweep_settings.h"

#include <utility>

namespace hookline {
namespace {

constexpr const char* kNone = "none";

std::optional<std::int64_t> whole_or_none(const OptionValue& value) {
  const auto* number = std::get_if<std::int64_t>(&value);
  return number ? std::optional(*number) : std::nullopt;
}

std::optional<double> number_or_none(const OptionValue& value) {
  const auto* number = std::get_if<double>(&value);
  return number ? std::optional(*number) : std::nullopt;
}

template <class Number>
OptionValue or_word(const std::optional<Number>& number, const char* word) {
  return number ? OptionValue(*number) : OptionValue(std::string(word));
}

OptionRow row_of(const char* name, OptionType type, OptionValue default_value, const char* help) {
  OptionRow row;
  row.name = name;
  row.type = type;
  row.default_value = std::move(default_value);
  row.help = help;
  return row;
}

OptionRow text_of(const char* name, const char* default_value, std::vector<std::string> allowed,
                  const char* help) {
  OptionRow row = row_of(name, OptionType::text, std::string(default_value), help);
  row.allowed = std::move(allowed);
  return row;
}

OptionRow number_of(const char* name, OptionType type, OptionValue default_value, double least,
                    const char* or_word, const char* unit, const char* help) {
  OptionRow row = row_of(name, type, std::move(default_value), help);
  row.at_least = least;
  if (or_word) row.or_word = or_word;
  row.unit = unit;
  return row;
}

OptionRow up_to(double most, OptionRow row) {
  row.at_most = most;
  return row;
}

}  // namespace

const std::vector<SweepKeyRow>& sweep_schema() {
  using Settings = SweepSettings;
  static const std::vector<SweepKeyRow> rows = {
      {row_of("program", OptionType::texts, std::vector<std::string>{},
              "The program and its arguments. {NAME} is replaced by the value of args.NAME; without it "
              "--NAME VALUE is appended"),
       [](const Settings& s) -> OptionValue { return s.program; },
       [](Settings& s, const OptionValue& v) { s.program = std::get<std::vector<std::string>>(v); }},
      {text_of("config", "", {}, "The config that each trial's values override, relative to the sweep file"),
       [](const Settings& s) -> OptionValue { return s.config; },
       [](Settings& s, const OptionValue& v) { s.config = std::get<std::string>(v); }},
      {text_of("metric", "", {},
               "Name of the logged metric that trials are compared by; empty: trials are only run"),
       [](const Settings& s) -> OptionValue { return s.metric; },
       [](Settings& s, const OptionValue& v) { s.metric = std::get<std::string>(v); }},
      {text_of("goal", "min", {"min", "max"},
               "Whether the smallest or the largest value of the metric is best"),
       [](const Settings& s) -> OptionValue { return s.goal; },
       [](Settings& s, const OptionValue& v) { s.goal = std::get<std::string>(v); }},
      {text_of("metric_value", "last", {"last", "best"},
               "Which value of a trial counts: its last, or its best by the goal"),
       [](const Settings& s) -> OptionValue { return s.metric_value; },
       [](Settings& s, const OptionValue& v) { s.metric_value = std::get<std::string>(v); }},
      {number_of("repeats", OptionType::integer, std::int64_t{1}, 1, nullptr, "",
                 "How many times each grid point runs with each seed"),
       [](const Settings& s) -> OptionValue { return s.repeats; },
       [](Settings& s, const OptionValue& v) { s.repeats = std::get<std::int64_t>(v); }},
      {number_of("baseline_every", OptionType::integer, std::int64_t{8}, 1, nullptr, "trials",
                 "Run the baseline again after this many trials, in case the machine slows down"),
       [](const Settings& s) -> OptionValue { return s.baseline_every; },
       [](Settings& s, const OptionValue& v) { s.baseline_every = std::get<std::int64_t>(v); }},
      {number_of("trial_limit_seconds", OptionType::number, std::string(kNone), 0.001, kNone, "seconds",
                 "Stop a trial after this long, and count it as failed"),
       [](const Settings& s) { return or_word(s.trial_limit, kNone); },
       [](Settings& s, const OptionValue& v) { s.trial_limit = number_or_none(v); }},
      {number_of("budget_trials", OptionType::integer, std::string(kNone), 1, kNone, "trials",
                 "Start at most this many trials"),
       [](const Settings& s) { return or_word(s.budget_trials, kNone); },
       [](Settings& s, const OptionValue& v) { s.budget_trials = whole_or_none(v); }},
      {number_of("budget_seconds", OptionType::number, std::string(kNone), 0.001, kNone, "seconds",
                 "Start no further trial once trials have run for this long in total"),
       [](const Settings& s) { return or_word(s.budget, kNone); },
       [](Settings& s, const OptionValue& v) { s.budget = number_or_none(v); }},
      {text_of("invalid", "skip", {"skip", "refuse"},
               "Skip combinations that can't run, or refuse the whole sweep"),
       [](const Settings& s) -> OptionValue { return s.invalid; },
       [](Settings& s, const OptionValue& v) { s.invalid = std::get<std::string>(v); }},
      {text_of("failed", "continue", {"continue", "stop"}, "Continue or stop after a trial that failed"),
       [](const Settings& s) -> OptionValue { return s.failed; },
       [](Settings& s, const OptionValue& v) { s.failed = std::get<std::string>(v); }},
      {up_to(10'000, number_of("max_parallel", OptionType::integer, std::int64_t{1}, 1, "auto", "trials",
                               "How many trials run at once, each on its own cores or GPUs; auto: as many as "
                               "the machine has cores or GPUs for")),
       [](const Settings& s) { return or_word(s.max_parallel, "auto"); },
       [](Settings& s, const OptionValue& v) { s.max_parallel = whole_or_none(v); }},
      {text_of("early_stopping", kNone, {kNone, "median", "halving"},
               "Stop hopeless trials. median: those behind the median of the others; halving: the worst "
               "two thirds, each time they are compared"),
       [](const Settings& s) -> OptionValue { return s.early_stopping; },
       [](Settings& s, const OptionValue& v) { s.early_stopping = std::get<std::string>(v); }},
      {number_of("early_stopping_from", OptionType::integer, std::int64_t{10}, 1, nullptr, "steps",
                 "First step at which a trial may be stopped"),
       [](const Settings& s) -> OptionValue { return s.early_stopping_from; },
       [](Settings& s, const OptionValue& v) { s.early_stopping_from = std::get<std::int64_t>(v); }},
  };
  return rows;
}

}  // namespace hookline
