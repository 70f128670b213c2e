#include <algorithm>
#include <charconv>
#include <iostream>
#include <string>

#include "launcher/wizard/dialog.h"

namespace hookline {

std::string meant(const Question& question, const std::string& text) {
  std::size_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = read.ec == std::errc() && read.ptr == text.data() + text.size();
  const bool picks = is_number && number >= 1 && number <= question.choices.size();
  // If anything may be typed, "2" may be a value itself.
  return picks && !question.may_type ? question.choices[number - 1].value : text;
}

Reply LineDialog::ask(const Question& question, int number, const std::string& problem) {
  if (!problem.empty()) out_ << "   ! " << problem << "\n";
  if (problem.empty()) {
    out_ << "\n" << number << ". " << question.text << "\n";
    if (!question.help.empty()) out_ << "   " << question.help << "\n";
    out_ << "   (" << question.id << ": " << question.accepts << ")\n";
    std::size_t widest = 0;
    for (const Choice& choice : question.choices) widest = std::max(widest, choice.value.size());
    for (std::size_t i = 0; i < question.choices.size(); ++i) {
      std::string value = question.choices[i].value;
      if (!question.choices[i].note.empty()) value.resize(widest + 2, ' ');
      out_ << "   " << (question.may_type ? "-" : std::to_string(i + 1) + ")") << " " << value
           << question.choices[i].note << "\n";
    }
  }
  out_ << "   [" << question.default_value << "] > " << std::flush;
  std::string line;
  if (!std::getline(in_, line)) {
    out_ << "\n" << std::flush;
    return {Reply::Kind::end_of_input, ""};
  }
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!line.empty() && is_space(line.back())) line.pop_back();
  while (!line.empty() && is_space(line.front())) line.erase(0, 1);
  if (!is_person_) out_ << line << "\n";
  if (line == "<") return {Reply::Kind::back, ""};
  return {Reply::Kind::answer, meant(question, line)};
}

}  // namespace hookline
