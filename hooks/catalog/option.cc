#include "hooks/catalog/option.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace hookline {
namespace {

std::string bound_text(double bound) {
  char text[64];
  const bool whole = std::floor(bound) == bound && std::abs(bound) < 1e18;
  std::snprintf(text, sizeof text, whole ? "%.0f" : "%g", bound);
  return text;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04X", byte);
      out += escape;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  std::string out(text, end);
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

bool allows(const OptionRow& row, const std::string& text) {
  return row.allowed.empty() || std::count(row.allowed.begin(), row.allowed.end(), text);
}

/// False for NaN and infinity, too.
bool in_range(const OptionRow& row, double value) {
  return std::isfinite(value) && (!row.at_least || value >= *row.at_least) &&
         (!row.at_most || value <= *row.at_most);
}

}  // namespace

std::string type_name(OptionType type) {
  switch (type) {
    case OptionType::boolean:
      return "true or false";
    case OptionType::integer:
      return "an integer";
    case OptionType::number:
      return "a number";
    case OptionType::text:
      return "a string";
    case OptionType::texts:
      return "an array of strings";
  }
  return "a string";
}

std::string to_text(const OptionValue& value) {
  if (const auto* boolean = std::get_if<bool>(&value)) return *boolean ? "true" : "false";
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return std::to_string(*integer);
  if (const auto* number = std::get_if<double>(&value)) return number_text(*number);
  if (const auto* text = std::get_if<std::string>(&value)) return quoted(*text);
  std::string list;
  for (const std::string& text : std::get<std::vector<std::string>>(value))
    list += (list.empty() ? "" : ", ") + quoted(text);
  return "[" + list + "]";
}

std::string allowed_text(const OptionRow& row) {
  std::string text = type_name(row.type);
  if (row.at_least && row.at_most) {
    text += " from " + bound_text(*row.at_least) + " to " + bound_text(*row.at_most);
  } else if (row.at_least) {
    text += ", at least " + bound_text(*row.at_least);
  } else if (row.at_most) {
    text += ", at most " + bound_text(*row.at_most);
  }
  if (!row.allowed.empty()) {
    text = row.type == OptionType::texts ? "an array of " : "one of ";
    for (const std::string& word : row.allowed)
      text += (&word == &row.allowed.front() ? "" : ", ") + quoted(word);
  }
  if (row.or_word) text += ", or " + quoted(*row.or_word);
  if (row.or_integer) text += ", or an integer";
  return text;
}

std::optional<OptionValue> check_value(const OptionRow& row, const OptionValue& value, std::string& problem) {
  const auto* text = std::get_if<std::string>(&value);
  if (text && row.or_word && *text == *row.or_word) return value;
  const auto* integer = std::get_if<std::int64_t>(&value);
  const auto* number = std::get_if<double>(&value);
  switch (row.type) {
    case OptionType::boolean:
      if (std::holds_alternative<bool>(value)) return value;
      break;
    case OptionType::integer:
      if (integer && in_range(row, static_cast<double>(*integer))) return value;
      break;
    case OptionType::number:
      if (integer && in_range(row, static_cast<double>(*integer))) return static_cast<double>(*integer);
      if (number && in_range(row, *number)) return value;
      break;
    case OptionType::text:
      if (integer && row.or_integer) return std::to_string(*integer);
      if (text && allows(row, *text)) return value;
      break;
    case OptionType::texts:
      if (const auto* texts = std::get_if<std::vector<std::string>>(&value);
          texts && std::all_of(texts->begin(), texts->end(),
                               [&](const std::string& each) { return allows(row, each); }))
        return value;
      break;
  }
  problem =
      std::string("must be ") + (number && !std::isfinite(*number) ? "finite: " : "") + allowed_text(row);
  return std::nullopt;
}

}  // namespace hookline
