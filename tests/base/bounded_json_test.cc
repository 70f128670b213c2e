#include "base/bounded_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "support/failure.h"

namespace hookline {
namespace {

using Json = nlohmann::json;
using testing::failure_of;

std::string problem(const std::string& text, const JsonLimits& limits = {}) {
  return failure_of<JsonError>([&] { read_json<Json>(text, limits); });
}

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(BoundedJson, ReadsWhatIsWithinItsLimits) {
  EXPECT_EQ(read_json<Json>(R"({"a": [1, "]]]]", {"b\"[[": null}]})"),
            (Json{{"a", {1, "]]]]", {{"b\"[[", nullptr}}}}}));
  EXPECT_EQ(problem(nested(64)), "no error");
  EXPECT_EQ(problem("[1, 2, 3]", {.values = 4}), "no error");
  EXPECT_TRUE(json_or_discarded<Json>("{").is_discarded());
  EXPECT_TRUE(json_or_discarded<Json>(nested(65)).is_discarded());
  EXPECT_EQ(json_or_discarded<nlohmann::ordered_json>(R"({"b": 1, "a": 2})").dump(), R"({"b":1,"a":2})");
}

TEST(BoundedJson, SaysWhichLimitIsExceeded) {
  EXPECT_EQ(problem(nested(65)), "it nests more than 64 deep");
  EXPECT_EQ(problem(std::string(64 << 20, '[')), "it nests more than 64 deep");
  EXPECT_EQ(problem(R"({"a":{"a":{"a":1}}})", {.depth = 2}), "it nests more than 2 deep");
  EXPECT_EQ(problem("[1, 2, 3, 4]", {.values = 4}), "it holds more than 4 values");
  EXPECT_EQ(
      problem("{"),
      "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while parsing object "
      "key - unexpected end of input; expected string literal");
}

}  // namespace
}  // namespace hookline
