#include "launcher/import/shell_script.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "launcher/import/imported.h"
#include "launcher/import/shell_lexer.h"
#include "launcher/import/shell_variables.h"

namespace hookline {
namespace {

bool joins(const std::string& sign) { return sign == "&&" || sign == "||" || sign == "|" || sign == "|&"; }

bool is_pipe(const std::string& sign) { return sign == "|" || sign == "|&"; }

bool is_name(const std::string& text) {
  return !text.empty() && !std::isdigit(static_cast<unsigned char>(text[0])) &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

/// Files that set only variables with names of their own: those of virtual environments and of conda.
bool sets_none_of_a_script(const std::string& file) {
  const std::string name = file.substr(file.rfind('/') + 1);
  return name == "activate" || name == "conda.sh" || name == "mamba.sh" || name == "micromamba.sh";
}

/// The same for `eval "$(conda shell.bash hook)"`.
bool is_hook_of_conda(const std::string& text) {
  return text.find("hook") != text.npos &&
         (text.find("conda") != text.npos || text.find("mamba") != text.npos);
}

class ScriptReader {
 public:
  ShellScript read(const std::vector<RawShellCommand>& commands) {
    std::vector<bool> in_background(commands.size() + 1), may_be(commands.size() + 1);
    for (std::size_t i = commands.size(); i-- > 0;) {
      const bool is_joined = joins(commands[i].after) && i + 1 < commands.size();
      in_background[i] = commands[i].after == "&" || (is_joined && in_background[i + 1]);
      may_be[i] = in_background[i] || (is_joined && (may_be[i + 1] || begins_block(commands[i + 1])));
    }
    for (std::size_t i = 0; i < commands.size(); ++i) {
      in_background_ = in_background[i];
      may_be_in_background_ = may_be[i];
      command(commands[i]);
    }
    script_.exports = variables_.take_exports();
    script_.substitutions = variables_.take_substitutions();
    return std::move(script_);
  }

  ShellVariables& variables() { return variables_; }

  /// Does the script have functions or loops, in which a later command may run first?
  bool heeds_later() const { return heeds_later_; }

 private:
  struct Block {
    std::string keyword;    // what begins it: "for", "if", "{" or "("
    std::size_t begin = 0;  // its first command
    bool is_function = false;
    bool at_pattern = false;  // in "case": words are patterns, not commands
  };
  using Words = std::vector<RawShellWord>;

  void command(const RawShellCommand& raw) {
    line_ = raw.line;
    ends_block_ = false;
    for (const std::string& sign : raw.preceding) follow_operator(sign);
    if (ends_block_ && raw.words.empty()) stand_around(raw.after, raw.redirections);
    ends_block_ = false;
    auto word = raw.words.begin();
    bool names_function = false;
    for (; word != raw.words.end(); ++word) {
      if (is_plain(*word, "function") && word + 1 != raw.words.end()) {
        names_function = begins_function_ = true;
        functions_.insert((++word)->text());
      } else if (is_keyword(*word)) {
        follow(word->text());
      } else {
        break;
      }
    }
    if (word == raw.words.end() && ends_block_) stand_around(raw.after, raw.redirections);
    ends_block_ = false;
    const bool is_alone = !joins(raw.before) && !joins(raw.after);
    const bool is_sure = is_in_no_block() && !joins(raw.before) && !(may_be_in_background_ && !is_alone);
    const bool in_function =
        std::any_of(blocks_.begin(), blocks_.end(), [](const Block& block) { return block.is_function; });
    static const std::set<std::string> kLoops = {"for", "while", "until", "select"};
    const bool in_loop = std::any_of(blocks_.begin(), blocks_.end(),
                                     [](const Block& block) { return kLoops.contains(block.keyword); });
    heeds_later_ = heeds_later_ || in_function || in_loop;
    variables_.begin_command(raw.line, script_.commands.size(), is_sure, in_function || in_loop, in_function);
    if (!blocks_.empty() && blocks_.back().at_pattern) return;
    const bool in_subshell = (in_background_ && is_alone) || is_pipe(raw.after);
    if (in_subshell) variables_.begin_subshell();
    run(word, raw, in_function);
    if (in_subshell) variables_.end_subshell(script_.commands.size());
    if (names_function) return;
    begins_function_ = raw.after == "(" && raw.words.end() - word == 1;
    if (begins_function_) functions_.insert(word->text());
  }

  void run(Words::const_iterator word, const RawShellCommand& raw, bool in_function) {
    if (word != raw.words.begin() && (word[-1].text() == "for" || word[-1].text() == "select") &&
        word != raw.words.end() && is_name(word->text()))
      variables_.forget(word->text());
    ShellCommand result;
    result.line = raw.line;
    result.redirections = raw.redirections;
    result.here_documents = raw.here_documents;
    result.cut_at_line = raw.cut_at_line;
    result.in_background = in_background_;
    result.in_function = in_function;
    for (const Block& block : blocks_)
      if (block.keyword != "{" && block.keyword != "(") result.inside.push_back(block.keyword);
    result.into_pipe = is_pipe(raw.after);
    std::vector<ShellAssignment> assignments;
    for (; word != raw.words.end(); ++word) {
      if (auto assignment = assignment_of(*word))
        assignments.push_back(std::move(*assignment));
      else if (!assigns_element(*word))
        break;
    }
    if (word == raw.words.end()) {  // without a command they set variables of the shell itself
      for (const ShellAssignment& each : assignments) variables_.assign(each);
      return;
    }
    for (const ShellAssignment& each : assignments)
      result.assignments.emplace_back(each.name, variables_.one_word(each.value));
    if (is_plain(*word, "((")) return variables_.forget_assigned_in(word[1].text());
    auto named = word;
    while (named + 1 != raw.words.end() && (named->text() == "builtin" || named->text() == "command") &&
           !named[1].text().starts_with('-'))
      ++named;
    static const std::set<std::string> kDeclaring = {"export", "declare", "typeset", "readonly", "local"};
    if (const std::string name = named->text(); kDeclaring.contains(name))
      return declare(named + 1, raw.words.end(), name, in_function);
    const std::size_t before = static_cast<std::size_t>(named - word);
    for (; word != raw.words.end(); ++word)
      result.empty_defaults.merge(variables_.add_fields(*word, result.words));
    if (result.words.empty()) return;
    if (functions_.contains(result.words[0].text)) variables_.call_functions();
    heed_builtin(result.words, std::min(before, result.words.size() - 1));
    script_.commands.push_back(std::move(result));
  }

  static bool is_plain(const RawShellWord& word, const std::string& text) {
    return !word.pieces.empty() && !word.pieces[0].is_quoted && word.text() == text;
  }

  static bool is_keyword(const RawShellWord& word) {
    static const std::set<std::string> kKeywords = {"if",     "then",  "elif", "else", "fi",   "for",
                                                    "while",  "until", "do",   "done", "case", "esac",
                                                    "select", "{",     "}",    "!",    "time"};
    return !word.pieces.empty() && !word.pieces[0].is_quoted && kKeywords.contains(word.text());
  }

  static const std::set<std::string>& beginnings() {
    static const std::set<std::string> kKeywords = {"if", "for", "while", "until", "case", "select", "{"};
    return kKeywords;
  }

  static bool begins_block(const RawShellCommand& raw) {
    return (!raw.preceding.empty() && raw.preceding.back() == "(") ||
           (!raw.words.empty() && beginnings().contains(raw.words[0].text()));
  }

  /// Begins or ends a block. Its commands may not run, or may run more than once.
  void follow(const std::string& keyword) {
    static const std::set<std::string> kEnd = {"fi", "done", "esac", "}"};
    if (beginnings().contains(keyword)) begin_block(keyword);
    if (kEnd.contains(keyword) && !blocks_.empty() && blocks_.back().keyword != "(") end_block();
  }

  void follow_operator(const std::string& sign) {
    const bool in_case = !blocks_.empty() && blocks_.back().keyword == "case";
    if (ends_block_ && sign != "(" && sign != ")") stand_around(sign, {});
    ends_block_ = false;
    if (in_case && sign.starts_with(";") && sign.size() > 1) {
      blocks_.back().at_pattern = true;
    } else if (in_case && sign == ")") {
      blocks_.back().at_pattern = false;
    } else if (sign == "(" && !(in_case && blocks_.back().at_pattern)) {
      begin_block("(");
      variables_.begin_subshell();
    } else if (sign == ")" && !blocks_.empty() && blocks_.back().keyword == "(") {
      const bool is_of_function = begins_function_ && blocks_.back().begin == script_.commands.size();
      end_block();
      variables_.end_subshell(script_.commands.size());
      begins_function_ = is_of_function;
    }
  }

  void begin_block(const std::string& keyword) {
    constexpr std::size_t kDeepestBlock = 100;
    if (blocks_.size() == kDeepestBlock)
      throw ImportError("line " + std::to_string(line_) + ": it nests '" + keyword + "' deeper than " +
                        std::to_string(kDeepestBlock) + " levels");
    blocks_.push_back({keyword, script_.commands.size(), begins_function_, keyword == "case"});
    if (keyword == "{") begins_function_ = false;
  }

  void end_block() {
    closed_ = blocks_.back();
    blocks_.pop_back();
    ends_block_ = true;
    if (closed_.is_function) variables_.end_local_separators();
  }

  /// What follows a block, such as "&" or a redirection, applies to each command in it.
  void stand_around(const std::string& sign, const std::vector<std::string>& redirections) {
    for (std::size_t i = closed_.begin; i < script_.commands.size(); ++i) {
      ShellCommand& command = script_.commands[i];
      command.in_background = command.in_background || sign == "&";
      command.into_pipe = command.into_pipe || is_pipe(sign);
      command.redirections.insert(command.redirections.end(), redirections.begin(), redirections.end());
    }
  }

  /// A subshell counts as no block: its commands run whenever the ones after it do.
  bool is_in_no_block() const { return blocks_.empty() || blocks_.back().keyword == "("; }

  /// Is it "NAME[2]=x"? Then the value of NAME is no longer known.
  bool assigns_element(const RawShellWord& word) {
    const std::string text = word.text();
    const std::size_t open = text.find('['), close = text.find(']');
    if (open == text.npos || close == text.npos || close < open || !is_name(text.substr(0, open)))
      return false;
    const std::string_view rest = std::string_view(text).substr(close + 1);
    if (!rest.starts_with("=") && !rest.starts_with("+=")) return false;
    variables_.forget(text.substr(0, open));
    return true;
  }

  void declare(Words::const_iterator word, Words::const_iterator end, const std::string& command,
               bool in_function) {
    bool is_local = in_function && command != "export" && command != "readonly";
    bool exports = command == "export", removes = false, converts = false, refers = false;
    for (; word != end; ++word) {
      if (const auto assignment = assignment_of(*word)) {
        if (is_local && assignment->name == "IFS") {
          variables_.begin_local_separators();
          continue;
        }
        if (converts) variables_.mark_converted(assignment->name);
        variables_.assign(*assignment);
        if (exports) variables_.mark_exported(assignment->name);
        if (refers) variables_.mark_reference(assignment->name);
        continue;
      }
      if (assigns_element(*word)) continue;
      std::vector<ShellWord> fields;
      variables_.add_fields(*word, fields);
      for (const ShellWord& field : fields) {
        const std::string& text = field.text;
        const std::size_t equals = text.find('=');
        const std::string name = text.substr(0, equals);
        if (text.starts_with("-") || text.starts_with("+")) {
          const auto has = [&](char option) { return text.find(option) != text.npos; };
          exports = exports || (text[0] == '-' && has('x'));
          removes = removes || (text[0] == '+' && has('x')) || (command == "export" && has('n'));
          converts = converts || has('i') || has('l') || has('u') || has('c');
          is_local = is_local && !has('g');
          refers = refers || (command != "export" && has('n'));
        } else if (!is_name(name)) {
          if (field.is_open) variables_.forget_all();  // only a shell knows which variable it sets
        } else if (is_local && name == "IFS") {
          variables_.begin_local_separators();
        } else {
          if (converts) variables_.mark_converted(name);
          if (equals != text.npos && field.is_open)
            variables_.forget(name);
          else if (equals != text.npos)
            variables_.assign({name, false, literal(text.substr(equals + 1))});
          else if (command == "local")
            variables_.forget(name);
          if (removes || exports) variables_.mark_exported(name, !removes);
          if (refers) variables_.mark_reference(name);
        }
      }
    }
  }

  static RawShellWord literal(const std::string& text) {
    RawShellWord word;
    word.pieces.push_back({text, false, true});
    return word;
  }

  /// Follows builtins that change variables. `at`: the index of the builtin's name in `words`.
  void heed_builtin(const std::vector<ShellWord>& words, std::size_t at) {
    const std::string& name = words[at].text;
    const auto arguments = words.begin() + static_cast<std::ptrdiff_t>(at + 1);
    static const std::map<std::string, std::vector<std::string>> kSetting = {
        {"read", {"REPLY"}},
        {"mapfile", {"MAPFILE"}},
        {"readarray", {"MAPFILE"}},
        {"getopts", {"OPTARG", "OPTIND"}},
        {"wait", {}},
        {"printf", {}}};
    if (name == "unset") {
      unset(arguments, words.end());
    } else if (name == "let") {
      for (auto word = arguments; word != words.end(); ++word) variables_.forget_assigned_in(word->text);
    } else if (name == "source" || name == ".") {
      if (arguments == words.end() || !sets_none_of_a_script(arguments->text)) variables_.forget_all();
    } else if (name == "eval") {
      std::string text;
      for (auto word = arguments; word != words.end(); ++word) text += word->text + " ";
      if (!is_hook_of_conda(text)) variables_.forget_all();
      if (text.find("IFS") != text.npos) variables_.forget("IFS");
    } else if (name == "set") {
      export_all(arguments, words.end());
    } else if (const auto setting = kSetting.find(name); setting != kSetting.end()) {
      set_by_option(arguments, words.end(), name);
      for (const std::string& each : setting->second) variables_.forget(each);
    }
  }

  /// Follows `set -a` and `set -o allexport`.
  void export_all(std::vector<ShellWord>::const_iterator word, std::vector<ShellWord>::const_iterator end) {
    for (; word != end && word->text.size() > 1 && word->text != "--"; ++word) {
      const std::string& text = word->text;
      if (text[0] != '-' && text[0] != '+') return;
      const bool is_named = text.ends_with('o') && word + 1 != end;
      if (text.find('a') != text.npos || (is_named && word[1].text == "allexport"))
        variables_.export_all_assigned(text[0] == '-');
      if (is_named) ++word;
    }
  }

  void unset(std::vector<ShellWord>::const_iterator word, std::vector<ShellWord>::const_iterator end) {
    for (; word != end; ++word) {
      if (word->text == "-f") return;
      if (word->text.starts_with('-')) continue;
      const std::string name = word->text.substr(0, word->text.find('['));
      if (word->is_open && !is_name(name))
        variables_.forget_all();
      else if (name.size() < word->text.size())
        variables_.forget(name);
      else if (is_name(name))
        variables_.unset(name);
    }
  }

  /// Forgets what `read -a NAME` or `printf -v NAME` sets: every word that may be a name, even an option's
  /// value.
  void set_by_option(std::vector<ShellWord>::const_iterator word, std::vector<ShellWord>::const_iterator end,
                     const std::string& command) {
    const char option = command == "printf" ? 'v' : command == "wait" ? 'p' : 'a';
    const bool needs_option = command == "printf" || command == "wait";
    for (bool is_name_next = false; word != end; ++word) {
      const std::string& text = word->text;
      const bool is_option = text.size() > 1 && text[0] == '-' && text[1] == option;
      const std::string name = (is_option ? text.substr(2) : text).substr(0, text.find('['));
      const bool may_set = needs_option ? is_name_next || is_option : is_option || !text.starts_with('-');
      if (may_set && is_name(name))
        variables_.forget(name);
      else if (may_set && word->is_open)
        variables_.forget_all();
      is_name_next = is_option;
    }
  }

  ShellScript script_;
  ShellVariables variables_;
  std::vector<Block> blocks_;  // begun and not ended
  std::set<std::string> functions_;
  Block closed_;  // the last one that has ended
  bool ends_block_ = false, begins_function_ = false, heeds_later_ = false;
  bool in_background_ = false, may_be_in_background_ = false;
  int line_ = 0;
};

}  // namespace

ShellScript read_shell_script(const std::string& text) {
  const std::vector<RawShellCommand> commands = split_shell_script(text);
  ScriptReader first;
  const ShellScript script = first.read(commands);
  if (!first.heeds_later()) return script;
  ScriptReader second;
  second.variables().know_changes(first.variables().take_changes());
  return second.read(commands);
}

}  // namespace hookline
