#include "tracking/mlflow_name.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include "tracking/crc32c.h"

namespace hookline {
namespace {

constexpr std::size_t kMostCharacters = 250;
constexpr std::size_t kSuffixCharacters = 9;  // "-4cb5e33f"

struct Range {
  std::uint32_t first, last;
};

/// Letters that Python's \w has included since Unicode 11, so that every server accepts them: Latin, Greek,
/// Cyrillic, Armenian, Hebrew, Arabic, Georgian, Vietnamese, Greek again, Japanese, Chinese, Korean. No
/// combining marks, which \w does not include, and nothing beyond U+FFFF, which not every database takes.
constexpr auto kLetters = std::to_array<Range>(
    {{0xAA, 0xAA},     {0xB2, 0xB3},     {0xB5, 0xB5},     {0xB9, 0xBA},     {0xC0, 0xD6},
     {0xD8, 0xF6},     {0xF8, 0x2C1},    {0x386, 0x386},   {0x388, 0x38A},   {0x38C, 0x38C},
     {0x38E, 0x3A1},   {0x3A3, 0x3F5},   {0x3F7, 0x481},   {0x48A, 0x52F},   {0x531, 0x556},
     {0x561, 0x587},   {0x5D0, 0x5EA},   {0x620, 0x64A},   {0x660, 0x669},   {0x671, 0x6D3},
     {0x6F0, 0x6F9},   {0x10D0, 0x10FA}, {0x1E00, 0x1F15}, {0x3005, 0x3007}, {0x3041, 0x3096},
     {0x30A1, 0x30FA}, {0x30FC, 0x30FE}, {0x3400, 0x4DB5}, {0x4E00, 0x9FEF}, {0xAC00, 0xD7A3}});

bool continues_a_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80; }

/// The first character of `text`: all bytes that it takes in UTF-8, broken or not.
std::string_view first_of(std::string_view text) {
  std::size_t length = 1;
  while (length < text.size() && continues_a_character(text[length])) ++length;
  return text.substr(0, length);
}

bool is_letter(std::string_view character) {
  const auto bits = [&](std::size_t at, std::uint32_t mask) {
    return static_cast<unsigned char>(character[at]) & mask;
  };
  if (character.size() == 1) {
    const char c = character[0];
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  }
  std::uint32_t code = 0;
  if (character.size() == 2 && bits(0, 0xE0) == 0xC0)
    code = bits(0, 0x1F) << 6 | bits(1, 0x3F);
  else if (character.size() == 3 && bits(0, 0xF0) == 0xE0)
    code = bits(0, 0x0F) << 12 | bits(1, 0x3F) << 6 | bits(2, 0x3F);
  const bool is_shortest = character.size() == 2 || code >= 0x800;
  return is_shortest && std::any_of(kLetters.begin(), kLetters.end(), [&](const Range& range) {
           return range.first <= code && code <= range.last;
         });
}

std::string with_characters_taken(std::string_view name) {
  std::string result;
  for (std::string_view rest = name; !rest.empty();) {
    const std::string_view character = first_of(rest);
    const bool is_taken =
        is_letter(character) || std::string_view("_-. /").find(character) != std::string_view::npos;
    result += is_taken ? character : "_";
    rest.remove_prefix(character.size());
  }
  return result;
}

/// MLflow treats names as file paths, and refuses those that can be written shorter or lead outside: replaces
/// empty, "." and ".." parts by "_".
std::string with_path_taken(std::string_view name) {
  std::string result;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (begin > 0) result += '/';
    result += part.empty() || part == "." || part == ".." ? "_" : part;
    begin = end + 1;
  }
  if (result.starts_with("..")) result[0] = '_';
  return result;
}

std::string cut(std::string_view text, std::size_t most_characters) {
  std::string result;
  for (std::size_t count = 0; count < most_characters && !text.empty(); ++count) {
    const std::string_view character = first_of(text);
    result += character;
    text.remove_prefix(character.size());
  }
  return result;
}

}  // namespace

std::string name_for_mlflow(const std::string& name) {
  const std::string taken = cut(with_path_taken(with_characters_taken(name)), kMostCharacters);
  if (taken == name) return name;
  std::array<char, kSuffixCharacters + 1> suffix{};
  std::snprintf(suffix.data(), suffix.size(), "-%08x", static_cast<unsigned>(crc32c(name)));
  return cut(taken, kMostCharacters - kSuffixCharacters) + suffix.data();
}

}  // namespace hookline
