// What one thing of a run gives to a checkpoint, and what it gets back.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "parallel/tensors/safetensors.h"

namespace hookline {

struct SavedPart {
  NamedTensors shared;  // equal on all ranks as a rule: kept once, and again for a rank where they differ
  NamedTensors own;     // each rank's; no name is in `shared` too
  nlohmann::json notes = nlohmann::json::object();  // of this rank
};

/// How a run resumes from a checkpoint.
struct Resumption {
  std::string checkpoint;  // its folder, for messages
  int saved_ranks = 1;
  int ranks = 1;
  std::vector<std::string> resets = {};  // what could not be restored, to be logged

  bool same_ranks() const { return saved_ranks == ranks; }
  /// Warns of the resets, if `here`, and forgets them.
  void tell_resets(bool here);
};

/// The part with a model's hook.
inline constexpr const char* kHookPart = "hook";

/// `load` throws Error if what was saved does not fit what the program has there.
struct CheckpointPart {
  std::string name;  // of its file: "model", "optimizer", "optimizer_1"
  std::function<SavedPart()> save;
  std::function<void(const SavedPart& saved, Resumption& resumption)> load;
};

}  // namespace hookline
