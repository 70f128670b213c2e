#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/printable.h"
#include "launcher/wizard/dialog.h"

namespace hookline {
namespace {

constexpr int kEscapePatienceMs = 50;  // for the rest of an arrow key's bytes

/// While this exists, keys arrive one by one and are not echoed. Ctrl-C arrives as a key, too.
class RawMode {
 public:
  explicit RawMode(int descriptor) : descriptor_(descriptor), is_set_(tcgetattr(descriptor, &former_) == 0) {
    termios raw = former_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG | IEXTEN);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    if (is_set_) tcsetattr(descriptor, TCSADRAIN, &raw);
  }
  ~RawMode() {
    if (is_set_) tcsetattr(descriptor_, TCSADRAIN, &former_);
  }
  RawMode(const RawMode&) = delete;
  RawMode& operator=(const RawMode&) = delete;

 private:
  int descriptor_;
  termios former_{};
  bool is_set_;
};

enum class Key { text, enter, up, down, back, erase, interrupt, end, none };

struct Press {
  Key key = Key::none;
  char byte = 0;
};

class Keyboard {
 public:
  explicit Keyboard(int descriptor) : descriptor_(descriptor) {}

  Press next() const {
    const int byte = read_byte();
    if (byte < 0) return {Key::end, 0};
    switch (byte) {
      case '\r':
      case '\n':
        return {Key::enter, 0};
      case 0x03:
        return {Key::interrupt, 0};
      case 0x04:
        return {Key::end, 0};
      case 0x08:
      case 0x7f:
        return {Key::erase, 0};
      case 0x1b:
        return escape();
      default:
        return byte < 0x20 ? Press{} : Press{Key::text, static_cast<char>(byte)};
    }
  }

 private:
  int read_byte() const {
    unsigned char byte = 0;
    ssize_t count;
    do {
      count = read(descriptor_, &byte, 1);
    } while (count < 0 && errno == EINTR);
    return count == 1 ? byte : -1;
  }

  bool has_more() const {
    pollfd waiting = {descriptor_, POLLIN, 0};
    return poll(&waiting, 1, kEscapePatienceMs) > 0;
  }

  /// "ESC [ A" is an arrow; ESC alone is itself.
  Press escape() const {
    if (!has_more()) return {Key::back, 0};
    const int second = read_byte();
    if (second != '[' && second != 'O') return {};
    int last = read_byte();
    while (last >= '0' && last <= '?') last = read_byte();  // parameters
    if (last == 'A') return {Key::up, 0};
    if (last == 'B') return {Key::down, 0};
    if (last == 'D') return {Key::back, 0};
    return {};
  }

  int descriptor_;
};

/// How many bytes the first `columns` characters have.
std::size_t bytes_of(std::string_view text, std::size_t columns) {
  std::size_t characters = 0, at = 0;
  for (; at < text.size(); ++at) {
    const bool starts_one = (text[at] & 0xC0) != 0x80;
    if (starts_one && characters++ == columns) break;
  }
  return at;
}

/// `text` in lines of at most `columns` characters, folded between words where possible; all but the first
/// are indented.
std::vector<std::string> folded(std::string text, std::size_t columns, std::size_t indent) {
  indent = std::min(indent, columns / 2);
  std::vector<std::string> lines;
  std::string margin;
  while (true) {
    const std::size_t fits = bytes_of(text, columns - margin.size());
    if (fits == text.size()) break;
    const std::size_t space = text.rfind(' ', fits);
    const bool has_words = space != text.npos && text.find_first_not_of(' ') < space;
    lines.push_back(margin + text.substr(0, has_words ? space : fits));
    text.erase(0, has_words ? space + 1 : fits);
    margin.assign(indent, ' ');
  }
  lines.push_back(margin + text);
  return lines;
}

enum class Look { plain, question, detail, chosen, problem };

/// https://no-color.org
bool may_colour() {
  const char* const no = std::getenv("NO_COLOR");
  return !no || !*no;
}

std::string looking(Look look, const std::string& text) {
  static const bool colours = may_colour();
  const char* code = nullptr;
  switch (look) {
    case Look::plain:
      break;
    case Look::question:
      code = "\x1b[1m";
      break;
    case Look::detail:
      code = "\x1b[2m";
      break;
    case Look::chosen:
      code = "\x1b[36m";
      break;
    case Look::problem:
      code = "\x1b[31m";
      break;
  }
  return colours && code ? code + text + "\x1b[0m" : text;
}

struct Line {
  std::string text;
  Look look = Look::plain;
  std::size_t indent = 3;  // of the rows after the first
};

/// Lines of the terminal that are rewritten in place.
class Block {
 public:
  explicit Block(int descriptor) : descriptor_(descriptor) {
    winsize size{};
    if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 10) columns_ = size.ws_col - 1U;
  }

  void show(const std::vector<Line>& lines) { put(drawn(lines)); }

  /// Replaces the block by a line that stays.
  void end(const std::string& line) {
    put(drawn({Line{line}}) + "\r\n");
    lines_ = 0;
  }

 private:
  std::string drawn(const std::vector<Line>& lines) {
    std::string text = back_to_its_start();
    lines_ = 0;
    for (const Line& line : lines)
      for (const std::string& row : folded(printable(line.text), columns_, line.indent))
        text += (lines_++ == 0 ? "" : "\r\n") + looking(line.look, row);
    return text;
  }

  std::string back_to_its_start() const {
    return (lines_ > 1 ? "\x1b[" + std::to_string(lines_ - 1) + "A" : "") + "\r\x1b[J";
  }

  void put(const std::string& text) const {
    for (std::size_t sent = 0; sent < text.size();) {
      const ssize_t count = write(descriptor_, text.data() + sent, text.size() - sent);
      if (count < 0 && errno != EINTR) return;
      if (count > 0) sent += static_cast<std::size_t>(count);
    }
  }

  int descriptor_;
  std::size_t columns_ = 79, lines_ = 0;
};

}  // namespace

Reply ScreenDialog::ask(const Question& question, int number, const std::string& problem) {
  const RawMode raw(in_);
  const Keyboard keyboard(in_);
  Block block(out_);
  std::size_t chosen = 0, widest = 0;
  for (std::size_t i = 0; i < question.choices.size(); ++i) {
    if (question.choices[i].value == question.default_value) chosen = i;
    widest = std::max(widest, question.choices[i].value.size());
  }
  std::string text;
  bool moved = false;
  const auto show = [&] {
    std::vector<Line> lines = {{std::to_string(number) + ". " + question.text, Look::question}};
    if (!question.help.empty()) lines.push_back({"   " + question.help});
    lines.push_back({"   (" + question.id + ": " + question.accepts + ")", Look::detail, 4});
    for (std::size_t i = 0; i < question.choices.size(); ++i) {
      std::string value = question.choices[i].value;
      value.resize(widest + 2, ' ');
      const std::string mark = i == chosen && text.empty() ? " > " : "   ";
      const std::string begin =
          mark + (question.may_type ? std::string() : std::to_string(i + 1) + ") ") + value;
      lines.push_back(
          {begin + question.choices[i].note, mark == " > " ? Look::chosen : Look::plain, begin.size()});
    }
    if (!problem.empty()) lines.push_back({"   ! " + problem, Look::problem, 5});
    lines.push_back({question.choices.empty() ? "   Enter takes the default, Esc goes back, Ctrl-C leaves"
                     : question.may_type
                         ? "   arrows and Enter choose, or type; Esc goes back, Ctrl-C leaves"
                         : "   arrows and Enter choose, or type the number; Esc goes back, Ctrl-C leaves",
                     Look::detail});
    lines.push_back({"   [" + question.default_value + "] > " + text});
    block.show(lines);
  };
  const auto end = [&](Reply reply, const std::string& shown) {
    block.end(std::to_string(number) + ". " + question.id + ": " + shown);
    return reply;
  };
  while (true) {
    show();
    const Press press = keyboard.next();
    switch (press.key) {
      case Key::text:
        text += press.byte;
        break;
      case Key::erase:
        while (!text.empty() && (text.back() & 0xC0) == 0x80) text.pop_back();
        if (!text.empty()) text.pop_back();
        break;
      case Key::up:
      case Key::down:
        if (question.choices.empty()) break;
        chosen =
            (chosen + (press.key == Key::up ? question.choices.size() - 1 : 1)) % question.choices.size();
        text.clear();
        moved = true;
        break;
      case Key::enter: {
        std::string value = meant(question, text);
        if (value.empty() && moved) value = question.choices[chosen].value;
        return end({Reply::Kind::answer, value}, value.empty() ? question.default_value : value);
      }
      case Key::back:
        return end({Reply::Kind::back, ""}, "back");
      case Key::interrupt:
        return end({Reply::Kind::interrupted, ""}, "left");
      case Key::end:
        return end({Reply::Kind::end_of_input, ""}, "left");
      case Key::none:
        break;
    }
  }
}

}  // namespace hookline
