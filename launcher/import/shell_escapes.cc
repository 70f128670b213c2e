// The escapes of bash's $'…'.
#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string_view>

#include "launcher/import/shell_lexer.h"

namespace hookline {
namespace {

/// The number whose digits begin at `at`; moves `at` past them.
std::uint32_t number_at(const std::string& text, std::size_t& at, std::size_t most_digits, int base) {
  std::uint32_t number = 0;
  for (const std::size_t end = std::min(at + most_digits, text.size()); at < end; ++at) {
    const auto c = static_cast<unsigned char>(text[at]);
    if (!std::isxdigit(c)) break;
    const int digit = std::isdigit(c) ? c - '0' : std::tolower(c) - 'a' + 10;
    if (digit >= base) break;
    number = number * static_cast<std::uint32_t>(base) + static_cast<std::uint32_t>(digit);
  }
  return number;
}

std::string in_utf8(std::uint32_t code) {
  const auto byte = [](std::uint32_t value) { return static_cast<char>(static_cast<unsigned char>(value)); };
  const auto rest = [&](int bits) { return byte(0x80 | ((code >> bits) & 0x3f)); };
  if (code < 0x80) return {byte(code)};
  if (code < 0x800) return {byte(0xc0 | (code >> 6)), rest(0)};
  if (code < 0x10000) return {byte(0xe0 | (code >> 12)), rest(6), rest(0)};
  return {byte(0xf0 | ((code >> 18) & 0x7)), rest(12), rest(6), rest(0)};
}

}  // namespace

std::string without_ansi_escapes(const std::string& text) {
  static constexpr std::string_view kLetters = "abeEfnrtv\\'\"?", kMeanings = "\a\b\x1b\x1b\f\n\r\t\v\\'\"?";
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      result += text[i++];
      continue;
    }
    const char c = text[i + 1];
    std::size_t at = i + 2;
    if (const std::size_t known = kLetters.find(c); known != kLetters.npos) {
      result += kMeanings[known];
    } else if (c == 'c' && at < text.size()) {
      result += static_cast<char>(text[at++] & 0x1f);
    } else if (c >= '0' && c <= '7') {
      result += static_cast<char>(static_cast<unsigned char>(number_at(text, --at, 3, 8)));
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const std::size_t begin = at;
      const std::uint32_t code = number_at(text, at, c == 'x' ? 2 : c == 'u' ? 4 : 8, 16);
      if (at == begin)
        result += text.substr(i, 2);
      else
        result +=
            c == 'x' ? std::string(1, static_cast<char>(static_cast<unsigned char>(code))) : in_utf8(code);
    } else {
      result += text.substr(i, 2);
    }
    i = at;
  }
  return result.substr(0, result.find('\0'));  // a shell's text ends there
}

}  // namespace hookline
