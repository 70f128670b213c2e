#include "config/checks/hook_checks.h"

#include <algorithm>

#include "base/suggest.h"
#include "config/schema/schema.h"
#include "hooks/catalog/option_rules.h"

namespace hookline {
namespace {

constexpr std::string_view kProgramPrefix = "program:";
const std::string kHookKey = "ddp.comm_hook";
const std::string kWrapperKey = "ddp.comm_wrapper";

template <typename Rows>
std::vector<std::string> names_of(const Rows& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows) names.push_back(row.name);
  return names;
}

std::string one_of(const std::vector<std::string>& names) {
  OptionRow row;
  row.type = OptionType::text;
  row.allowed = names;
  return "must be " + allowed_text(row);
}

/// The names that comm_hook accepts.
std::vector<std::string> names_of_hooks(const Catalog& catalog) {
  std::vector<std::string> names = names_of(catalog.hooks());
  names.push_back(kAutoHook);
  return names;
}

/// A value of comm_hook, as far as it is known. `row` is null for a hook that only the program knows, and for
/// "auto".
struct Choice {
  std::string name = "no";
  const HookRow* row = nullptr;
  const Given* given = nullptr;  // null: the default
  bool is_auto() const { return name == kAutoHook; }

  bool known = true;  // false: an error was reported; `row` is then the hook that was probably meant
};

class HookResolver {
 public:
  HookResolver(const Collected& collected, const Catalog& catalog, UnknownHooks unknown, RunConfig& config,
               std::vector<Diagnostic>& diagnostics)
      : collected_(collected),
        catalog_(catalog),
        unknown_(unknown),
        config_(config),
        diagnostics_(diagnostics) {}

  void run() {
    choices_.push_back({"no", catalog_.find_hook("no"), nullptr, true});
    if (const auto found = collected_.keys.find(kHookKey); found != collected_.keys.end())
      for (const Given& given : found->second) choices_.push_back(choose(given));
    if (choices_.size() == 1 && collected_.incomplete) choices_.push_back({"no", nullptr, nullptr, false});
    const Choice& hook = choices_.back();
    config_.ddp.comm_hook = hook.name;
    config_.origins[kHookKey] = hook.given ? hook.given->origin() : Origin{};

    wrapper(hook);
    options(hook);
    if (hook.row && hook.known) complete_options(hook);
  }

 private:
  void report(const Place& place, Severity severity, std::string message, std::string note,
              ProblemKind kind = ProblemKind::other) {
    diagnostics_.push_back(diagnostic_at(place, severity, std::move(message), std::move(note), kind));
  }

  std::optional<std::string> text_of(const Given& given, const std::string& name,
                                     const std::vector<std::string>& names) {
    const KeyRow* row = find_key("ddp", name);
    OptionRow option = row->option;
    if (given.value && !std::holds_alternative<std::string>(*given.value)) option.allowed = names;
    const auto value = checked_value(given, option, row->table, diagnostics_);
    return value ? std::optional(std::get<std::string>(*value)) : std::nullopt;
  }

  Choice choose(const Given& given) {
    const auto text = text_of(given, "comm_hook", names_of_hooks(catalog_));
    if (!text) return {"no", nullptr, &given, false};
    if (*text == kAutoHook) return {*text, nullptr, &given, true};
    const bool of_program = text->compare(0, kProgramPrefix.size(), kProgramPrefix) == 0;
    const std::string name = of_program ? text->substr(kProgramPrefix.size()) : *text;
    if (const HookRow* row = catalog_.find_hook(name)) return {row->name, row, &given, true};
    if (of_program && unknown_.program_may_have_them && !name.empty()) return {*text, nullptr, &given, true};
    if (!unknown_.plugins_were_read) return {"no", nullptr, &given, false};

    const std::vector<std::string> names = of_program ? names_of(catalog_.hooks()) : names_of_hooks(catalog_);
    const auto near = nearest(name, names);
    report(given.place, Severity::error,
           of_program ? "the program has no hook '" + name + "'" : "unknown hook " + to_text(name),
           one_of(names) +
               (unknown_.program_may_have_them ? ", or \"program:NAME\" for a hook that the program registers"
                                               : "") +
               (near ? "" : ", or a hook of a shared library in [ddp] plugins") +
               (near ? "; did you mean " + to_text(*near) + "?" : ""),
           of_program ? ProblemKind::other : ProblemKind::unknown_hook);
    return {"no", near ? catalog_.find_hook(*near) : nullptr, &given, false};
  }

  void wrapper(const Choice& hook) {
    const WrapperRow* last = catalog_.find_wrapper("no");
    const Given* last_given = nullptr;
    if (const auto found = collected_.keys.find(kWrapperKey); found != collected_.keys.end()) {
      for (const Given& given : found->second) {
        last_given = &given;
        last = find_wrapper(given);
      }
    }
    config_.origins[kWrapperKey] = last_given ? last_given->origin() : Origin{};
    if (!last) return;
    config_.ddp.comm_wrapper = last->name;
    if (last->dtype.empty() || !hook.known || !(hook.row || hook.is_auto())) return;
    // Report the error at the stronger of the two sources, which made the combination.
    const bool hook_came_later = hook.given && hook.given->order > last_given->order;
    const Place& place = hook_came_later ? hook.given->place : last_given->place;
    const std::string what = "comm_wrapper " + to_text(last->name) + " over comm_hook " + to_text(hook.name);
    // Say where the other one is set, if that is another source.
    const Given* other = hook_came_later ? last_given : hook.given;
    std::string from;
    if (other && hook.given->order != last_given->order) {
      from = std::string("; ") + (hook_came_later ? "comm_wrapper" : "comm_hook") + " is set at " +
             other->key.text();
    }
    if (hook.is_auto()) {
      report(place, Severity::error, what + " does not work",
             "auto chooses the wrapper, too: leave it out, or name a hook" + from);
    } else if (!hook.row->averages) {
      report(place, Severity::error, what + " would only round the gradients",
             hook.name + " does not average them: leave the wrapper out" + from);
    } else if (hook.row->half_precision) {
      report(place, Severity::error, what + " would cast the gradients twice",
             hook.name + " sends half precision by itself: leave one of the two out" + from);
    } else if (!hook.row->wrappable) {
      report(place, Severity::error, what + " does not work",
             hook.name + " needs the gradients as they are: leave the wrapper out" + from);
    }
  }

  const WrapperRow* find_wrapper(const Given& given) {
    const std::vector<std::string> names = names_of(catalog_.wrappers());
    const auto name = text_of(given, "comm_wrapper", names);
    if (!name) return nullptr;
    if (const WrapperRow* row = catalog_.find_wrapper(*name)) return row;
    if (const HookRow* hook = catalog_.find_hook(*name)) {
      report(given.place, Severity::error, to_text(*name) + " is a hook, not a wrapper",
             "set comm_hook = " + to_text(hook->name) + "; comm_wrapper " + one_of(names));
    } else {
      const auto near = nearest(*name, names);
      report(given.place, Severity::error, "unknown wrapper " + to_text(*name),
             one_of(names) + (near ? "; did you mean " + to_text(*near) + "?" : ""),
             ProblemKind::unknown_wrapper);
    }
    return nullptr;
  }

  void options(const Choice& hook) {
    for (const Given& given : collected_.hook_options) {
      if (hook.is_auto()) {
        diagnostics_.push_back(
            hookline::without_effect(given,
                                     "comm_hook \"auto\" chooses the options of its hook, too: name a hook, "
                                     "or leave this option out"));
      } else if (!hook.row) {
        // The rank, which knows the program's own hook, checks its options. For an unknown hook, its own
        // error is enough.
        if (hook.known) keep(given, given.name, untyped_value(given, diagnostics_));
      } else if (const OptionRow* row = find_option(*hook.row, given)) {
        keep(given, row->name, checked_value(given, *row, kHookOptionTable, diagnostics_));
      } else if (hook.row->options.empty()) {
        if (hook.known) without_effect(given, hook);
      } else {
        unknown_option(given, hook);
      }
    }
  }

  void keep(const Given& given, const std::string& name, std::optional<OptionValue> value) {
    if (value) config_.ddp.comm_state_option[name] = *std::move(value);
    config_.origins[std::string(kHookOptionTable) + "." + name] = given.origin();
    counting_[name] = &given;
  }

  static const OptionRow* find_option(const HookRow& hook, const Given& given) {
    for (const OptionRow& row : hook.options) {
      const bool same = given.layer == OriginKind::environment
                            ? lower_case(row.name) == lower_case(given.name)
                            : row.name == given.name;
      if (same) return &row;
    }
    return nullptr;
  }

  void without_effect(const Given& given, const Choice& hook) {
    std::string note = "comm_hook " + to_text(hook.row->name) + " has no options";
    for (const HookRow& other : catalog_.hooks()) {
      if (!find_option(other, given)) continue;
      note += "; it is an option of " + other.name;
      break;
    }
    diagnostics_.push_back(hookline::without_effect(given, note));
  }

  void unknown_option(const Given& given, const Choice& hook) {
    // The hook that the option was meant for, if a stronger source then chose another hook.
    const Choice* meant = &choices_.front();
    for (const Choice& choice : choices_)
      if (choice.given && choice.given->order <= given.order) meant = &choice;
    if (hook.given && hook.given->order > given.order && meant->row && find_option(*meant->row, given)) {
      diagnostics_.push_back(hookline::without_effect(given, "it is an option of " + meant->row->name +
                                                                 ", and " + hook.given->key.text() +
                                                                 " chose " + hook.row->name));
      return;
    }
    const auto near = nearest(given.name, names_of(hook.row->options));
    std::string all;
    for (const OptionRow& row : hook.row->options) all += (all.empty() ? "" : ", ") + row.name;
    report(given.key, Severity::error, "unknown key '" + given.name + "' in [" + kHookOptionTable + "]",
           "not an option of " + hook.row->name +
               (near ? "; did you mean '" + *near + "'?" : ", which has " + all),
           ProblemKind::unknown_option);
  }

  void complete_options(const Choice& hook) {
    OptionMap& options = config_.ddp.comm_state_option;
    for (const OptionRow& row : hook.row->options) {
      options.emplace(row.name, row.default_value);
      config_.origins.emplace(std::string(kHookOptionTable) + "." + row.name, Origin{});
    }
    if (const auto conflict = find_conflict(hook.name, options)) {
      const auto given = counting_.find(conflict->option);
      const Given* at = given != counting_.end() ? given->second : hook.given;
      report(at ? at->place : Place{}, Severity::error, conflict->problem, conflict->why);
      return;
    }
    const auto start = options.find("start_powerSGD_iter");
    const std::optional<std::int64_t>& steps = config_.training.max_steps;
    if (start == options.end() || !steps || hook.given == nullptr) return;
    const auto* first = std::get_if<std::int64_t>(&start->second);
    if (!first || *first < *steps) return;
    const auto given = counting_.find("start_powerSGD_iter");
    report(given != counting_.end() ? given->second->key : hook.given->place, Severity::warning,
           hook.name + " would never start",
           "start_powerSGD_iter is " + std::to_string(*first) + " and max_steps " + std::to_string(*steps) +
               ": no step is left to compress",
           ProblemKind::never_starts);
  }

  const Collected& collected_;
  const Catalog& catalog_;
  UnknownHooks unknown_;
  RunConfig& config_;
  std::vector<Diagnostic>& diagnostics_;
  std::vector<Choice> choices_;  // the default, then from the weakest source to the strongest
  std::map<std::string, const Given*> counting_;  // by option
};

}  // namespace

void resolve_hook(const Collected& collected, const Catalog& catalog, UnknownHooks unknown, RunConfig& config,
                  std::vector<Diagnostic>& diagnostics) {
  HookResolver(collected, catalog, unknown, config, diagnostics).run();
}

}  // namespace hookline
