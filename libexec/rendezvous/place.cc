#include "libexec/rendezvous/place.h"

#include <cstdint>
#include <nlohmann/json.hpp>

namespace hookline {

RelayPlace place_of(const std::string& text) {
  const auto json = nlohmann::json::parse(text);
  const auto time = [&](const char* key) {
    return std::chrono::milliseconds(static_cast<std::int64_t>(1000 * json.at(key).get<double>()));
  };
  return {json.at("alone"),
          json.at("serves"),
          json.at("may_join"),
          json.at("address"),
          json.at("name"),
          json.at("node"),
          json.at("port"),
          json.at("descriptor"),
          json.at("ticket"),
          time("join_seconds"),
          time("node_timeout_seconds")};
}

}  // namespace hookline
