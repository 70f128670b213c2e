// Reads JSON from outside hookline: from programs, files and other nodes. nlohmann copies, compares and
// writes values recursively, and uses up to 75 bytes of memory per byte of text, so the limits are checked
// before parsing.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "base/error.h"

namespace hookline {

/// The text is not JSON, or exceeds JsonLimits; what() says which: "it nests more than 64 deep".
class JsonError : public Error {
 public:
  using Error::Error;
};

struct JsonLimits {
  std::size_t depth = 64;
  std::size_t values = 1'000'000;  // every comma and every opening bracket counts as one value
};

/// Throws JsonError. `Json`: nlohmann::json or nlohmann::ordered_json. The caller limits the size of `text`.
template <class Json>
Json read_json(std::string_view text, const JsonLimits& limits = {});

/// Like read_json(), but returns a discarded value (see is_discarded()) instead of throwing.
template <class Json>
Json json_or_discarded(std::string_view text, const JsonLimits& limits = {});

}  // namespace hookline
