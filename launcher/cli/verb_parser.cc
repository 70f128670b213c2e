#include "launcher/cli/verb_parser.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>
#include <optional>
#include <utility>

namespace hookline {
namespace {

class Formatter : public CLI::Formatter {
 public:
  explicit Formatter(std::string usage) : usage_(std::move(usage)) { column_width(36); }
  std::string make_usage(const CLI::App*, std::string) const override { return "Usage: " + usage_ + "\n"; }

 private:
  std::string usage_;
};

Description* asked = nullptr;

/// The number that `text` begins with; `rest` gets the text after it.
std::optional<double> leading_number(const std::string& text, std::string& rest) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number)) return std::nullopt;
  rest.assign(end, text.data() + text.size());
  return number;
}

/// 125M, 1.5B, 4096; nothing if it is not a whole number.
std::optional<double> whole_number(const std::string& text) {
  std::string unit;
  const std::optional<double> number = leading_number(text, unit);
  const double factor = unit.empty()                 ? 1
                        : unit == "K" || unit == "k" ? 1e3
                        : unit == "M"                ? 1e6
                        : unit == "B"                ? 1e9
                                                     : 0;
  if (!number || factor == 0) return std::nullopt;
  const double whole = std::round(*number * factor);
  // 1.1 has no exact double, so a value this close to a whole number counts as one.
  return std::abs(whole - *number * factor) < 1e-6 ? std::optional(whole) : std::nullopt;
}

/// As people write it: 0.5, 4096, 1000000000000.
std::string plain_text(double number) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, number, std::chars_format::fixed).ptr};
}

/// `number`, which was read from `text`, if it is within the limits. Throws UsageError.
double within(std::optional<double> number, const std::string& text, const std::string& flag,
              const std::string& kind, Limits<double> limits) {
  if (number && *number >= limits.least && *number <= limits.most) return *number;
  throw UsageError(flag + " takes a " + kind + " from " + plain_text(limits.least) + " to " +
                   plain_text(limits.most) + ", not '" + text + "'");
}

}  // namespace

Description::Description() { asked = this; }
Description::~Description() { asked = nullptr; }

VerbParser::VerbParser(const std::string& usage, const std::string& summary, const std::string& example)
    : app_(std::make_unique<CLI::App>(summary)), usage_(usage), example_(example) {
  app_->set_help_flag("-h,--help", "Print this and exit");
  app_->formatter(std::make_shared<Formatter>(usage));
  app_->footer("Example:\n  " + example);
}

VerbParser::~VerbParser() = default;

void VerbParser::add_flag(const std::string& flag, bool& given, const std::string& help) {
  app_->add_flag(flag, given, help);
}

void VerbParser::add_text(const std::string& flag, std::string& value, const std::string& value_name,
                          const std::string& help) {
  app_->add_option(flag, value, help)->type_name(value_name);
}

void VerbParser::add_texts(const std::string& flag, std::vector<std::string>& values,
                           const std::string& value_name, const std::string& help) {
  app_->add_option(flag, values, help)->take_all()->allow_extra_args(false)->type_name(value_name);
  repeated_.push_back(flag);
}

void VerbParser::add_number(const std::string& flag, std::int64_t& value, const std::string& value_name,
                            const std::string& help, Limits<std::int64_t> limits) {
  const Limits<double> wide{static_cast<double>(limits.least), static_cast<double>(limits.most)};
  const auto read = [&value, flag, wide](const std::string& text) {
    value = static_cast<std::int64_t>(within(whole_number(text), text, flag, "whole number", wide));
  };
  app_->add_option_function<std::string>(flag, read, help)->type_name(value_name);
}

void VerbParser::add_number(const std::string& flag, double& value, const std::string& value_name,
                            const std::string& help, Limits<double> limits) {
  const auto read = [&value, flag, limits](const std::string& text) {
    std::string rest;
    const std::optional<double> number = leading_number(text, rest);
    value = within(rest.empty() ? number : std::nullopt, text, flag, "number", limits);
  };
  app_->add_option_function<std::string>(flag, read, help)->type_name(value_name);
}

void VerbParser::add_program(std::string& program) {
  add_text("--program", program, "PROG", "Include the hooks that this program registers");
}

void VerbParser::add_plugins(std::vector<std::string>& plugins) {
  add_texts("--plugin", plugins, "FILE", "Include the hooks of this shared library");
}

std::vector<Flag> VerbParser::flags() const {
  std::vector<Flag> result;
  for (const CLI::Option* option : app_->get_options()) {
    const bool takes_value = option->get_items_expected_max() > 0;
    for (const std::string& name : option->get_lnames()) {
      const bool may_repeat = std::find(repeated_.begin(), repeated_.end(), "--" + name) != repeated_.end();
      result.push_back({"--" + name, takes_value, may_repeat || !takes_value});
    }
    for (const std::string& name : option->get_snames())
      result.push_back({"-" + name, takes_value, !takes_value});
  }
  return result;
}

DescribedVerb VerbParser::described() const {
  DescribedVerb verb{usage_, app_->get_description(), example_, {}};
  for (const CLI::Option* option : app_->get_options())
    verb.flags.push_back({option->get_lnames().empty() ? "-" + option->get_snames().front()
                                                       : "--" + option->get_lnames().front(),
                          option->get_items_expected_max() > 0 ? option->get_type_name() : "",
                          option->get_description()});
  return verb;
}

bool VerbParser::parse(const std::vector<std::string>& arguments, PlainArguments plain_arguments) {
  if (asked) {
    asked->verb = described();
    return false;
  }
  SplitArguments split = split_arguments(arguments, flags(), plain_arguments);
  plain_ = std::move(split.plain);
  std::reverse(split.flags.begin(), split.flags.end());  // CLI11 takes them from the end
  try {
    app_->parse(std::move(split.flags));
  } catch (const CLI::CallForHelp&) {
    std::cout << app_->help() << std::flush;
    return false;
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  }
  return true;
}

void VerbParser::expect_plain(const std::string& name, std::size_t least, std::size_t most) const {
  if (plain_.size() < least) throw UsageError("a " + name + " is missing");
  if (plain_.size() > most) throw UsageError("unexpected argument '" + plain_[most] + "'");
}

}  // namespace hookline
