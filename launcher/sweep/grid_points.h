// From a sweep file to the trials that it comes to: pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/sweep/file/sweep_file.h"

namespace hookline {

/// The most grid points that a sweep may have.
inline constexpr std::size_t kMostGridPoints = 100'000;

/// The grid points that the grids come to, in the order of the file, and then those of the searches; each
/// once, without those that are excluded. Every one holds the fixed values too. The same file gives the same
/// grid points. Throws Error if there are more than kMostGridPoints.
std::vector<Assignments> grid_points_of(const SweepFile& sweep);

/// The result of resolving a grid point: a checked config, or the problems with it.
struct ResolvedPoint {
  std::string identity;     // the values that tell runs apart, as "key = value" lines
  std::string problems;     // rendered; empty if it can run
  std::string config = {};  // a config file that gives these values
  /// For each key whose value is a folder that the run would write to, given by a relative path: the name of
  /// the subfolder of the trial's folder to use instead.
  std::map<std::string, std::string> own_folders = {};
  double grace_seconds = 30;      // between being told to end and being killed
  std::string never_starts = {};  // why its hook would never start to compress; empty if it starts
  std::optional<std::int64_t> compresses_from = {};  // the step at which its hook begins to, if not the first
};

/// One run of a grid point.
struct PlannedTrial {
  std::string
      id;  // 12 hexadecimal digits of a checksum: of the resolved config, the command line and the repeat
  Assignments values;
  std::vector<std::string> program;  // its command line
  std::int64_t repeat = 0;           // of those with the same values, from 0
  bool is_baseline = false;
  ResolvedPoint point = {};  // as it was when it was planned
};

struct InvalidPoint {
  Assignments values;  // without a seed of [sweep] seeds
  std::string problems;
};

struct SweepPlan {
  std::vector<PlannedTrial> trials;  // in the order in which they are to begin
  std::vector<InvalidPoint> invalid;
  std::vector<InvalidPoint> never_starting;  // these still run; may include the baseline
  bool repeats_baseline =
      false;  // it runs again after the first other trial, since it would otherwise run only once
  std::vector<std::string>
      remarks;  // for people: exclusions that matched no grid point, searches that found too few
};

/// Plans all trials: for each seed, as many passes over all grid points as `repeats` says, so that changes on
/// the machine affect all grid points alike. The baseline starts each pass, and runs again after
/// every `baseline_every` trials. Since a cold machine slows the first trial down, the baseline's second
/// trial is moved, or else added, right after the first trial of another grid point. `resolve` resolves a
/// grid point; grid points with the same result count once. Throws Error as grid_points_of does, if the
/// baseline can't run, and for more than kMostGridPoints trials.
SweepPlan plan_of(const SweepFile& sweep, const std::function<ResolvedPoint(const Assignments&)>& resolve);

/// "comm_hook=fp16 lr=0.1": the values that tell grid points of one sweep apart, without those in `same`.
/// Of a key, only the part after its last dot, unless two keys share that; the program's arguments come
/// last.
std::string label_of(const Assignments& values, const Assignments& same);

}  // namespace hookline
