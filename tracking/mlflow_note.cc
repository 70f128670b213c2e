#include "tracking/mlflow_note.h"

#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/log.h"
#include "base/regular_file.h"
#include "config/run_files.h"

namespace hookline {
namespace {
using Json = nlohmann::json;

constexpr std::uint64_t kLargestNoteBytes = 1 << 20;

std::string text_of(const Json& note, const char* key) {
  const auto found = note.find(key);
  return found != note.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

std::optional<MlflowNote> read_mlflow_note(const std::filesystem::path& run_folder) {
  InputFile in(run_folder / kMlflowNote, kLargestNoteBytes);
  if (!in) return std::nullopt;
  const Json json = json_or_discarded<Json>(in.read_all());
  if (!json.is_object()) return std::nullopt;
  MlflowNote note{text_of(json, "tracking_uri"), text_of(json, "run_id"), text_of(json, "told_status")};
  if (note.tracking_uri.empty() || note.run_id.empty()) return std::nullopt;
  return note;
}

void write_mlflow_note(const std::filesystem::path& run_folder, const MlflowNote& note) {
  Json json = {{"tracking_uri", note.tracking_uri}, {"run_id", note.run_id}};
  if (!note.told_status.empty()) json["told_status"] = note.told_status;
  const std::filesystem::path file = run_folder / kMlflowNote;
  const std::string problem = replace_regular_file(file, json.dump(2) + "\n");
  if (!problem.empty())
    log::warning(
        "'" + file.string() + "' can't be written (" + problem +
        "): a restart will be another run of MLflow's, and if a signal ends this one, it stays RUNNING "
        "there");
}

}  // namespace hookline
