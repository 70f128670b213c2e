#include "checkpoint/manifest.h"

#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/error.h"
#include "base/regular_file.h"

namespace hookline {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr std::uint64_t kLargestBytes = 64 << 20;              // enough to name every rank's files
constexpr std::size_t kDeepest = 16, kMostValues = 8'000'000;  // what file records in so many bytes hold

std::string own_checksum(Json manifest) {
  manifest.erase("checksum");
  const std::string text = manifest.dump();
  return checksum_of(text.data(), text.size());
}

}  // namespace

std::string manifest_text(const Manifest& manifest) {
  Json json = {{"format", kFormat},     {"version", manifest.version},       {"saved_at", manifest.saved_at},
               {"step", manifest.step}, {"world_size", manifest.world_size}, {"hook", manifest.hook},
               {"files", Json::array()}};
  for (const FileRecord& file : manifest.files)
    json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"xxh3", file.checksum}});
  json["checksum"] = own_checksum(json);
  return json.dump(2) + "\n";
}

Manifest read_manifest(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / kManifestName;
  const std::string name = "'" + file.string() + "' ";
  InputFile stream(file, kLargestBytes);
  const std::string text = stream.read_all();
  if (stream.problem() == FileProblem::missing)
    throw Error(name + "can't be read: '" + folder.string() + "' is not a checkpoint");
  if (stream.problem() != FileProblem::none) throw Error(name + "can't be read: " + stream.why());
  try {
    const Json json = read_json<Json>(text, {.depth = kDeepest, .values = kMostValues});
    if (const int format = json.at("format").get<int>(); format != kFormat)
      throw Error(name + "is of format " + std::to_string(format) + ", and this hookline reads format " +
                  std::to_string(kFormat) + ": use the version that saved it, or a later one");
    Manifest manifest;
    manifest.version = json.at("version").get<std::string>();
    manifest.saved_at = json.at("saved_at").get<std::string>();
    manifest.step = json.at("step").get<std::int64_t>();
    manifest.world_size = json.at("world_size").get<int>();
    manifest.hook = json.at("hook").get<std::string>();
    for (const Json& row : json.at("files"))
      manifest.files.push_back({row.at("name").get<std::string>(), row.at("bytes").get<std::uint64_t>(),
                                row.at("xxh3").get<std::string>()});
    if (own_checksum(json) != json.at("checksum").get<std::string>())
      throw Error(name + "has been altered: its checksum is not that of what it holds");
    return manifest;
  } catch (const JsonError& problem) {
    throw Error(name + "is damaged: " + problem.what());
  } catch (const nlohmann::json::exception& problem) {
    throw Error(name + "is damaged: " + problem.what());
  }
}

}  // namespace hookline
