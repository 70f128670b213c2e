#include "parallel/rank/environment.h"

#include <charconv>
#include <cstdlib>

#include "base/error.h"

namespace hookline {

std::optional<std::string> environment_text(const char* name) {
  const char* value = std::getenv(name);
  if (!value || !*value) return std::nullopt;
  return value;
}

int environment_number(const char* name, int least, int most, int otherwise) {
  const auto text = environment_text(name);
  if (!text) return otherwise;
  int value = 0;
  const auto [end, failure] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (failure != std::errc() || end != text->data() + text->size() || value < least || value > most) {
    throw Error(std::string(name) + " is '" + *text + "': it must be a whole number from " +
                std::to_string(least) + " to " + std::to_string(most));
  }
  return value;
}

}  // namespace hookline
