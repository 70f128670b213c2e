#include "launcher/rendezvous/messages.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"

namespace hookline {
namespace {

using SortedJson = nlohmann::json;

std::string dump(const SortedJson& json) {
  return json.dump(-1, ' ', false, SortedJson::error_handler_t::replace);
}

template <class T>
void put(SortedJson& json, const char* key, const std::optional<T>& value) {
  if (value) json[key] = *value;
}

void put_outcome(SortedJson& json, const Outcome& outcome) {
  if (const auto* exited = std::get_if<Exited>(&outcome)) json["exited"] = exited->code;
  if (const auto* signalled = std::get_if<Signalled>(&outcome))
    json["signalled"] = {signalled->signal, signalled->core_dumped};
  if (const auto* stuck = std::get_if<Stuck>(&outcome)) json["stuck"] = {stuck->seconds, stuck->was_waiting};
}

constexpr int kMost = std::numeric_limits<int>::max();
constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
constexpr int kMostExitCode = 255, kMostSignal = 64, kMostPort = 65535;
constexpr double kMostSeconds = 1e9;
constexpr int kMostRounds = 1 << 30;
constexpr int kMostRanks = 1 << 16;  // of a node; an int holds the ranks of 4096 nodes, the most there can be

/// An integer from `least` to `most`. nlohmann's own conversion would truncate numbers, and accept true as 1.
std::int64_t integer_of(const SortedJson& json, std::int64_t least, std::int64_t most) {
  if (!json.is_number_integer() ||
      (json.is_number_unsigned() && json.get<std::uint64_t>() > std::uint64_t{kLargest}))
    throw JsonError("not an integer");
  const auto number = json.get<std::int64_t>();
  if (number < least || number > most) throw JsonError("a number that no node sends");
  return number;
}

int int_in(const SortedJson& json, int least, int most) {
  return static_cast<int>(integer_of(json, least, most));
}

std::optional<int> signal_in(const SortedJson& json) {
  const auto found = json.find("signal");
  return found == json.end() ? std::nullopt : std::optional(int_in(*found, 1, kMostSignal));
}

Outcome outcome_of(const SortedJson& json) {
  if (json.contains("signalled"))
    return Signalled{int_in(json["signalled"].at(0), 1, kMostSignal), json["signalled"].at(1).get<bool>()};
  if (json.contains("stuck")) {
    const auto seconds = json["stuck"].at(0).get<double>();
    if (!(seconds >= 0 && seconds <= kMostSeconds)) throw JsonError("a time that no node waits for");
    return Stuck{seconds, json["stuck"].at(1).get<bool>()};
  }
  return Exited{int_in(json.at("exited"), 0, kMostExitCode)};
}

SortedJson json_of(const NodeHello& hello) {
  SortedJson json = {{"is", "hello"}, {"host", hello.host}, {"ranks", hello.ranks}, {"config", hello.common}};
  put(json, "node_rank", hello.node_rank);
  put(json, "last_round", hello.last_round);
  if (!hello.ranks_address.empty()) json["ranks_address"] = hello.ranks_address;
  return json;
}
SortedJson json_of(const Seated& seated) { return {{"is", "seated"}, {"round", seated.round}}; }
SortedJson json_of(const StorePort& port) {
  return {{"is", "port"}, {"round", port.round}, {"port", port.port}};
}
SortedJson json_of(const NodeFailed& failed) {
  SortedJson json = {{"is", "failed"}, {"round", failed.round}, {"rank", failed.rank}};
  put_outcome(json, failed.outcome);
  put(json, "step", failed.step);
  return json;
}
SortedJson json_of(const NodeEnd& end) {
  SortedJson json = {{"is", "end"}, {"round", end.round}, {"warned", end.warned}, {"report", end.report}};
  put(json, "signal", end.signal);
  put(json, "rank", end.failed_rank);
  put(json, "step", end.step);
  put(json, "furthest", end.furthest);
  return json;
}
SortedJson json_of(const NodePace& pace) {
  return {{"is", "pace"}, {"round", pace.round}, {"rank", pace.rank}, {"busy", pace.busy}};
}
SortedJson json_of(const Leave& leave) {
  SortedJson json = {{"is", "leave"}};
  put(json, "signal", leave.signal);
  return json;
}
SortedJson json_of(const Seat& seat) {
  return {{"is", "seat"},
          {"round", seat.round},
          {"restarts", seat.restarts},
          {"node", seat.node},
          {"nodes", seat.nodes},
          {"first_rank", seat.first_rank},
          {"world_size", seat.world_size},
          {"launch", seat.launch},
          {"main_host", seat.main_host}};
}
SortedJson json_of(const Succession& succession) {
  SortedJson json = {{"is", "succession"},
                     {"round", succession.round},
                     {"restarts", succession.restarts},
                     {"members", succession.members},
                     {"host", succession.host},
                     {"launch", succession.launch},
                     {"failures", succession.failures},
                     {"successors", SortedJson::array()}};
  if (succession.last_failure) json["last_failure"] = json_of(*succession.last_failure);
  put(json, "furthest", succession.furthest);
  for (const Successor& successor : succession.successors)
    json["successors"].push_back(
        {{"node", successor.node}, {"host", successor.host}, {"address", successor.address}});
  return json;
}
SortedJson json_of(const StopRound& stop) {
  return {{"is", "stop"}, {"round", stop.round}, {"why", stop.why}};
}
SortedJson json_of(const EndRun& end) {
  return {{"is", "end_run"}, {"exit_code", end.exit_code}, {"why", end.why}};
}
SortedJson json_of(const Refuse& refuse) { return {{"is", "refuse"}, {"why", refuse.why}}; }
SortedJson json_of(const Rejoin&) { return {{"is", "rejoin"}}; }
SortedJson json_of(const Say& say) {
  return {{"is", "say"}, {"text", say.text}, {"warning", say.is_warning}};
}

int round_in(const SortedJson& json) { return int_in(json.at("round"), 0, kMost); }

StorePort port_of(const SortedJson& json) { return {round_in(json), int_in(json.at("port"), 1, kMostPort)}; }

NodeHello hello_of(const SortedJson& json) {
  NodeHello hello{json.at("host"), int_in(json.at("ranks"), 1, kMostRanks), {}, json.at("config")};
  if (const auto rank = json.find("node_rank"); rank != json.end()) hello.node_rank = int_in(*rank, 0, kMost);
  if (json.contains("last_round")) hello.last_round = int_in(json["last_round"], 1, kMostRounds);
  if (json.contains("ranks_address")) hello.ranks_address = json["ranks_address"];
  return hello;
}

std::optional<std::int64_t> step_in(const SortedJson& json, const char* key = "step") {
  const auto step = json.find(key);
  if (step == json.end()) return std::nullopt;
  return integer_of(*step, std::numeric_limits<std::int64_t>::min(), kLargest);
}

NodeFailed failed_of(const SortedJson& json) {
  return {round_in(json), int_in(json.at("rank"), 0, kMost), outcome_of(json), step_in(json)};
}

NodeEnd end_of(const SortedJson& json) {
  NodeEnd end{round_in(json), signal_in(json), json.at("warned").get<bool>(), json.at("report"), {}};
  if (const auto rank = json.find("rank"); rank != json.end()) end.failed_rank = int_in(*rank, 0, kMost);
  end.step = step_in(json);
  end.furthest = step_in(json, "furthest");
  return end;
}

NodePace pace_of(const SortedJson& json) {
  const auto busy = json.at("busy").get<double>();
  if (!(busy >= 0 && busy <= 1)) throw JsonError("more than all of the time");
  return {round_in(json), int_in(json.at("rank"), 0, kMost), busy};
}

/// Throws JsonError.
SortedJson message_in(const std::string& line) {
  if (line.size() > kLongestMessageBytes) throw JsonError("longer than any message");
  SortedJson json = read_json<SortedJson>(line);
  if (!json.is_object()) throw JsonError("no object");
  return json;
}

Seat seat_of(const SortedJson& json) {
  const int nodes = int_in(json.at("nodes"), 1, kMost), world_size = int_in(json.at("world_size"), 1, kMost);
  return {round_in(json),
          integer_of(json.at("restarts"), 0, kLargest),
          int_in(json.at("node"), 0, nodes - 1),
          nodes,
          int_in(json.at("first_rank"), 0, world_size - 1),
          world_size,
          json.at("launch"),
          json.at("main_host")};
}

Succession succession_of(const SortedJson& json) {
  Succession succession{int_in(json.at("round"), 1, kMostRounds),
                        integer_of(json.at("restarts"), 0, kLargest),
                        int_in(json.at("members"), 1, kMost),
                        json.at("host"),
                        json.at("launch"),
                        int_in(json.at("failures"), 0, kMostFailuresTold),
                        {},
                        step_in(json, "furthest"),
                        {}};
  if (json.contains("last_failure")) succession.last_failure = failed_of(json["last_failure"]);
  if (succession.last_failure.has_value() != (succession.failures > 0))
    throw JsonError("failures without the last one, or the reverse");
  for (const SortedJson& successor : json.at("successors"))
    succession.successors.push_back({successor.at("node"), successor.at("host"), successor.at("address")});
  return succession;
}

}  // namespace

std::string to_line(const Up& up) {
  return dump(std::visit([](const auto& what) { return json_of(what); }, up.what));
}

std::string to_line(const Down& down) {
  return dump(std::visit([](const auto& what) { return json_of(what); }, down));
}

std::optional<Up> up_of(const std::string& node, const std::string& line) {
  try {
    const SortedJson json = message_in(line);
    const std::string is = json.at("is");
    if (is == "hello") return Up{node, hello_of(json)};
    if (is == "seated") return Up{node, Seated{round_in(json)}};
    if (is == "port") return Up{node, port_of(json)};
    if (is == "failed") return Up{node, failed_of(json)};
    if (is == "end") return Up{node, end_of(json)};
    if (is == "pace") return Up{node, pace_of(json)};
    if (is == "leave") return Up{node, Leave{signal_in(json)}};
  } catch (const JsonError&) {
  } catch (const SortedJson::exception&) {
  }
  return std::nullopt;
}

std::optional<Down> down_of(const std::string& line) {
  try {
    const SortedJson json = message_in(line);
    const std::string is = json.at("is");
    if (is == "seat") return seat_of(json);
    if (is == "port") return port_of(json);
    if (is == "succession") return succession_of(json);
    if (is == "stop") return StopRound{round_in(json), json.at("why")};
    if (is == "end_run") return EndRun{int_in(json.at("exit_code"), 0, kMostExitCode), json.at("why")};
    if (is == "refuse") return Refuse{json.at("why")};
    if (is == "rejoin") return Rejoin{};
    if (is == "say") return Say{json.at("text"), json.at("warning")};
  } catch (const JsonError&) {
  } catch (const SortedJson::exception&) {
  }
  return std::nullopt;
}

}  // namespace hookline
