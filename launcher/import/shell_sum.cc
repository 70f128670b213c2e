#include <algorithm>
#include <cctype>
#include <cstdint>
#include <limits>
#include <string_view>

#include "launcher/import/shell_names.h"
#include "launcher/import/shell_script.h"

namespace hookline {
namespace {

class Sum {
 public:
  explicit Sum(const std::string& text) : text_(text) {}

  bool read(std::int64_t& value) {
    value = terms();
    skip_spaces();
    return is_good_ && at_ == text_.size();
  }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }

  bool take(char c) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  /// `apply`: a builtin that returns whether it overflows.
  std::int64_t checked(std::int64_t left, std::int64_t right, const auto& apply) {
    std::int64_t result = 0;
    if (!apply(left, right, &result)) return result;
    is_good_ = false;
    return 0;
  }
  static bool add(std::int64_t left, std::int64_t right, std::int64_t* to) {
    return __builtin_add_overflow(left, right, to);
  }
  static bool subtract(std::int64_t left, std::int64_t right, std::int64_t* to) {
    return __builtin_sub_overflow(left, right, to);
  }
  static bool multiply(std::int64_t left, std::int64_t right, std::int64_t* to) {
    return __builtin_mul_overflow(left, right, to);
  }
  static bool divide(std::int64_t left, std::int64_t right, std::int64_t* to) {
    if (right <= 0) return true;
    *to = left / right;
    return false;
  }
  static bool take_rest(std::int64_t left, std::int64_t right, std::int64_t* to) {
    if (right <= 0) return true;
    *to = left % right;
    return false;
  }

  std::int64_t terms() {
    std::int64_t value = factors();
    while (is_good_) {
      if (take('+'))
        value = checked(value, factors(), add);
      else if (take('-'))
        value = checked(value, factors(), subtract);
      else
        break;
    }
    return value;
  }

  std::int64_t factors() {
    std::int64_t value = unit();
    while (is_good_) {
      if (take('*'))
        value = checked(value, unit(), multiply);
      else if (take('/'))
        value = checked(value, unit(), divide);
      else if (take('%'))
        value = checked(value, unit(), take_rest);
      else
        break;
    }
    return value;
  }

  std::int64_t unit() {
    if (++depth_ > kDeepest) is_good_ = false;
    std::int64_t value = 0;
    if (!is_good_) {
      return 0;
    } else if (take('(')) {
      value = terms();
      if (!take(')')) is_good_ = false;
    } else if (take('-')) {
      value = checked(0, unit(), subtract);
    } else {
      const std::size_t begin = at_;
      for (; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])); ++at_) {
        constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();  // prevents overflow
        value = value * 10 + (text_[at_] - '0');
        if (value > kMost) is_good_ = false;
        if (!is_good_) return 0;
      }
      // A shell reads 010 as 8, and most people read it as 10.
      const std::size_t digits = at_ - begin;
      if (digits == 0 || (digits > 1 && text_[begin] == '0')) is_good_ = false;
    }
    --depth_;
    return value;
  }

  static constexpr int kDeepest = 50;
  const std::string& text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool is_good_ = true;
};

}  // namespace

std::set<std::string> names_set_by_sum(const std::string& text) {
  std::set<std::string> names;
  const auto after = [&](std::size_t at) { return std::string_view(text).substr(std::min(at, text.size())); };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!is_of_shell_name(text[i])) continue;
    const std::size_t begin = i;
    while (i < text.size() && is_of_shell_name(text[i])) ++i;
    const std::string name = text.substr(begin, i - begin);
    std::size_t end = i--;
    if (std::isdigit(static_cast<unsigned char>(name[0]))) continue;
    const std::size_t former = begin == 0 ? text.npos : text.find_last_not_of(" \t\n", begin - 1);
    bool is_set = former != text.npos && former > 0 && text[former] == text[former - 1] &&
                  (text[former] == '+' || text[former] == '-');
    is_set = is_set || after(end).starts_with("[");  // it does not matter which element of an array is set
    end = std::min(text.find_first_not_of(" \t\n", end), text.size());
    for (const char* sign : {"=", "*=", "/=", "%=", "+=", "-=", "&=", "^=", "|=", "<<=", ">>=", "++", "--"})
      is_set = is_set || (after(end).starts_with(sign) && !after(end).starts_with("=="));
    if (is_set) names.insert(name);
  }
  return names;
}

bool shell_sum(const std::string& text, std::string& value) {
  std::int64_t number = 0;
  if (!Sum(text).read(number)) return false;
  value = std::to_string(number);
  return true;
}

}  // namespace hookline
