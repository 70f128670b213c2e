#include "parallel/choice/choice_report.h"

#include <nlohmann/json.hpp>

namespace hookline {
namespace {

nlohmann::ordered_json known(double seconds) {
  return seconds > 0 ? nlohmann::ordered_json(seconds) : nlohmann::ordered_json(nullptr);
}

}  // namespace

nlohmann::ordered_json to_json(const ChoiceReport& report) {
  nlohmann::ordered_json json = {{"chosen", report.chosen.empty() ? nlohmann::ordered_json(nullptr)
                                                                  : nlohmann::ordered_json(report.chosen)},
                                 {"step", report.step},
                                 {"exchanges", report.exchanges},
                                 {"measuring_seconds", report.measuring_seconds},
                                 {"settings", nlohmann::ordered_json::array()}};
  for (const ChoiceReport::Setting& each : report.settings) {
    nlohmann::ordered_json row = {{"name", each.name},
                                  {"hook", each.hook},
                                  {"predicted_seconds", known(each.predicted)},
                                  {"measured_seconds", known(each.measured)}};
    if (each.bucket_bytes > 0) row["bucket_bytes"] = each.bucket_bytes;
    if (each.predicted > 0) {
      row["margin"] = each.margin;
      row["known_by"] = each.how == HookCost::Known::measured ? "measured" : "derived";
    }
    if (each.is_given_up) row["given_up"] = true;
    json["settings"].push_back(std::move(row));
  }
  return json;
}

nlohmann::ordered_json brief_json(const ChoiceReport& report) {
  nlohmann::ordered_json json = {{"chosen", report.chosen.empty() ? nlohmann::ordered_json(nullptr)
                                                                  : nlohmann::ordered_json(report.chosen)}};
  for (const ChoiceReport::Setting& each : report.settings) {
    if (each.name != report.chosen) continue;
    json["predicted_seconds"] = known(each.predicted);
    json["measured_seconds"] = known(each.measured);
  }
  json["no_hook_seconds"] = known(report.settings.at(0).measured);
  return json;
}

}  // namespace hookline
