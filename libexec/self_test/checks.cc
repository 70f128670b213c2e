#include "libexec/self_test/checks.h"

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/regular_file.h"
#include "base/text/bytes_text.h"
#include "base/text/count_text.h"
#include "base/text/duration_text.h"
#include "base/text/printable.h"

namespace hookline {
namespace {

constexpr std::size_t kVerdict = 9, kName = 27, kIndent = kVerdict + kName;  // columns
constexpr std::size_t kMostLinksShown = 28;                                  // all pairs of eight ranks

const char* name_of(Verdict verdict) {
  return verdict == Verdict::ok ? "ok" : verdict == Verdict::warning ? "warning" : "failed";
}

std::string padded(std::string text, std::size_t width) {
  const auto begins_character = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
  const auto has = static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_character));
  text.append(has < width ? width - has : 1, ' ');
  return text;
}

std::string indented(const std::string& text, const std::string& indent) {
  std::string result;
  for (const char c : printable_lines(text)) {
    result += c;
    if (c == '\n') result += indent;
  }
  return result;
}

}  // namespace

Report::Report(Form form, std::ostream& out, std::filesystem::path file)
    : form_(form), out_(out), file_(std::move(file)) {}

void Report::expect(std::size_t checks) {
  const std::lock_guard lock(mutex_);
  expected_ = checks;
}

void Report::print(const Check& check) {
  if (form_ != Form::text) return;
  const std::string indent(kIndent, ' ');
  out_ << padded(name_of(check.verdict), kVerdict) << padded(printable(check.name), kName)
       << indented(check.found, indent) << "\n";
  if (!check.advice.empty()) out_ << indent << "-> " << indented(check.advice, indent + "   ") << "\n";
  out_ << std::flush;
}

void Report::add(const Check& check) {
  const std::lock_guard lock(mutex_);
  checks_.push_back(check);
  print(check);
  write("unfinished");
}

void Report::add(const std::vector<Link>& links) {
  const std::lock_guard lock(mutex_);
  links_ = links;
  if (form_ != Form::text) return;
  for (std::size_t i = 0; i < links.size() && i < kMostLinksShown; ++i) {
    const Link& link = links[i];
    out_ << std::string(kVerdict, ' ')
         << padded("  rank " + std::to_string(link.from) + " - " + std::to_string(link.to), kName)
         << padded(duration_text(std::chrono::duration<double>(link.latency_seconds)), 10)
         << padded(rate_text(link.bytes_per_second), 12) << (link.same_node ? "on one host" : "between hosts")
         << "\n";
  }
  if (links.size() > kMostLinksShown)
    out_ << "           and " << links.size() - kMostLinksShown << " more: --json shows all\n";
  out_ << std::flush;
}

void Report::add(const HookTime& hook) {
  const std::lock_guard lock(mutex_);
  hooks_.push_back(hook);
}

/// Writes another file and renames it, so that readers always find a complete report.
void Report::write(const std::string& verdict) {
  if (file_.empty()) return;
  nlohmann::ordered_json json;
  json["verdict"] = verdict;
  json["checks"] = nlohmann::ordered_json::array();
  for (const Check& check : checks_) {
    json["checks"].push_back({{"name", check.name},
                              {"verdict", name_of(check.verdict)},
                              {"found", check.found},
                              {"advice", check.advice}});
  }
  json["not_tried"] = not_tried();
  json["links"] = nlohmann::ordered_json::array();
  for (const Link& link : links_) {
    json["links"].push_back({{"from", link.from},
                             {"to", link.to},
                             {"same_node", link.same_node},
                             {"latency_seconds", link.latency_seconds},
                             {"bytes_per_second", link.bytes_per_second}});
  }
  json["hooks"] = nlohmann::ordered_json::array();
  for (const HookTime& hook : hooks_) {
    json["hooks"].push_back({{"hook", hook.hook},
                             {"wrapper", hook.wrapper},
                             {"relative_error", hook.relative_error},
                             {"seconds", hook.seconds},
                             {"bytes_sent", hook.bytes_sent}});
  }
  // A system message may hold bytes of any encoding.
  const std::string problem =
      replace_regular_file(file_, json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  if (problem.empty()) return;
  std::cerr << "hookline test: the report can't be written to '" << printable(file_.string())
            << "': " << problem << "\n";
  file_.clear();
}

int Report::finish() {
  const std::lock_guard lock(mutex_);
  const auto count = [&](Verdict verdict) {
    return std::count_if(checks_.begin(), checks_.end(),
                         [&](const Check& check) { return check.verdict == verdict; });
  };
  const auto failed = count(Verdict::failed), warnings = count(Verdict::warning);
  write(name_of(failed ? Verdict::failed : warnings ? Verdict::warning : Verdict::ok));
  if (form_ == Form::text) {
    std::string words = failed     ? count_text(failed, "check") + " failed"
                        : warnings ? "runs will work, with " + count_text(warnings, "warning")
                                   : "all is well";
    if (failed && warnings) words += ", " + count_text(warnings, "warning");
    if (not_tried()) words += ", " + std::to_string(not_tried()) + " not tried";
    out_ << "\n" << count_text(checks_.size(), "check") << ": " << words << "\n" << std::flush;
  }
  return failed ? 1 : 0;
}

}  // namespace hookline
