#include "parallel/resume/checkpoint_saver.h"

#include <chrono>
#include <ctime>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/text/duration_text.h"
#include "base/text/time_text.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/checksum.h"
#include "parallel/world/text_exchange.h"

namespace hookline {
namespace {

using Json = nlohmann::json;

const char* const kWhat = "saving a checkpoint";

/// Makes the tensors contiguous and moves them to the CPU; with `copy`, into memory of their own.
void bring_here(NamedTensors& tensors, bool copy) {
  for (auto& [name, tensor] : tensors) {
    const at::Tensor here = tensor.cpu().contiguous();
    tensor = copy && here.is_alias_of(tensor) ? here.clone() : here;
  }
}

void bring_here(CheckpointContent& content, bool copy) {
  for (auto& [name, part] : content.parts) {
    bring_here(part.shared, copy);
    bring_here(part.own, copy);
  }
}

using Digests = std::map<std::string, std::map<std::string, std::string>>;

/// What each shared tensor holds, by part and name.
Digests digests_of(const CheckpointContent& content) {
  Digests digests;
  for (const auto& [name, part] : content.parts) {
    for (const auto& [key, tensor] : part.shared)
      digests[name][key] = checksum_of(tensor.const_data_ptr(), tensor.nbytes());
  }
  return digests;
}

/// The rank's own tensors, and the shared ones that differ from rank 0's.
NamedTensors own_tensors(const CheckpointContent& content, const Digests& own_digests,
                         const Json& of_rank_zero) {
  NamedTensors own;
  for (const auto& [name, digests] : own_digests) {
    const SavedPart& part = content.parts.at(name);
    const Json there = of_rank_zero.value(name, Json::object());
    for (const auto& [key, digest] : digests) {
      if (there.value(key, "") != digest) own[name + kPartEnd + key] = part.shared.at(key);
    }
  }
  for (const auto& [name, part] : content.parts) {
    for (const auto& [key, tensor] : part.own) own[name + kPartEnd + key] = tensor;
  }
  return own;
}

std::string notes_of(const CheckpointContent& content) {
  Json notes = Json::object();
  for (const auto& [name, part] : content.parts) notes[name] = part.notes;
  return notes.dump();
}

Json files_json(const std::vector<FileRecord>& files) {
  Json json = Json::array();
  for (const FileRecord& file : files) json.push_back({file.name, file.bytes, file.checksum});
  return json;
}

void add_files(std::vector<FileRecord>& files, const Json& json) {
  for (const Json& file : json) files.push_back({file.at(0), file.at(1), file.at(2)});
}

}  // namespace

std::string rank_file_name(int rank) { return "rank_" + std::to_string(rank) + ".safetensors"; }

CheckpointSaver::CheckpointSaver(std::shared_ptr<World> world)
    : world_(std::move(world)), group_(world_->make_group("checkpoint")) {}

CheckpointSaver::~CheckpointSaver() { wait(); }

bool CheckpointSaver::wait() {
  try {
    return !under_way_.valid() || under_way_.get();
  } catch (const RunFailed&) {
    return false;  // the next wait for other ranks throws this, too
  }
}

bool CheckpointSaver::save(const std::filesystem::path& folder, CheckpointContent content,
                           const std::function<void()>& after) {
  wait();
  bring_here(content, /*copy=*/false);
  return save_now(folder, content, after);
}

void CheckpointSaver::save_in_background(const std::filesystem::path& folder, CheckpointContent content,
                                         std::function<void()> after) {
  wait();
  bring_here(content, /*copy=*/true);
  under_way_ =
      std::async(std::launch::async, [this, folder, content = std::move(content), after = std::move(after)] {
        return save_now(folder, content, after);
      });
}

bool CheckpointSaver::save_now(const std::filesystem::path& folder, const CheckpointContent& content,
                               const std::function<void()>& after) {
  const auto start = std::chrono::steady_clock::now();
  const std::string problem = write(folder, content);
  if (world_->rank() == 0) {
    const auto took = std::chrono::steady_clock::now() - start;
    if (problem.empty()) {
      log::info("checkpoint '" + folder.string() + "' saved at step " + std::to_string(content.step) +
                " in " + duration_text(took));
    } else {
      log::error("the checkpoint '" + folder.string() +
                 "' was not saved, and training continues: " + problem);
    }
    if (problem.empty() && after) after();
  }
  return problem.empty();
}

/// Writes the checkpoint. Returns what went wrong, the same on all ranks; empty if nothing did.
std::string CheckpointSaver::write(const std::filesystem::path& folder, const CheckpointContent& content) {
  const bool is_first = world_->rank() == 0;
  const std::filesystem::path part = part_of(folder);
  const Digests digests = digests_of(content);

  // Rank 0 makes the folder, and sends all ranks the digests of its tensors.
  Json plan = Json::object();
  if (is_first) {
    plan["problem"] = problem_of([&] { begin_part(folder); });
    plan["digests"] = digests;
  }
  plan = Json::parse(text_of_rank_zero(*world_, group_, plan.dump(), kWhat));
  if (const auto problem = plan.at("problem").get<std::string>(); !problem.empty()) return problem;

  // Every rank writes its file.
  std::vector<FileRecord> written;
  std::string problem = problem_of([&] {
    if (!std::filesystem::is_directory(part))
      throw Error("rank " + std::to_string(world_->rank()) + " does not see the folder '" + part.string() +
                  "' that rank 0 has made: name one that all hosts share");
    if (is_first) {
      for (const auto& [name, saved] : content.parts) {
        if (!saved.shared.empty())
          written.push_back(write_tensor_file(part / (name + ".safetensors"), saved.shared, {}));
      }
    }
    written.push_back(write_tensor_file(part / rank_file_name(world_->rank()),
                                        own_tensors(content, digests, plan.at("digests")),
                                        {{kNotesKey, notes_of(content)}}));
  });
  const Json own = {{"problem", problem}, {"files", files_json(written)}};
  const std::vector<std::string> all =
      exchange_texts(*world_, group_, own.dump(-1, ' ', false, Json::error_handler_t::replace), kWhat);

  // Rank 0 gives the folder its name.
  Manifest manifest{
      content.step, world_->size(), content.hook, file_time_text(std::time(nullptr)), HOOKLINE_VERSION, {}};
  problem.clear();
  for (const std::string& text : all) {
    const Json of_rank = Json::parse(text);
    if (problem.empty()) problem = of_rank.at("problem").get<std::string>();
    add_files(manifest.files, of_rank.at("files"));
  }
  if (is_first) {
    if (problem.empty()) problem = problem_of([&] { commit_part(folder, manifest); });
    std::error_code ignored;
    if (!problem.empty()) std::filesystem::remove_all(part, ignored);  // room for the next one
  }
  return text_of_rank_zero(*world_, group_, problem, kWhat);
}

}  // namespace hookline
