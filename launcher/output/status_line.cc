#include "launcher/output/status_line.h"

#include <sys/ioctl.h>

#include <algorithm>

#include "base/log.h"

namespace hookline {
namespace {

constexpr std::chrono::milliseconds kRedraw{250};

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

}  // namespace

int columns_of(int terminal) {
  winsize size = {};
  return ioctl(terminal, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

std::string cut_to_columns(const std::string& text, int columns, const std::string& separator) {
  int seen = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!begins_character(text[i]) || ++seen <= columns) continue;
    const std::size_t part = i < separator.size() ? text.npos : text.rfind(separator, i);
    return text.substr(0, part == text.npos ? i : part);
  }
  return text;
}

StatusLine::StatusLine(OutputQueue& error, Form form, std::chrono::duration<double> interval)
    : error_(error), form_(form) {
  constexpr std::chrono::duration<double> kLongest = std::chrono::hours(24 * 365);
  interval_ = form == Form::live ? kRedraw
                                 : std::chrono::duration_cast<Clock::duration>(std::min(interval, kLongest));
  due_ = form == Form::none ? Clock::time_point::max() : Clock::now() + interval_;
}

void StatusLine::show(const std::string& text, bool has_news, Clock::time_point now) {
  due_ = now + interval_;
  if (form_ == Form::plain) {
    if (has_news) log::info(text);
    return;
  }
  if (!error_.is_empty()) return;  // the terminal does not keep up
  // One column stays free: some terminals start a new line as soon as the last column is written.
  const std::string line = cut_to_columns(text, columns_of(error_.descriptor()) - 1, " · ");
  error_.write_as_it_is("\r\x1b[2K" + line);
  shown_ = true;
}

void StatusLine::erase() {
  if (!shown_) return;
  shown_ = false;
  due_ = Clock::now();  // show it again once the other output is written
  error_.write_as_it_is("\r\x1b[2K");
}

}  // namespace hookline
