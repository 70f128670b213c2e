#include "launcher/cli/line_diff.h"

#include <algorithm>
#include <vector>

#include "base/lines.h"

namespace hookline {
namespace {

constexpr std::size_t kAround = 3;

struct DiffStep {
  char sign;  // ' ', '-' or '+'
  std::string_view line;
  std::size_t before, after;  // lines of each text in front of it
};

/// The shortest way from one to the other, by their longest common subsequence.
std::vector<DiffStep> steps_between(const std::vector<std::string_view>& a,
                                    const std::vector<std::string_view>& b) {
  std::vector<std::vector<int>> common(a.size() + 1, std::vector<int>(b.size() + 1, 0));
  for (std::size_t i = a.size(); i-- > 0;)
    for (std::size_t j = b.size(); j-- > 0;)
      common[i][j] = a[i] == b[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
  std::vector<DiffStep> steps;
  std::size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) {
      steps.push_back({' ', a[i], i, j});
      ++i, ++j;
    } else if (i < a.size() && (j == b.size() || common[i + 1][j] >= common[i][j + 1])) {
      steps.push_back({'-', a[i], i, j});
      ++i;
    } else {
      steps.push_back({'+', b[j], i, j});
      ++j;
    }
  }
  return steps;
}

std::string range(std::size_t first, std::size_t count) {
  return std::to_string(count == 0 ? first : first + 1) + (count == 1 ? "" : "," + std::to_string(count));
}

}  // namespace

std::string line_diff(std::string_view before, std::string_view after, const std::string& file) {
  const std::vector<DiffStep> steps = steps_between(lines_of(before), lines_of(after));
  const auto is_change = [](const DiffStep& step) { return step.sign != ' '; };
  std::string text;
  for (auto next = std::find_if(steps.begin(), steps.end(), is_change); next != steps.end();) {
    const auto begin = next - std::min<std::ptrdiff_t>(kAround, next - steps.begin());
    // Changes with few lines between them are shown together.
    auto end = next;
    for (auto change = next;
         change != steps.end() && change - end <= static_cast<std::ptrdiff_t>(2 * kAround);
         change = std::find_if(end, steps.end(), is_change))
      end = change + 1;
    next = std::find_if(end, steps.end(), is_change);
    end += std::min<std::ptrdiff_t>(kAround, steps.end() - end);
    const auto lines_with = [&](char sign) {
      return static_cast<std::size_t>(std::count_if(
          begin, end, [&](const DiffStep& step) { return step.sign == ' ' || step.sign == sign; }));
    };
    if (text.empty()) text = "--- " + file + "\n+++ " + file + "\n";
    text += "@@ -" + range(begin->before, lines_with('-')) + " +" + range(begin->after, lines_with('+')) +
            " @@\n";
    for (auto step = begin; step != end; ++step) text += step->sign + std::string(step->line) + "\n";
  }
  return text;
}

}  // namespace hookline
