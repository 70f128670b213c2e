// JSON from outside: a program's, a file's, another node's. nlohmann's values are copied, compared and written by recursion, and
// take up to 75 bytes of memory for one of text, so a text is looked through before it becomes a value.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "base/error.h"

namespace hookline {

/// Text that is no JSON, or more of it than is read; what() says which: "it nests more than 64 deep".
class JsonError : public Error {
 public:
  using Error::Error;
};

struct JsonLimits {
  std::size_t depth = 64;
  std::size_t values = 1'000'000;  // of all kinds; for one, a comma and a bracket count
};

/// Throws JsonError. `Json`: nlohmann::json or nlohmann::ordered_json. The caller limits the size of `text`.
template <class Json>
Json read_json(std::string_view text, const JsonLimits& limits = {});

/// The same for callers to whom text that can't be read is as good as none: is_discarded() of it then.
template <class Json>
Json json_or_discarded(std::string_view text, const JsonLimits& limits = {});

}  // namespace hookline
