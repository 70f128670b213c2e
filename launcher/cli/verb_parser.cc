#include "launcher/cli/verb_parser.h"

#include <algorithm>
#include <iostream>
#include <memory>
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

}  // namespace

Description::Description() { asked = this; }
Description::~Description() { asked = nullptr; }

VerbParser::VerbParser(const std::string& usage, const std::string& summary, const std::string& example)
    : app_(summary), usage_(usage), example_(example) {
  app_.set_help_flag("-h,--help", "Print this and exit");
  app_.formatter(std::make_shared<Formatter>(usage));
  app_.footer("Example:\n  " + example);
}

void VerbParser::add_assignments(const std::string& flag, std::vector<std::string>& values,
                                 const std::string& help) {
  app_.add_option(flag, values, help)->take_all()->allow_extra_args(false)->type_name("KEY=VALUE");
  repeated_.push_back(flag);
}

void VerbParser::add_program(std::string& program) {
  app_.add_option("--program", program, "Include the hooks that this program registers")->type_name("PROG");
}

void VerbParser::add_plugins(std::vector<std::string>& plugins) {
  app_.add_option("--plugin", plugins, "Include the hooks of this shared library")
      ->take_all()
      ->allow_extra_args(false)
      ->type_name("FILE");
  repeated_.push_back("--plugin");
}

std::vector<Flag> VerbParser::flags() const {
  std::vector<Flag> result;
  for (const CLI::Option* option : app_.get_options()) {
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
  DescribedVerb verb{usage_, app_.get_description(), example_, {}};
  for (const CLI::Option* option : app_.get_options())
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
  std::reverse(split.flags.begin(), split.flags.end());  // the order that CLI11 pops them in
  try {
    app_.parse(std::move(split.flags));
  } catch (const CLI::CallForHelp&) {
    std::cout << app_.help() << std::flush;
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
