// Keeps foreign text from steering a terminal, whichever verb prints it.
#pragma once

#include <ostream>
#include <streambuf>
#include <string>

namespace hookline {

/// While it lives, what is written to `out` goes through printable_lines (base/text/printable.h) if
/// `descriptor`, where it ends up, is a terminal. A pipe or a file gets the bytes as they are: a value, a job
/// or a page, for another program.
class TerminalText : private std::streambuf {
 public:
  TerminalText(std::ostream& out, int descriptor);
  ~TerminalText() override;
  TerminalText(const TerminalText&) = delete;
  TerminalText& operator=(const TerminalText&) = delete;

 private:
  int_type overflow(int_type character) override;
  std::streamsize xsputn(const char* text, std::streamsize size) override;
  int sync() override;
  bool pass_on();

  std::ostream& out_;
  std::streambuf* behind_ = nullptr;  // none: `out` is left alone
  std::string waiting_;               // until it is flushed: a character may come in parts
};

}  // namespace hookline
