#include "launcher/import/shell_lexer.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "base/lines.h"
#include "launcher/import/imported.h"
#include "launcher/import/shell_names.h"

namespace hookline {
namespace {

bool ends_word(char c) { return std::string_view(" \t\n;&|()<>").find(c) != std::string_view::npos; }

ImportError not_closed(const std::string& what, int line) {
  return ImportError("line " + std::to_string(line) + ": " + what + " is not closed");
}

constexpr int kDeepestNesting = 100;

ImportError too_deep(int line) {
  return ImportError("line " + std::to_string(line) + ": it nests parentheses deeper than " +
                     std::to_string(kDeepestNesting) + " levels");
}

class Lexer {
 public:
  explicit Lexer(const std::string& text) : text_(text) {}

  std::vector<RawShellCommand> commands() {
    while (!at_end()) {
      const char c = peek();
      if (c == '\\' && peek(1) == '\n') {
        advance(2);
      } else if (c == ' ' || c == '\t' || c == '\r') {
        advance(1);
      } else if (c == '#') {
        while (!at_end() && peek() != '\n') advance(1);
      } else if (c == '\n') {
        end_command("\n");
        advance(1);
        skip_here_documents();
      } else if (c == '<' || c == '>' || (c == '&' && peek(1) == '>')) {
        redirection("");
      } else if (c == '(' && peek(1) == '(' && begins_command() && read_sum()) {
        continue;
      } else if (ends_word(c)) {
        const std::string sign = operator_here();
        if (c == '(' && ++open_parentheses_ > kDeepestNesting) throw too_deep(line_);
        if (c == ')' && open_parentheses_ > 0) --open_parentheses_;
        end_command(sign);
        advance(sign.size());
      } else {
        word_or_redirection();
      }
    }
    end_command("\n");
    commands_.push_back(std::move(command_));
    return std::move(commands_);
  }

  /// Reads the whole text as if it were inside double quotes.
  std::vector<ShellPiece> quoted() {
    std::vector<ShellPiece> pieces;
    while (!at_end()) quoted_piece(pieces);
    return pieces;
  }

 private:
  bool at_end() const { return at_ >= text_.size(); }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  void advance(std::size_t count) {
    for (; count > 0 && !at_end(); --count)
      if (text_[at_++] == '\n') ++line_;
  }

  std::string operator_here() const {
    for (const char* sign : {";;&", ";;", ";&", "&&", "||", "|&"})
      if (std::string_view(text_).substr(at_).starts_with(sign)) return sign;
    return {peek()};
  }

  void end_command(const std::string& sign) {
    if (!command_.words.empty() || !command_.redirections.empty()) {
      command_.after = sign;
      commands_.push_back(std::exchange(command_, {}));
    } else if (sign == "\n") {
      // A line end after "&&" or "|" separates nothing.
      if (command_.before != "&&" && command_.before != "||" && !command_.before.starts_with('|'))
        command_.before = sign;
      return;
    }
    command_.before = sign;
    command_.preceding.push_back(sign);
  }

  bool begins_command() const {
    static const std::set<std::string> kKeywords = {"if", "elif", "while", "until", "for", "then",
                                                    "do", "else", "{",     "!",     "time"};
    return command_.words.empty() ||
           (command_.words.size() == 1 && kKeywords.contains(command_.words[0].text()));
  }

  /// Reads "((N++))". Two nested subshells may begin in the same way: then it reads nothing, and returns
  /// false.
  bool read_sum() {
    const std::size_t begin = at_;
    const int line = line_;
    const std::string text = enclosed('(', ')');
    int depth = 0;
    for (std::size_t i = 0; i + 1 < text.size(); ++i) {
      depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
      if (depth < 2 && i > 0 && i + 2 < text.size()) {
        at_ = begin;
        line_ = line;
        return false;
      }
    }
    RawShellWord opening, sum;
    opening.pieces.push_back({"((", false, false});
    sum.pieces.push_back({text.substr(2, text.size() - 4), false, true});
    if (command_.words.empty()) command_.line = line;
    command_.words.push_back(std::move(opening));
    command_.words.push_back(std::move(sum));
    return true;
  }

  void word_or_redirection() {
    const int line = line_;
    RawShellWord word = read_word();
    const std::string text = word.text();
    const bool is_number = !text.empty() && std::all_of(text.begin(), text.end(),
                                                        [](unsigned char c) { return std::isdigit(c); });
    if (is_number && (peek() == '<' || peek() == '>')) return redirection(text);
    if (peek() == '(' && text.ends_with('=') && !word.pieces.empty() && !word.pieces[0].is_replaced)
      read_array(word);
    if (command_.words.empty()) command_.line = line;
    command_.words.push_back(std::move(word));
  }

  void read_array(RawShellWord& word) {
    const int line = line_;
    word.is_array = in_array_ = true;
    advance(1);
    while (!at_end() && peek() != ')') {
      const char c = peek();
      if (c == '#')
        while (!at_end() && peek() != '\n') advance(1);
      else if (c == '\\' && peek(1) == '\n')
        advance(2);
      else if (ends_word(c) || c == '\r')
        advance(1);
      else
        word.array.push_back(read_word());
    }
    if (at_end()) throw not_closed("the array's (", line);
    in_array_ = false;
    advance(1);
  }

  /// Reads "2>&1", "> out.log" or "<< END". `text`: the number of the file descriptor, if one is written.
  void redirection(std::string text) {
    while (peek() == '<' || peek() == '>' || peek() == '&' || peek() == '|') {
      if (text.ends_with('&') && text.size() > 1) break;
      text += peek();
      advance(1);
    }
    if (peek() == '(') {  // <(command) is a word
      RawShellWord word;
      word.pieces.push_back({text + enclosed('(', ')'), true, false});
      command_.words.push_back(std::move(word));
      return;
    }
    const bool is_here_document = text.ends_with("<<") && !text.ends_with("<<<");
    bool has_tabs = false;
    if (is_here_document && peek() == '-') {
      has_tabs = true;
      advance(1);
    }
    while (peek() == ' ' || peek() == '\t') advance(1);
    if (at_end() || (ends_word(peek()) && peek() != '(')) {
      command_.redirections.push_back(text);
      return;
    }
    const std::string target = read_word().text();
    if (is_here_document) here_documents_.push_back({target, has_tabs, commands_.size()});
    command_.redirections.push_back(text + target);
  }

  void skip_here_documents() {
    for (const auto& [end, has_tabs, command] : std::exchange(here_documents_, {})) {
      std::string text;
      while (!at_end()) {
        const std::size_t line_end = std::min(text_.find('\n', at_), text_.size());
        std::string line = text_.substr(at_, line_end - at_);
        advance(line_end + 1 - at_);
        if (has_tabs) line.erase(0, line.find_first_not_of('\t'));
        if (line == end) break;
        text += line + "\n";
      }
      if (command < commands_.size()) commands_[command].here_documents.push_back(std::move(text));
    }
  }

  RawShellWord read_word() {
    RawShellWord word;
    const auto literal = [&](std::string text, bool is_quoted) {
      word.pieces.push_back({std::move(text), false, is_quoted});
    };
    while (!at_end() && !ends_word(peek()) && peek() != '\r') {
      const char c = peek();
      if (c == '\\' && is_cut()) {
        command_.cut_at_line = line_;
        advance(2);
      } else if (c == '\\') {
        if (peek(1) != '\n') literal(std::string(1, peek(1)), true);
        advance(2);
      } else if (c == '\'') {
        const std::size_t end = text_.find('\'', at_ + 1);
        if (end == text_.npos) throw not_closed("a quotation mark '", line_);
        literal(text_.substr(at_ + 1, end - at_ - 1), true);
        advance(end + 1 - at_);
      } else if (c == '"') {
        const int line = line_;
        advance(1);
        literal("", true);
        while (!at_end() && peek() != '"') quoted_piece(word.pieces);
        if (at_end()) throw not_closed("a quotation mark \"", line);
        advance(1);
      } else if (c == '$' || c == '`') {
        replacement(word.pieces, false);
      } else {
        literal(std::string(1, c), false);
        advance(1);
      }
    }
    return word;
  }

  /// Is the backslash here followed by blanks and a line end, so that the line does not continue as intended?
  bool is_cut() const {
    if (in_array_ || (peek(1) != ' ' && peek(1) != '\t')) return false;
    const std::size_t end = text_.find_first_not_of(" \t", at_ + 1);
    return end == text_.npos || text_[end] == '\n';
  }

  /// Does a command substitution hold only comments? It expands to nothing.
  static bool has_only_comments(const std::string& command) {
    bool has_comment = false;
    for (const std::string_view line : lines_of(command)) {
      const std::size_t begin = line.find_first_not_of(" \t");
      if (begin == line.npos) continue;
      if (line[begin] != '#') return false;
      has_comment = true;
    }
    return has_comment;
  }

  void quoted_piece(std::vector<ShellPiece>& pieces) {
    const char c = peek();
    if (c == '$' || c == '`') return replacement(pieces, true);
    if (c == '\\' && std::string_view("$`\"\\\n").find(peek(1)) != std::string_view::npos) {
      if (peek(1) != '\n') pieces.push_back({std::string(1, peek(1)), false, true});
      return advance(2);
    }
    pieces.push_back({std::string(1, c), false, true});
    advance(1);
  }

  void replacement(std::vector<ShellPiece>& pieces, bool is_quoted) {
    if (peek() == '`') {
      std::size_t end = at_ + 1;
      while (end < text_.size() && text_[end] != '`') end += text_[end] == '\\' ? 2 : 1;
      if (end >= text_.size()) throw not_closed("a `", line_);
      if (!has_only_comments(text_.substr(at_ + 1, end - at_ - 1)))
        pieces.push_back({text_.substr(at_, end + 1 - at_), true, is_quoted});
      return advance(end + 1 - at_);
    }
    const char next = peek(1);
    if (next == '{' || next == '(') {
      advance(1);
      std::string text = "$" + enclosed(next, next == '{' ? '}' : ')');
      pieces.push_back({std::move(text), true, is_quoted});
    } else if (is_of_shell_name(next) && !std::isdigit(static_cast<unsigned char>(next))) {
      std::size_t end = at_ + 1;
      while (end < text_.size() && is_of_shell_name(text_[end])) ++end;
      pieces.push_back({text_.substr(at_, end - at_), true, is_quoted});
      advance(end - at_);
    } else if (next != '\0' && (std::isdigit(static_cast<unsigned char>(next)) ||
                                std::string_view("@*#?$!-").find(next) != std::string_view::npos)) {
      pieces.push_back({text_.substr(at_, 2), true, is_quoted});
      advance(2);
    } else if (next == '\'' && !is_quoted) {
      const std::size_t begin = at_ + 2;
      std::size_t end = begin;
      while (end < text_.size() && text_[end] != '\'') end += text_[end] == '\\' ? 2 : 1;
      if (end >= text_.size()) throw not_closed("a quotation mark $'", line_);
      pieces.push_back({without_ansi_escapes(text_.substr(begin, end - begin)), false, true});
      advance(end + 1 - at_);
    } else if (next == '"' && !is_quoted) {
      advance(1);  // a shell may translate $"…"
    } else {
      pieces.push_back({"$", false, is_quoted});
      advance(1);
    }
  }

  /// The text from `open`, which is next, to the matching `close`, both included.
  std::string enclosed(char open, char close) {
    const int line = line_;
    const std::size_t begin = at_;
    int depth = 0;
    char quote = 0;
    bool is_ansi = false;  // $'…', in which a backslash escapes
    do {
      if (at_end()) throw not_closed(std::string("a ") + open, line);
      const char c = peek();
      if (c == '\\' && (quote != '\'' || is_ansi)) {
        advance(1);
      } else if (quote) {
        if (c == quote) quote = 0;
      } else if (c == '\'' || c == '"') {
        quote = c;
        is_ansi = c == '\'' && at_ > begin && text_[at_ - 1] == '$';
      } else if (c == open) {
        ++depth;
      } else if (c == close) {
        --depth;
      }
      advance(1);
    } while (depth > 0);
    return text_.substr(begin, at_ - begin);
  }

  const std::string& text_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool in_array_ = false;
  RawShellCommand command_;
  std::vector<RawShellCommand> commands_;
  struct HereDocument {
    std::string end;          // the line that ends it
    bool has_tabs = false;    // which precede its lines and do not count
    std::size_t command = 0;  // index of the command that reads it
  };
  std::vector<HereDocument> here_documents_;  // those that begin after this line
  int open_parentheses_ = 0;
};

}  // namespace

std::string RawShellWord::text() const {
  std::string whole;
  for (const ShellPiece& piece : pieces) whole += piece.text;
  return whole;
}

std::vector<RawShellCommand> split_shell_script(const std::string& text) { return Lexer(text).commands(); }

std::vector<ShellPiece> quoted_shell_pieces(const std::string& text) { return Lexer(text).quoted(); }

}  // namespace hookline
