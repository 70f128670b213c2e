// What a sweep file asks for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hooks/catalog/catalog.h"
#include "launcher/sweep/file/sweep_settings.h"

namespace hookline {

/// Values by key, as one types them on a command line. A key is one of the config ("ddp.comm_hook") or of
/// the program ("args.lr").
using Assignments = std::map<std::string, std::string>;
inline constexpr std::string_view kArgumentPrefix = "args.";  // of a key of the program
inline constexpr const char* kSeedKey = "training.seed";

/// A key, and the values that it takes in turn.
struct Dimension {
  std::string key;
  std::vector<std::string> values;
};

/// Every combination of the dimensions' values; those of `zip` advance together, each as long as the others.
struct Grid {
  std::vector<Dimension> dimensions, zip;
};

/// What a random search draws a value from: one of `choices`, or of [from, to].
struct Draw {
  std::string key;
  std::vector<std::string> choices;
  double from = 0, to = 0;
  bool log = false;    // uniform in the logarithm
  bool whole = false;  // only whole numbers
};

struct RandomSearch {
  std::int64_t samples = 0;
  std::int64_t seed = 0;
  std::vector<Draw> draws;
};

/// A grid point is left out if for each key it has one of the values.
using Exclusion = std::vector<Dimension>;

struct SweepFile {
  SweepSettings settings;
  Assignments fixed;  // in every trial, but the baseline may override them
  std::vector<Grid> grids;
  std::vector<RandomSearch> searches;
  std::vector<Exclusion> exclusions;
  std::optional<Assignments> baseline;
};

/// A sweep file, or what is wrong with it: every problem at once, rendered with its place.
struct ReadSweep {
  SweepFile sweep;
  std::string report;
  bool ok = false;
};

/// Keys are checked against the schema, except for options of hooks; these, and all values, are checked
/// only when each grid point is resolved. A setting that `runner` can't apply is a problem; without
/// `max_parallel` an array job has no limit.
ReadSweep read_sweep(const std::filesystem::path& file, const Catalog& catalog,
                     SweepRunner runner = SweepRunner::this_process);

/// The program that a sweep file names, so that the catalog of its hooks can be made before the rest of the
/// file is read; empty if the file names none, or a placeholder.
std::string program_named_in(const std::filesystem::path& file);

}  // namespace hookline
