#include "base/bounded_json.h"

#include <nlohmann/json.hpp>
#include <string>

namespace hookline {
namespace {

/// Throws JsonError if `text` exceeds the limits: counts depth and values as the parser would meet them. What
/// follows a syntax error does not matter, since the parser stops there.
void check(std::string_view text, const JsonLimits& limits) {
  std::size_t depth = 0, values = 1;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
      continue;
    }
    switch (c) {
      case '"':
        in_string = true;
        break;
      case '[':
      case '{':
        if (++depth > limits.depth)
          throw JsonError("it nests more than " + std::to_string(limits.depth) + " deep");
        ++values;
        break;
      case ']':
      case '}':
        if (depth > 0) --depth;
        break;
      case ',':
        ++values;
        break;
      default:
        break;
    }
    if (values > limits.values)
      throw JsonError("it holds more than " + std::to_string(limits.values) + " values");
  }
}

}  // namespace

template <class Json>
Json read_json(std::string_view text, const JsonLimits& limits) {
  check(text, limits);
  try {
    return Json::parse(text);
  } catch (const nlohmann::detail::exception& error) {
    throw JsonError(error.what());
  }
}

template <class Json>
Json json_or_discarded(std::string_view text, const JsonLimits& limits) {
  try {
    return read_json<Json>(text, limits);
  } catch (const JsonError&) {
    return Json(Json::value_t::discarded);
  }
}

template nlohmann::json read_json(std::string_view, const JsonLimits&);
template nlohmann::ordered_json read_json(std::string_view, const JsonLimits&);
template nlohmann::json json_or_discarded(std::string_view, const JsonLimits&);
template nlohmann::ordered_json json_or_discarded(std::string_view, const JsonLimits&);

}  // namespace hookline
