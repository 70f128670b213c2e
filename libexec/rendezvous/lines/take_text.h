// Takes apart a text of the relays', from the beginning on.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace hookline {

/// Cuts `beginning` off `text`; false if it does not begin so.
inline bool take_text(std::string_view& text, std::string_view beginning) {
  if (!text.starts_with(beginning)) return false;
  text.remove_prefix(beginning.size());
  return true;
}

/// Cuts a whole number off the beginning of `text`; nothing if it does not begin with one.
template <typename Number>
std::optional<Number> take_number(std::string_view& text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

}  // namespace hookline
