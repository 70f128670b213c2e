#include "parallel/resume/open_checkpoint.h"

#include <functional>
#include <utility>
#include <vector>

#include "base/bounded_json.h"
#include "base/error.h"
#include "base/log.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/tensor_file.h"
#include "parallel/resume/checkpoint_saver.h"
#include "parallel/world/text_exchange.h"

namespace hookline {
namespace {

const char* const kWhat = "reading a checkpoint";
constexpr std::size_t kMostNotes = 16'000'000;  // values; enough for as many tensors as a header may name

void read_into(const std::filesystem::path& file, const std::string& prefix,
               const std::function<void(const std::string& key, at::Tensor)>& take) {
  const TensorFileHeader header = read_tensor_header(file);
  for (const TensorRow& row : header.tensors) {
    if (row.name.starts_with(prefix)) take(row.name.substr(prefix.size()), read_tensor(file, header, row));
  }
}

}  // namespace

OpenCheckpoint::OpenCheckpoint(const World& world, std::filesystem::path folder)
    : folder_(std::move(folder)),
      manifest_(read_manifest(folder_)),
      rank_(world.rank()),
      ranks_(world.size()) {
  const std::string own = rank_file_name(rank_), first = rank_file_name(0);
  const std::vector<std::string> problems = problems_of(folder_, manifest_, [&](const std::string& name) {
    return !name.starts_with("rank_") || name == own || name == first;
  });
  if (!problems.empty()) throw Error(problems.front());
  const std::string notes_of = rank_ < manifest_.world_size ? own : first;
  const TensorFileHeader header = read_tensor_header(folder_ / notes_of);
  const auto notes = header.metadata.find(kNotesKey);
  if (notes == header.metadata.end())
    throw Error("'" + (folder_ / notes_of).string() +
                "' has no notes of the run: it is not a file of a checkpoint");
  try {
    notes_ = read_json<nlohmann::json>(notes->second, {.values = kMostNotes});
  } catch (const JsonError& problem) {
    throw Error("'" + (folder_ / notes_of).string() +
                "' is damaged: the notes of the run in it can't be read: " + problem.what());
  }
}

std::unique_ptr<OpenCheckpoint> OpenCheckpoint::open(World& world, const std::filesystem::path& folder) {
  std::unique_ptr<OpenCheckpoint> checkpoint;
  const std::string problem =
      problem_of_any(world, kWhat, [&] { checkpoint.reset(new OpenCheckpoint(world, locate(folder))); });
  if (!problem.empty()) throw Error("the checkpoint '" + folder.string() + "' can't be used: " + problem);
  return checkpoint;
}

std::unique_ptr<OpenCheckpoint> OpenCheckpoint::newest(World& world, const std::filesystem::path& folder,
                                                       std::int64_t after) {
  // All ranks use rank 0's list, since another host may see an older state of the folder.
  nlohmann::json names = nlohmann::json::array();
  std::string problem = problem_of_any(world, kWhat, [&] {
    if (world.rank() != 0) return;
    for (const FoundCheckpoint& found : list_checkpoints(folder)) {
      if (found.step > after) names.push_back(found.path.string());
    }
  });
  if (!problem.empty()) throw Error("checkpoint_dir '" + folder.string() + "' can't be read: " + problem);
  names = nlohmann::json::parse(text_of_rank_zero(world, world.group(), names.dump(), kWhat));
  for (const auto& name : names) {
    std::unique_ptr<OpenCheckpoint> checkpoint;
    problem = problem_of_any(world, kWhat,
                             [&] { checkpoint.reset(new OpenCheckpoint(world, name.get<std::string>())); });
    if (problem.empty()) return checkpoint;
    if (world.rank() == 0)
      log::warning("the checkpoint '" + name.get<std::string>() + "' is passed over: " + problem);
  }
  if (!names.empty())
    throw Error("no checkpoint in checkpoint_dir '" + folder.string() +
                "' can be used: to begin at step 0, move them away, or name another folder");
  return nullptr;
}

SavedPart OpenCheckpoint::part(const std::string& name) const {
  SavedPart part;
  part.notes = notes_.at(name);
  const std::string shared_file = name + ".safetensors";
  for (const FileRecord& file : manifest_.files) {
    if (file.name != shared_file) continue;
    read_into(folder_ / shared_file, "",
              [&](const std::string& key, at::Tensor tensor) { part.shared[key] = std::move(tensor); });
  }
  const bool same_ranks = ranks_ == manifest_.world_size;
  if (!same_ranks && (name != kRandomPart || rank_ >= manifest_.world_size)) return part;
  read_into(folder_ / rank_file_name(rank_), name + kPartEnd, [&](const std::string& key, at::Tensor tensor) {
    const auto shared = part.shared.find(key);
    (shared == part.shared.end() ? part.own[key] : shared->second) = std::move(tensor);
  });
  return part;
}

}  // namespace hookline
