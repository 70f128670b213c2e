#include "config/recording.h"

#include <cctype>
#include <cstdio>

namespace hookline {
namespace {

std::string step_name(std::int64_t step) {
  char name[40];
  std::snprintf(name, sizeof name, "step%04lld", static_cast<long long>(step));
  return name;
}

/// Removes `prefix` and the number after it from the front of `text`.
std::optional<int> take_number(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  text.remove_prefix(prefix.size());
  int number = 0;
  std::size_t digits = 0;
  for (; digits < text.size() && digits < 8 && std::isdigit(static_cast<unsigned char>(text[digits]));
       ++digits)
    number = 10 * number + (text[digits] - '0');
  if (digits == 0) return std::nullopt;
  text.remove_prefix(digits);
  return number;
}

}  // namespace

std::optional<RecordedFile> parse_recorded_name(std::string_view name) {
  const auto step = take_number(name, "step");
  if (!step) return std::nullopt;
  const auto rank = take_number(name, ".rank");
  if (name != ".safetensors") return std::nullopt;
  return RecordedFile{*step, rank};
}

std::string gradient_file_name(std::int64_t step, int rank) {
  return step_name(step) + ".rank" + std::to_string(rank) + ".safetensors";
}

std::string replayed_file_name(std::int64_t step) { return step_name(step) + ".safetensors"; }

}  // namespace hookline
