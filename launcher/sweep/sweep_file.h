// What a sweep file asks for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hooks/catalog.h"
#include "hooks/option.h"

namespace hookline {

/// The table [sweep]. Times are in seconds.
struct SweepSettings {
  std::vector<std::string> program;  // its command line; {NAME} stands for the value of args.NAME
  std::string config;        // the config that values are put over, relative to the sweep file; empty: none
  std::string metric;        // that trials are compared by; empty: they are only run
  std::string goal = "min";  // "min" or "max"
  std::string metric_value = "last";  // "last" or "best" of those that a trial logs
  std::vector<std::int64_t> seeds;    // training.seed: each cell is tried with each
  std::int64_t repeats = 1;           // of each cell with each seed
  std::int64_t baseline_every = 8;    // trials, after which the baseline is tried again
  std::optional<double> trial_limit;
  std::optional<std::int64_t> budget_trials;
  std::optional<double> budget;
  std::string invalid = "skip";                  // "skip" or "refuse" cells that can't run
  std::string failed = "continue";               // "continue" or "stop" behind a trial that failed
  std::optional<std::int64_t> max_parallel = 1;  // none: as many as the machine has cores or GPUs for
  std::string early_stopping = "none";           // "none", "median" or "halving"
  std::int64_t early_stopping_from = 10;         // the first step at which a trial may be ended
};

/// A key of [sweep], for reading and for documentation.
struct SweepKeyRow {
  OptionRow option;
  OptionValue (*get)(const SweepSettings&);
  void (*set)(SweepSettings&, const OptionValue&);
};

/// All but `seeds`, which is a list of numbers.
const std::vector<SweepKeyRow>& sweep_schema();

/// Values by key, as a command line would type them. A key is one of the config ("ddp.comm_hook") or of the program
/// ("args.lr").
using Assignments = std::map<std::string, std::string>;
inline constexpr std::string_view kArgumentPrefix = "args.";  // of a key of the program

/// A key, and the values that it takes in turn.
struct Dimension {
  std::string key;
  std::vector<std::string> values;
};

/// Every combination of the dimensions' values; those of `zip` go on together, each as long as the others.
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

/// A cell is left out if for each key it has one of the values.
using Exclusion = std::vector<Dimension>;

struct SweepFile {
  SweepSettings settings;
  Assignments fixed;  // in every trial
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

/// What runs the trials: this process, or an array job, whose elements know nothing of each other, and have cores and GPUs of
/// their own.
enum class SweepRunner { this_process, array_job };

/// Keys are checked against the schema and the catalog's options; their values only by resolving each cell. What `runner` can't
/// keep to is a problem; without `max_parallel` an array job has no limit.
ReadSweep read_sweep(const std::filesystem::path& file, const Catalog& catalog,
                     SweepRunner runner = SweepRunner::this_process);

/// The program that a file names, for its catalog, before the rest of it is read; empty if it names none.
std::string program_named_in(const std::filesystem::path& file);

}  // namespace hookline
