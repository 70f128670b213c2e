#include "launcher/report/results_text.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/bounded_json.h"
#include "launcher/report/headline.h"

namespace hookline {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

/// {"step": […], "seconds": […], "bytes_sent": […], "value": […]}
Json json_of(const std::vector<SeriesPoint>& points) {
  Json json = {{"step", Json::array()},
               {"seconds", Json::array()},
               {"bytes_sent", Json::array()},
               {"value", Json::array()}};
  for (const SeriesPoint& point : points) {
    json["step"].push_back(point.step);
    json["seconds"].push_back(or_null(point.seconds));
    json["bytes_sent"].push_back(or_null(point.bytes_sent));
    json["value"].push_back(point.value);
  }
  return json;
}

Json measures_of(const Trial& trial) {
  Json json = json_or_discarded<Json>(trial.result.measures);
  return json.is_object() ? json : Json::object();
}

/// Measures; one inside another is named like "phase_seconds.forward".
Json flat_measures_of(const Trial& trial) {
  const Json measures = measures_of(trial);
  Json flat = Json::object();
  for (const auto& [name, value] : measures.items()) {
    if (!value.is_object()) {
      flat[name] = value;
      continue;
    }
    for (const auto& [part, of_part] : value.items()) flat[name + "." + part] = of_part;
  }
  return flat;
}

std::string status_of(const TrialResults& results) {
  return results.is_interrupted ? "interrupted" : name_of(results.trial.result.status);
}

/// A trial's results, except for curves and logs.
Json json_of(const TrialResults& results) {
  const Trial& trial = results.trial;
  const bool has_run =
      trial.result.status != TrialStatus::waiting && trial.result.status != TrialStatus::running;
  return {{"id", trial.planned.id},
          {"values", trial.planned.values},
          {"program", trial.planned.program},
          {"repeat", trial.planned.repeat},
          {"baseline", trial.planned.is_baseline},
          {"status", status_of(results)},
          {"reason", trial.result.reason},
          {"seconds", has_run ? Json(trial.result.seconds) : Json(nullptr)},
          {"step", or_null(trial.result.step)},
          {"metric", or_null(trial.result.metric)},
          {"measures", measures_of(trial)}};
}

std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? std::string("\"\"") : std::string(1, c);
  return result + "\"";
}

std::string cell_of(const Json& value) {
  if (value.is_null()) return "";
  return quoted(value.is_string() ? value.get<std::string>() : dumped(value));
}

std::string line_of(const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) line += (i ? "," : "") + cells[i];
  return line + "\r\n";
}

}  // namespace

Json page_data(const SweepResults& results) {
  const SweepFacts& facts = results.facts;
  Json json = {{"name", facts.name},
               {"command", facts.command},
               {"machine", facts.machine},
               {"began", facts.began},
               {"metric", facts.metric},
               {"goal", facts.goal},
               {"metric_value", facts.metric_value},
               {"same", facts.same},
               {"headline", Json::array()},
               {"remarks", results.remarks},
               {"rows", Json::array()},
               {"trials", Json::array()}};
  for (const HeadlineLine& line : headline(results)) {
    Json parts = Json::array();
    for (const HeadlinePart& part : line) parts.push_back(part.row ? Json(*part.row) : Json(part.text));
    json["headline"].push_back(std::move(parts));
  }
  for (std::size_t row = 0; row < results.rows.size(); ++row) {
    Json of_row = json_of(results.rows[row]);
    of_row["label"] = results.labels[row];
    of_row["name"] = results.names[row];
    of_row["own_name"] = results.own_names[row];
    json["rows"].push_back(std::move(of_row));
  }
  for (const TrialResults& each : results.trials) {
    Json trial = json_of(each);
    trial["row"] = each.row;
    trial["series"] = Json::object();
    for (const auto& [name, points] : each.series) trial["series"][name] = json_of(points);
    trial["config"] = each.config;
    trial["log"] = each.log;
    json["trials"].push_back(std::move(trial));
  }
  return json;
}

std::string trials_as_json_lines(const SweepResults& results) {
  std::string text;
  for (const TrialResults& each : results.trials) text += dumped(json_of(each)) + "\n";
  return text;
}

std::string trials_as_csv(const SweepResults& results) {
  static constexpr const char* kPlain[] = {"id",       "status",  "reason", "repeat",
                                           "baseline", "seconds", "step",   "metric"};
  std::set<std::string> values, measures;
  std::vector<Json> measured;
  for (const TrialResults& each : results.trials) {
    for (const auto& [key, value] : each.trial.planned.values) values.insert(key);
    measured.push_back(flat_measures_of(each.trial));
    for (const auto& [name, value] : measured.back().items()) measures.insert(name);
  }
  std::vector<std::string> names(std::begin(kPlain), std::end(kPlain));
  for (const std::string& key : values) names.push_back(quoted(key));
  for (const std::string& name : measures) names.push_back(quoted(name));
  std::string text = line_of(names);
  for (std::size_t i = 0; i < measured.size(); ++i) {
    const Json trial = json_of(results.trials[i]);
    const auto member = [](const Json& object, const std::string& name) {
      const auto found = object.find(name);
      return found == object.end() ? std::string() : cell_of(*found);
    };
    std::vector<std::string> cells;
    for (const char* name : kPlain) cells.push_back(member(trial, name));
    for (const std::string& key : values) cells.push_back(member(trial["values"], key));
    for (const std::string& name : measures) cells.push_back(member(measured[i], name));
    text += line_of(cells);
  }
  return text;
}

}  // namespace hookline
