#include "launcher/cli/advice/advice.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/bounded_json.h"
#include "base/error.h"
#include "base/regular_file.h"
#include "base/text/bytes_text.h"
#include "base/text/count_text.h"
#include "base/text/duration_text.h"
#include "base/text/number_text.h"
#include "base/text/printable.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/output/columns.h"
#include "prediction/choice_rule.h"
#include "prediction/measured_step.h"
#include "prediction/network.h"

namespace hookline {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kLargestAdviceBytes = 64 << 20;
constexpr std::size_t kLeastNameWidth = 38, kTimeWidth = 13;

std::string padded(std::string text, std::size_t width) {
  text.append(width - std::min(width, width_of(text)), ' ');
  return text;
}

std::string time_of(const Json& seconds) {
  return seconds.is_null() ? "" : duration_text(std::chrono::duration<double>(seconds.get<double>()));
}

/// Predicts the run of `model` on the ranks and the link that `asked` names.
Json elsewhere(const Json& model, const AskedFor& asked) {
  const MeasuredStep step = measured_step_from_json(model.at("measured_step").dump());
  const auto ranks = model.at("ranks").get<double>(), hosts = model.at("hosts").get<double>();
  const double wanted = asked.ranks ? static_cast<double>(*asked.ranks) : ranks;
  if (!asked.link && hosts < 2 && wanted != ranks)
    throw UsageError("--ranks " + std::to_string(*asked.ranks) + " differs from the " +
                     std::to_string(static_cast<std::int64_t>(ranks)) +
                     " ranks of this host: to predict for " + std::to_string(*asked.ranks) +
                     " ranks, name a network, as in --link 1gbit,0.2ms");
  const double on_each = ranks / hosts;
  // With one host measured and a link given, each rank is assumed to be on a host of its own.
  const bool is_spread = asked.link && hosts < 2;
  const double hosts_then = std::max(1.0, std::ceil(wanted / (is_spread ? 1 : on_each)));
  Machine machine{step.machine.cores, {}, {}};
  for (const auto& [from, to] :
       {std::pair{&step.machine.full, &machine.full}, {&step.machine.half, &machine.half}}) {
    Network network = network_of(hosts, *from);
    if (asked.link) network = {hosts, asked.link->bits_per_second / 8, asked.link->latency_seconds};
    network.hosts = hosts_then;
    // Time inside a host: none with one rank a host, the measured time if only one host was measured, else
    // the time for which a core was busy.
    std::vector<CollectiveTime> inside;
    for (const CollectiveTime& each : from->measured())
      inside.push_back({each.bytes,
                        is_spread   ? 0
                        : hosts < 2 ? each.seconds
                                    : std::min(each.busy_seconds, each.seconds),
                        each.busy_seconds});
    *to = all_reduces_on(network, inside.empty() ? CollectiveTimes() : CollectiveTimes(std::move(inside)));
  }
  const Elsewhere seconds = predicted_elsewhere(step, machine);
  Json result = {{"ranks", static_cast<std::int64_t>(wanted)},
                 {"hosts", static_cast<std::int64_t>(hosts_then)},
                 {"link", nullptr},
                 {"best", "no hook"},
                 {"settings", {{{"name", "no hook"}, {"predicted_seconds", seconds.no_hook}}}}};
  if (asked.link)
    result["link"] = {{"bits_per_second", asked.link->bits_per_second},
                      {"latency_seconds", asked.link->latency_seconds}};
  std::vector<double> all{seconds.no_hook};
  for (std::size_t i = 0; i < step.settings.size(); ++i) {
    all.push_back(seconds.settings[i]);
    result["settings"].push_back(
        {{"name", step.settings[i].name}, {"predicted_seconds", seconds.settings[i]}});
  }
  result["best"] = result["settings"][choose(all, 0)]["name"];
  return result;
}

/// Null if there is none.
const Json* row_named(const Json& model, const Json& name) {
  for (const Json& row : model["settings"])
    if (row["name"] == name) return &row;
  return nullptr;
}

/// The measured seconds, else the predicted ones; infinity if there are neither.
double seconds_of(const Json& row) {
  const Json& measured = row.value("measured_seconds", Json());
  const Json& seconds = measured.is_null() ? row.value("predicted_seconds", Json()) : measured;
  return seconds.is_null() ? std::numeric_limits<double>::infinity() : seconds.get<double>();
}

/// A setting with other buckets than the config's is worth a row only if it is the best, or saves more than
/// ChoiceRule::least_gain of the step time of `as_configured`, its row with the config's buckets.
bool is_worth_showing(const Json& row, const Json& as_configured, const Json& model, const Json* there) {
  if (!row.contains("bucket_bytes")) return true;
  const auto is_faster = [&](const Json* one, const Json* other) {
    return one && other && seconds_of(*one) < (1 - ChoiceRule().least_gain) * seconds_of(*other);
  };
  if (row["name"] == model["chosen"] || is_faster(&row, &as_configured)) return true;
  return there && ((*there)["best"] == row["name"] ||
                   is_faster(row_named(*there, row["name"]), row_named(*there, as_configured["name"])));
}

/// Every setting of `model`, with the predictions for the other network beside them if there are any.
std::string table_of(const Json& model) {
  const Json* const there = model.contains("elsewhere") ? &model["elsewhere"] : nullptr;
  std::size_t name_width = kLeastNameWidth;
  for (const Json& row : model["settings"])
    name_width = std::max(name_width, width_of(row["name"].get<std::string>()));
  name_width += 2;
  const bool predicts = std::any_of(model["settings"].begin(), model["settings"].end(), [](const Json& row) {
    return !row["predicted_seconds"].is_null();  // on a GPU nothing is predicted
  });
  const auto predicted = [&](const std::string& cell) {
    return predicts ? padded(cell, kTimeWidth) : std::string();
  };
  std::string text = "  " + padded("hook", name_width) + predicted("predicted") +
                     (there ? padded("measured", kTimeWidth) + "predicted there" : "measured") + "\n";
  const Json* as_configured = nullptr;
  for (const Json& row : model["settings"]) {
    if (!row.contains("bucket_bytes")) as_configured = &row;
    if (!is_worth_showing(row, *as_configured, model, there)) continue;
    std::string predicted_there, mark = model["chosen"] == row["name"] ? "<- best here" : "";
    if (there) {
      if (const Json* each = row_named(*there, row["name"]))
        predicted_there = time_of((*each)["predicted_seconds"]);
      if ((*there)["best"] == row["name"]) mark += mark.empty() ? "<- best there" : " and there";
    }
    std::string line = "  " + padded(printable(row["name"].get<std::string>()), name_width) +
                       predicted(time_of(row["predicted_seconds"])) +
                       padded(time_of(row["measured_seconds"]), kTimeWidth) +
                       (there ? padded(predicted_there, kTimeWidth + 4) : "") + mark;
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string heading_of(const Json& model) {
  std::string text = count_text(model["parameters"].get<std::uint64_t>(), "parameter") + ", " +
                     bytes_text(model["gradient_bytes"].get<double>()) + " of gradients a step · " +
                     count_text(model["ranks"].get<std::uint64_t>(), "rank") + " on " +
                     count_text(model["hosts"].get<std::uint64_t>(), "host") + " over " +
                     printable(model["backend"].get<std::string>()) + "\n";
  if (!model.contains("elsewhere")) return text;
  const Json& there = model["elsewhere"];
  text += "there: " + count_text(there["ranks"].get<std::uint64_t>(), "rank") + " on " +
          count_text(there["hosts"].get<std::uint64_t>(), "host");
  if (!there["link"].is_null())
    text += ", " + rounded(there["link"]["bits_per_second"].get<double>() / 1e6, 6) + " Mbit/s, latency " +
            time_of(there["link"]["latency_seconds"]);
  return text + ". Extrapolated from what was measured here: no such run was made.\n";
}

/// How far off the prediction was for a hook that was also measured; or why no hook is named as the best.
std::string off_by(const Json& model) {
  if (model["chosen"].is_null())
    return "The program ended before the fastest had been measured: let it take 300 steps, or 600 on a GPU, "
           "to see which is best.\n";
  for (const Json& row : model["settings"]) {
    if (row["name"] != model["chosen"] || row["predicted_seconds"].is_null() ||
        row["measured_seconds"].is_null())
      continue;
    const auto measured = row["measured_seconds"].get<double>();
    return "the prediction for " + printable(row["name"].get<std::string>()) + " was off by " +
           rounded(100 * std::abs(row["predicted_seconds"].get<double>() / measured - 1), 2) + " %\n";
  }
  return "";
}

}  // namespace

Json advice_in(const std::filesystem::path& file, const AskedFor& asked) {
  InputFile in(file, kLargestAdviceBytes);
  Json advice = json_or_discarded<Json>(in.read_all());
  if (!advice.is_array()) throw Error("'" + file.string() + "' is not what hookline advise's ranks write");
  for (Json& model : advice) {
    if (asked.link || asked.ranks) {
      if (!model.contains("measured_step"))
        throw UsageError(
            "--link and --ranks need a model that is measured on the CPU: on a GPU each hook is tried "
            "instead");
      model["elsewhere"] = elsewhere(model, asked);
    }
    model.erase("measured_step");
  }
  return advice;
}

std::string advice_text(const Json& advice) {
  std::string text;
  for (const Json& model : advice)
    text += (text.empty() ? "" : "\n") + heading_of(model) + table_of(model) + off_by(model);
  return text;
}

}  // namespace hookline
