#include "launcher/supervise/error_file.h"

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

namespace hookline {
namespace {

constexpr std::streamsize kLargestBytes = 1 << 20;

std::string text_at(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

std::optional<RankError> read_error_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text(static_cast<std::size_t>(kLargestBytes), '\0');
  in.read(text.data(), kLargestBytes);
  text.resize(static_cast<std::size_t>(in.gcount()));
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("message")) return std::nullopt;
  const nlohmann::json& message = json["message"];
  if (message.is_string()) return RankError{message.get<std::string>(), "", {}};
  if (!message.is_object()) return std::nullopt;
  RankError error{text_at(message, "message"), "", {}};
  if (const auto extra = message.find("extraInfo"); extra != message.end() && extra->is_object()) {
    error.type = text_at(*extra, "type");
    if (const auto step = extra->find("step"); step != extra->end() && step->is_number_integer())
      error.step = step->get<std::int64_t>();
  }
  return error;
}

}  // namespace hookline
