#include "launcher/output/status_line.h"

#include <algorithm>

#include "base/log.h"

namespace hookline {
namespace {

constexpr std::chrono::milliseconds kRedraw{250};

}  // namespace

StatusLine::StatusLine(OutputQueue& error, Form form, std::chrono::duration<double> interval)
    : error_(error), form_(form), line_(error.descriptor(), " · ", [&error](std::string_view text) {
        error.write_without_callback(text);
      }) {
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
  line_.show(text);
}

void StatusLine::erase() {
  if (line_.erase()) due_ = Clock::now();  // show it again once the other output is written
}

}  // namespace hookline
