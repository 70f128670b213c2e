// A sweep's state on disk, consistent even if the sweep is killed at any moment.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/folder_lock.h"
#include "launcher/sweep/grid_points.h"

namespace hookline {

enum class TrialStatus {
  waiting,
  running,
  done,
  failed,
  stopped,  // early, since it was hopeless
};

/// Does the trial have a result? One that runs has none yet.
inline bool has_ended(TrialStatus status) {
  return status != TrialStatus::waiting && status != TrialStatus::running;
}

/// "waiting", …
std::string name_of(TrialStatus status);

/// What became of a trial.
struct TrialResult {
  TrialStatus status = TrialStatus::done;
  std::string reason;            // of what failed or was stopped, for people
  double seconds = 0;            // from start to end
  std::string judged_by;         // the metric, and which value of it; if it was ended early, the rule
  std::optional<double> metric;  // its value
  bool ran_well = false;         // its launch exited with 0
  std::optional<std::int64_t> step;
  std::string measures = "{}";  // a JSON object: what the run has measured itself
};

/// A row of the state.
struct Trial {
  PlannedTrial planned;
  TrialResult result;  // until the trial has ended, only its status means anything
};

/// What a sweep is, for whoever reads its results later.
struct SweepFacts {
  std::string name;     // of its file, without folder and suffix
  std::string command;  // that ran it last, for a shell
  std::string machine;  // where that ran, as one line
  std::string began;    // the first time: "2025-03-01T12:00:00Z"
  std::string metric;   // as in the sweep file, as are the next two
  std::string goal = "min";
  std::string metric_value = "last";
  Assignments same;  // values that all trials have
};

/// What a new plan has changed.
struct PlanChange {
  std::size_t added = 0, dropped = 0;
  bool is_first = false;
};

/// What becomes of a state that is damaged.
enum class OnDamage {
  refuse,
  repair,  // every row that is sound is kept, and the damaged file as a copy
};

/// What a repair has done.
struct Repair {
  std::string damage;          // what was damaged, for people
  std::filesystem::path kept;  // the copy of the damaged file; empty if there was none
  std::set<std::string> ids;   // of the trials whose rows were sound
};

/// The state in a sweep's folder, which one process at a time can open. Every change is on disk when the call
/// returns. Throws Error: naming the folder, if another process has it open or it can't be made; naming the
/// file, if that is not a sweep's, is damaged, or can't be read or written.
class SweepState {
 public:
  explicit SweepState(const std::filesystem::path& folder, OnDamage on_damage = OnDamage::refuse);
  ~SweepState();
  SweepState(const SweepState&) = delete;
  SweepState& operator=(const SweepState&) = delete;

  /// Nothing if there was no damage.
  const std::optional<Repair>& repair() const { return repair_; }

  /// Replaces the sweep's trials by those of `plan`. Known results stay; a trial that was running waits
  /// again. The fact `began` keeps its first value.
  PlanChange take(const SweepPlan& plan, const SweepFacts& facts);

  /// Those of the plan, in its order.
  std::vector<Trial> trials() const;

  void begin(const std::string& id);
  void end(const std::string& id, const TrialResult& result);
  /// The trial is to run again, whatever its status was.
  void reset(const std::string& id);

 private:
  friend struct SweepRecord;
  struct Rows;
  FolderLock lock_;
  std::filesystem::path file_;
  std::optional<Repair> repair_;
  std::unique_ptr<Rows> rows_;
};

/// The state as it is at one moment, also while another process runs the sweep.
struct SweepRecord {
  SweepFacts facts;
  std::vector<Trial> trials;  // of the plan, in its order

  /// Is there a state in `folder`? Throws Error if it is missing, though trials have run, and if something
  /// else has its name.
  static bool is_in(const std::filesystem::path& folder);
  /// Reads the state in `folder`, which may be read-only; leaves no trace in it, unless a sweep was killed.
  /// Throws Error, naming the file, if there is no state, or if it is damaged or can't be read.
  static SweepRecord read(const std::filesystem::path& folder);
};

}  // namespace hookline
