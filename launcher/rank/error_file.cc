#include "launcher/rank/error_file.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/regular_file.h"

namespace hookline {
namespace {

constexpr std::uint64_t kLargestBytes = 1 << 20;
constexpr const char* kNoMessage = "it holds no message in the form that torchelastic writes";

std::string text_at(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

/// The step, if it is not negative: a rank may write any number.
std::optional<std::int64_t> step_in(const nlohmann::json& extra) {
  const auto step = extra.find("step");
  if (step == extra.end() || !step->is_number_unsigned()) return std::nullopt;
  const auto number = step->get<std::uint64_t>();
  constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  return number <= kLargest ? std::optional(static_cast<std::int64_t>(number)) : std::nullopt;
}

std::optional<RankError> error_in(const std::string& text) {
  const nlohmann::json json = json_or_discarded<nlohmann::json>(text);
  if (!json.is_object() || !json.contains("message")) return std::nullopt;
  const nlohmann::json& message = json["message"];
  if (message.is_string()) return RankError{message.get<std::string>(), "", {}};
  if (!message.is_object()) return std::nullopt;
  RankError error{text_at(message, "message"), "", {}};
  if (const auto extra = message.find("extraInfo"); extra != message.end() && extra->is_object()) {
    error.type = text_at(*extra, "type");
    error.step = step_in(*extra);
    error.stack = rank_stack_in(*extra);
  }
  return error;
}

}  // namespace

ErrorFile read_error_file(const std::filesystem::path& file) {
  InputFile in(file, kLargestBytes);
  const std::string text = in.read_all();
  if (in.problem() == FileProblem::missing) return {};
  if (in.problem() != FileProblem::none) return {std::nullopt, in.why()};
  ErrorFile read{error_in(text), ""};
  if (!read.error) read.problem = kNoMessage;
  return read;
}

}  // namespace hookline
