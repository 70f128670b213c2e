#include "launcher/report/page.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "launcher/report/page_parts.h"
#include "launcher/report/results_text.h"

// Includes the file as it is: a compiler would take minutes for it as a literal.
asm(".pushsection .rodata\n"
    "hookline_plotly_begin: .incbin \"" HOOKLINE_PLOTLY
    "\"\n"
    "hookline_plotly_end: .byte 0\n"
    ".popsection\n");
extern "C" const char hookline_plotly_begin[], hookline_plotly_end[];

namespace hookline {
namespace {

/// JSON for a <script>, which a "</script>" in a text would end.
std::string for_script(const nlohmann::ordered_json& json) {
  const std::string text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string result;
  result.reserve(text.size());
  for (const char c : text) result += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return result;
}

std::string for_html(const std::string& text) {
  std::string result;
  for (const char c : text)
    result += c == '<' ? std::string("&lt;") : c == '&' ? std::string("&amp;") : std::string(1, c);
  return result;
}

}  // namespace

std::string report_page(const SweepResults& results, const std::string& made) {
  nlohmann::ordered_json data = page_data(results);
  data["made"] = made;
  data["version"] = HOOKLINE_VERSION;
  const std::string_view plotly(hookline_plotly_begin,
                                static_cast<std::size_t>(hookline_plotly_end - hookline_plotly_begin));
  const std::pair<std::string_view, std::string> parts[] = {
      {"@TITLE@", for_html(results.facts.name.empty() ? "Sweep" : results.facts.name)},
      {"@STYLE@", std::string(kReportStyle)},
      {"@DATA@", for_script(data)},
      {"@PLOTLY@", std::string(plotly)},
      {"@SCRIPT@", std::string(kReportScript)}};
  std::string page;
  std::string_view left = kReportPage;
  for (const auto& [mark, text] : parts) {  // in the order in which the page has them
    const std::size_t at = left.find(mark);
    page += left.substr(0, at);
    page += text;
    left.remove_prefix(at + mark.size());
  }
  return page + std::string(left);
}

}  // namespace hookline
