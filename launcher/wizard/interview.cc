#include "launcher/wizard/interview.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/text/bytes_text.h"
#include "base/text/count_text.h"
#include "base/text/duration_text.h"
#include "hooks/catalog/option.h"
#include "hooks/catalog/wire_estimate.h"
#include "launcher/wizard/questions.h"
#include "prediction/choice_rule.h"

namespace hookline {
namespace {

constexpr std::size_t kOptionsAskedFirst = 2;  // options of a hook; the others are asked with its table

const std::string kOptions = std::string(kHookOptionTable) + ".";

bool is_answered(const Answers& answers, const std::string& id) {
  return std::any_of(answers.begin(), answers.end(), [&](const Answer& answer) { return answer.id == id; });
}

std::string typed(const OptionValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    std::string joined;
    for (const std::string& text : *texts) joined += (joined.empty() ? "" : ",") + text;
    return joined;
  }
  return to_text(value);
}

Question from_row(const OptionRow& row, const std::string& id) {
  Question question;
  question.id = id;
  question.accepts = allowed_text(row) + (row.unit.empty() ? "" : ", in " + row.unit);
  question.default_value = typed(row.default_value);
  std::vector<std::string> words = row.allowed;
  if (row.type == OptionType::boolean) words = {"true", "false"};
  for (const std::string& word : words) question.choices.push_back({word, ""});
  question.may_type = words.empty() || row.type == OptionType::texts;
  return question;
}

}  // namespace

Interview::Interview(Catalog catalog, Detected here, std::int64_t parameters)
    : catalog_(std::move(catalog)), here_(std::move(here)), parameters_(parameters) {}

Resolution Interview::resolve_with(const Answers& answers) const {
  Sources sources;
  for (const Answer& answer : answers)
    if (answer.id != kMoreSettings && answer.id != kScheduler)
      sources.overrides.push_back({answer.id, answer.value, answer.id});
  return resolve(sources, catalog_);
}

RunConfig Interview::config(const Answers& answers) const { return resolve_with(answers).config; }

std::string Interview::problem(const Answers& answers, const Question& question,
                               const std::string& value) const {
  const bool is_choice = std::any_of(question.choices.begin(), question.choices.end(),
                                     [&](const Choice& choice) { return choice.value == value; });
  if (!question.may_type && !is_choice) return "it is none of the choices";
  if (question.id == kMoreSettings || question.id == kScheduler) return "";
  Answers with = answers;
  with.push_back({question.id, value});
  for (const Diagnostic& each : resolve_with(with).diagnostics)
    if (each.severity == Severity::error) return each.message + (each.note.empty() ? "" : ": " + each.note);
  return "";
}

bool Interview::is_possible(const Answers& answers, const std::string& id, const std::string& value) const {
  Answers with = answers;
  with.push_back({id, value});
  return resolve_with(with).ok();
}

std::optional<Question> Interview::next(const Answers& answers) const {
  if (auto question = scheduler_question(answers)) return question;
  const RunConfig so_far = config(answers);
  std::vector<const KeyRow*> everybodys;
  for (const KeyRow& row : schema())
    if (row.asked > 0) everybodys.push_back(&row);
  std::sort(everybodys.begin(), everybodys.end(),
            [](const KeyRow* a, const KeyRow* b) { return a->asked < b->asked; });
  for (const KeyRow* row : everybodys)
    if (auto question = question_of(*row, answers, so_far)) return question;
  if (auto question = option_question(answers, so_far, /*first_ones=*/true)) return question;

  const auto last = std::find_if(answers.rbegin(), answers.rend(),
                                 [](const Answer& answer) { return answer.id == kMoreSettings; });
  if (last == answers.rend()) return more_question(answers, so_far);
  if (last->value == kNoMore) return std::nullopt;
  if (auto question = in_table(last->value, answers, so_far)) return question;
  return more_question(answers, so_far);
}

std::string Interview::scheduler_of(const Answers& answers) {
  for (const Answer& answer : answers)
    if (answer.id == kScheduler && answer.value != kByHand) return answer.value;
  return "";
}

/// What was detected, and the chosen scheduler, whose job will answer the questions about nodes.
Detected Interview::here_with(const Answers& answers) const {
  Detected here = here_;
  if (const std::string scheduler = scheduler_of(answers); !scheduler.empty()) here.scheduler = scheduler;
  return here;
}

std::optional<Question> Interview::scheduler_question(const Answers& answers) const {
  if (here_.submitters.empty() || !here_.scheduler.empty() || is_answered(answers, kScheduler))
    return std::nullopt;
  Question question;
  question.id = kScheduler;
  question.text = "Should a scheduler start the run?";
  question.accepts = "a scheduler, or none";
  question.may_type = false;
  question.default_value = here_.submitters.front();
  for (const std::string& scheduler : here_.submitters)
    question.choices.push_back({scheduler, "Submit it: the nodes and their addresses come from the job."});
  question.choices.push_back({kByHand, "Start it by hand, on each machine."});
  return question;
}

std::optional<Question> Interview::in_table(const std::string& table, const Answers& answers,
                                            const RunConfig& so_far) const {
  if (table == kHookOptionTable) return option_question(answers, so_far, /*first_ones=*/false);
  for (const KeyRow& row : schema()) {
    if (row.table != table) continue;
    if (auto question = question_of(row, answers, so_far)) return question;
  }
  return std::nullopt;
}

std::optional<Question> Interview::question_of(const KeyRow& row, const Answers& answers,
                                               const RunConfig& so_far) const {
  if (is_answered(answers, row.key()) || (row.applies && !row.applies(so_far, here_with(answers))))
    return std::nullopt;
  Question question = from_row(row.option, row.key());
  question.text = question_for(row.key());
  question.help = row.option.help;
  question.default_value = typed(row.get(so_far));
  const std::string key = row.key();
  if (key == "ddp.comm_hook") {
    const std::vector<Shape> shapes = typical_shapes(parameters_);
    for (const HookRow& hook : catalog_.hooks()) {
      const auto bytes = bytes_per_step(hook, default_options(hook), *catalog_.find_wrapper("no"), shapes);
      // Times measured on one machine say nothing about a network.
      const auto seconds =
          so_far.launch.nnodes == "1" ? here_.hook_seconds.find(hook.name) : here_.hook_seconds.end();
      question.choices.push_back(
          {hook.name,
           hook.summary + (bytes ? " " + bytes_text(*bytes) + " a step." : "") +
               (seconds != here_.hook_seconds.end()
                    ? " " + duration_text(std::chrono::duration<double>(seconds->second)) + " a step here."
                    : "")});
    }
    if (const bool sends = so_far.launch.nnodes == "1" && so_far.launch.processes_per_node.value_or(1) > 1;
        sends)
      question.default_value = fastest_by_default();
    question.choices.push_back({kAutoHook, "Chosen while the run trains, by measurements: see [ddp.auto]."});
    question.accepts =
        "a hook's name; bytes are those of a model of " + rounded_count_text(parameters_, "parameter");
  } else if (key == "ddp.comm_wrapper") {
    for (const WrapperRow& wrapper : catalog_.wrappers())
      question.choices.push_back({wrapper.name, wrapper.summary});
  } else if (key == "rendezvous.main_address") {
    for (const std::string& interface : here_.interfaces) {
      const std::size_t end = interface.find(' ');
      question.choices.push_back(
          {interface.substr(0, end), "this host" + interface.substr(std::min(end, interface.size()))});
    }
    if (question.default_value.empty() && !question.choices.empty())
      question.default_value = question.choices[0].value;
  }
  const bool is_a_choice_only = key == "ddp.comm_hook" || key == "ddp.comm_wrapper";
  if (is_a_choice_only) question.may_type = false;
  if (!question.may_type) {
    std::erase_if(question.choices,
                  [&](const Choice& choice) { return !is_possible(answers, question.id, choice.value); });
    if (question.choices.size() < 2) return std::nullopt;
  }
  return question;
}

std::optional<Question> Interview::option_question(const Answers& answers, const RunConfig& so_far,
                                                   bool first_ones) const {
  const HookRow* const hook = catalog_.find_hook(so_far.ddp.comm_hook);
  if (!hook) return std::nullopt;
  std::size_t asked = 0;
  for (const OptionRow& row : hook->options) {
    if (first_ones && ++asked > kOptionsAskedFirst) return std::nullopt;
    if (is_answered(answers, kOptions + row.name)) continue;
    Question question = from_row(row, kOptions + row.name);
    question.text = question_for(question.id);
    question.help = row.help;
    if (question.text.empty()) question.text = hook->name + ": " + row.name + "?";
    question.default_value = typed(so_far.ddp.comm_state_option.at(row.name));
    return question;
  }
  return std::nullopt;
}

Question Interview::more_question(const Answers& answers, const RunConfig& so_far) const {
  Question question;
  question.id = kMoreSettings;
  question.text = "Everything else keeps its default. Change settings of a table?";
  question.accepts = "a table's name, or done";
  question.may_type = false;
  question.default_value = kNoMore;
  question.choices.push_back({kNoMore, "Write the file."});
  std::vector<std::string> tables = table_names();
  tables.insert(std::find(tables.begin(), tables.end(), "ddp") + 1, kHookOptionTable);
  for (const std::string& table : tables) {
    const auto first = in_table(table, answers, so_far);
    if (!first) continue;
    Answers rest = answers;
    std::string keys;
    int count = 0;
    // Collects the keys that would be asked, except for those that depend on answers in this table.
    for (auto left = first; left && count < 100; left = in_table(table, rest, so_far)) {
      const std::string name = left->id.substr(table.size() + 1);
      if (++count <= 3) keys += (count == 1 ? "" : ", ") + name;
      rest.push_back({left->id, left->default_value});
    }
    question.choices.push_back(
        {table, keys + (count > 3 ? " and " + std::to_string(count - 3) + " more" : "")});
  }
  return question;
}

std::string Interview::traffic(const RunConfig& config) const {
  if (config.fsdp.sharding_strategy != "no_shard") return "";  // traffic then depends on the program's units
  const HookRow* const hook = catalog_.find_hook(config.ddp.comm_hook);
  const WrapperRow* const wrapper = catalog_.find_wrapper(config.ddp.comm_wrapper);
  const std::vector<Shape> shapes = typical_shapes(parameters_);
  auto sent =
      hook && wrapper ? bytes_per_step(*hook, config.ddp.comm_state_option, *wrapper, shapes) : std::nullopt;
  if (!sent) return "";
  if (config.ddp.shard_optimizer)
    sent = bytes_with_sharded_optimizer(*hook, *sent, static_cast<double>(parameters_));
  const auto whole = bytes_per_step(*catalog_.find_hook("no"), {}, *catalog_.find_wrapper("no"), shapes);
  return "in a step, each rank sends " + bytes_text(*sent) +
         (*sent == *whole ? "" : ", and without a hook " + bytes_text(*whole)) + " (for " +
         rounded_count_text(parameters_, "parameter") + ")";
}

/// The hook with the fastest step, as measured or predicted, among those that change gradients by no more
/// than rounding, if it saves a few per cent of a step; else "no".
std::string Interview::fastest_by_default() const {
  const auto no_hook = here_.hook_seconds.find("no");
  if (no_hook == here_.hook_seconds.end()) return "no";
  std::vector<std::string> names{"no"};
  std::vector<double> seconds{no_hook->second};
  for (const HookRow& hook : catalog_.hooks()) {
    const auto known = here_.hook_seconds.find(hook.name);
    if (known == here_.hook_seconds.end() || hook.exactness > Exactness::half) continue;
    names.push_back(hook.name);
    seconds.push_back(known->second);
  }
  return names[choose(seconds, 0)];
}

std::string Interview::here() const {
  std::string text =
      count_text(here_.cores, "core") + ", " + (here_.gpus == 0 ? "no GPU" : count_text(here_.gpus, "GPU"));
  std::string interfaces;
  for (const std::string& interface : here_.interfaces)
    interfaces += (interfaces.empty() ? "" : ", ") + interface;
  text += interfaces.empty() ? ", no network" : "; network: " + interfaces;
  return text + (here_.scheduler.empty() ? "" : "; under " + here_.scheduler);
}

}  // namespace hookline
