#include "launcher/rendezvous/messages.h"

#include <nlohmann/json.hpp>

namespace hookline {
namespace {

using Json = nlohmann::json;

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

template <class T>
void put(Json& json, const char* key, const std::optional<T>& value) {
  if (value) json[key] = *value;
}

template <class T>
std::optional<T> take(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() ? std::nullopt : std::optional(found->get<T>());
}

void put_outcome(Json& json, const Outcome& outcome) {
  if (const auto* exited = std::get_if<Exited>(&outcome)) json["exited"] = exited->code;
  if (const auto* signalled = std::get_if<Signalled>(&outcome))
    json["signalled"] = {signalled->signal, signalled->core_dumped};
  if (const auto* stuck = std::get_if<Stuck>(&outcome)) json["stuck"] = stuck->seconds;
}

Outcome outcome_of(const Json& json) {
  if (json.contains("signalled")) return Signalled{json["signalled"].at(0), json["signalled"].at(1)};
  if (json.contains("stuck")) return Stuck{json["stuck"]};
  return Exited{json.at("exited")};
}

Json json_of(const NodeHello& hello) {
  Json json = {{"is", "hello"}, {"host", hello.host}, {"ranks", hello.ranks}, {"config", hello.config}};
  put(json, "node_rank", hello.node_rank);
  return json;
}
Json json_of(const StorePort& port) { return {{"is", "port"}, {"round", port.round}, {"port", port.port}}; }
Json json_of(const NodeFailed& failed) {
  Json json = {{"is", "failed"}, {"round", failed.round}, {"rank", failed.rank}};
  put_outcome(json, failed.outcome);
  put(json, "step", failed.step);
  return json;
}
Json json_of(const NodeEnd& end) {
  Json json = {{"is", "end"}, {"round", end.round}, {"warned", end.warned}, {"report", end.report}};
  put(json, "signal", end.signal);
  return json;
}
Json json_of(const Leave& leave) {
  Json json = {{"is", "leave"}};
  put(json, "signal", leave.signal);
  return json;
}
Json json_of(const Round& round) {
  Json json = {{"is", "round"},
               {"number", round.number},
               {"restarts", round.restarts},
               {"world_size", round.world_size},
               {"members", Json::array()}};
  for (const Member& member : round.members)
    json["members"].push_back({member.node, member.host, member.first_rank, member.ranks});
  return json;
}
Json json_of(const StopRound& stop) { return {{"is", "stop"}, {"round", stop.round}, {"why", stop.why}}; }
Json json_of(const EndRun& end) {
  return {{"is", "end_run"}, {"exit_code", end.exit_code}, {"why", end.why}};
}
Json json_of(const Refuse& refuse) { return {{"is", "refuse"}, {"node", refuse.node}, {"why", refuse.why}}; }
Json json_of(const Say& say) { return {{"is", "say"}, {"text", say.text}}; }

StorePort port_of(const Json& json) { return {json.at("round"), json.at("port")}; }

Round round_of(const Json& json) {
  Round round{json.at("number"), json.at("restarts"), {}, json.at("world_size")};
  for (const Json& member : json.at("members"))
    round.members.push_back({member.at(0), member.at(1), member.at(2), member.at(3)});
  return round;
}

}  // namespace

std::string to_line(const Up& up) {
  Json json = std::visit([](const auto& what) { return json_of(what); }, up.what);
  json["from"] = up.node;
  return dump(json);
}

std::string to_line(const Down& down) {
  return dump(std::visit([](const auto& what) { return json_of(what); }, down));
}

std::optional<Up> up_of(const std::string& line) {
  try {
    const Json json = Json::parse(line);
    const std::string is = json.at("is"), from = json.at("from");
    if (is == "hello")
      return Up{from, NodeHello{json.at("host"), json.at("ranks"), take<int>(json, "node_rank"),
                                json.at("config")}};
    if (is == "port") return Up{from, port_of(json)};
    if (is == "failed")
      return Up{from, NodeFailed{json.at("round"), json.at("rank"), outcome_of(json),
                                 take<std::int64_t>(json, "step")}};
    if (is == "end")
      return Up{from,
                NodeEnd{json.at("round"), take<int>(json, "signal"), json.at("warned"), json.at("report")}};
    if (is == "leave") return Up{from, Leave{take<int>(json, "signal")}};
  } catch (const Json::exception&) {
  }
  return std::nullopt;
}

std::optional<Down> down_of(const std::string& line) {
  try {
    const Json json = Json::parse(line);
    const std::string is = json.at("is");
    if (is == "round") return round_of(json);
    if (is == "port") return port_of(json);
    if (is == "stop") return StopRound{json.at("round"), json.at("why")};
    if (is == "end_run") return EndRun{json.at("exit_code"), json.at("why")};
    if (is == "refuse") return Refuse{json.at("node"), json.at("why")};
    if (is == "say") return Say{json.at("text")};
  } catch (const Json::exception&) {
  }
  return std::nullopt;
}

}  // namespace hookline
