// hookline's own messages, on standard error: the launcher's and the ranks'. Thread-safe. A message may have
// several lines; other control characters are escaped (base/text/printable.h), so that no text from elsewhere
// steers a terminal.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace hookline::log {

/// As [logging] level spells them: "debug", "info", "warning", "error".
void set_level(const std::string& level);

void debug(std::string_view message);
void info(std::string_view message);     // hookline: MESSAGE
void warning(std::string_view message);  // hookline: warning: MESSAGE
void error(std::string_view message);    // hookline: error: MESSAGE

/// From now on, messages also escape line breaks inside text taken from `words`, such as a path on the
/// command line. Call it before starting threads.
void escape_line_breaks_of(const std::vector<std::string>& words);

/// While it lives, messages go to `writer` instead: to whoever owns standard error and orders what goes
/// there.
class Redirect {
 public:
  using Writer = std::function<void(std::string_view)>;
  explicit Redirect(Writer writer);
  ~Redirect();
  Redirect(const Redirect&) = delete;
  Redirect& operator=(const Redirect&) = delete;
};

}  // namespace hookline::log
