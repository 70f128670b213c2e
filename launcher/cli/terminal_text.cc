#include "launcher/cli/terminal_text.h"

#include <unistd.h>

#include "base/text/printable.h"

namespace hookline {
namespace {

constexpr std::size_t kMostWaiting = 1 << 16;
constexpr char kDelete = '\x7f';

/// DEL is the one ASCII control character that JSON strings may hold unescaped; this writes it as JSON and
/// TOML escape it.
std::string shown(const std::string& text) {
  std::string result;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find(kDelete, begin)) != text.npos; begin = end + 1)
    result += printable_lines(std::string_view(text).substr(begin, end - begin)) + "\\u007f";
  return result + printable_lines(std::string_view(text).substr(begin));
}

}  // namespace

TerminalText::TerminalText(std::ostream& out, int descriptor) : out_(out) {
  if (::isatty(descriptor)) behind_ = out_.rdbuf(this);
}

TerminalText::~TerminalText() {
  if (!behind_) return;
  pass_on();
  out_.rdbuf(behind_);
}

TerminalText::int_type TerminalText::overflow(int_type character) {
  if (traits_type::eq_int_type(character, traits_type::eof())) return traits_type::not_eof(character);
  const char one = traits_type::to_char_type(character);
  return xsputn(&one, 1) == 1 ? character : traits_type::eof();
}

std::streamsize TerminalText::xsputn(const char* text, std::streamsize size) {
  waiting_.append(text, static_cast<std::size_t>(size));
  // Passes on whole lines only: a newline is never part of a multi-byte character.
  const std::size_t end = waiting_.rfind('\n');
  if (waiting_.size() < kMostWaiting || end == waiting_.npos) return size;
  const std::string rest = waiting_.substr(end + 1);
  waiting_.resize(end + 1);
  const bool is_written = pass_on();
  waiting_ = rest;
  return is_written ? size : 0;
}

int TerminalText::sync() { return pass_on() && behind_->pubsync() == 0 ? 0 : -1; }

bool TerminalText::pass_on() {
  const std::string text = shown(waiting_);
  waiting_.clear();
  const auto size = static_cast<std::streamsize>(text.size());
  return behind_->sputn(text.data(), size) == size;
}

}  // namespace hookline
