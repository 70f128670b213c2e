// The table [sweep] of a sweep file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hooks/catalog/option.h"

namespace hookline {

/// What runs the trials: this process, or an array job, whose elements know nothing of each other, and have
/// cores and GPUs of their own.
enum class SweepRunner { this_process, array_job };

/// Times are in seconds.
struct SweepSettings {
  std::vector<std::string> program;  // its command line; {NAME} stands for the value of args.NAME
  std::string config;        // the config that values are put over, relative to the sweep file; empty: none
  std::string metric;        // that trials are compared by; empty: they are only run
  std::string goal = "min";  // "min" or "max"
  std::string metric_value = "last";  // "last" or "best" of those that a trial logs
  std::vector<std::int64_t> seeds;    // training.seed: each grid point is tried with each
  std::int64_t repeats = 1;           // of each grid point with each seed
  std::int64_t baseline_every = 8;    // trials, after which the baseline is tried again
  std::optional<double> trial_limit;
  std::optional<std::int64_t> budget_trials;
  std::optional<double> budget;
  std::string invalid = "skip";                  // "skip" grid points that can't run, or "refuse" the sweep
  std::string failed = "continue";               // "continue" or "stop" after a trial that failed
  std::optional<std::int64_t> max_parallel = 1;  // none: as many as fit the cores or GPUs, or as Slurm starts
  std::string early_stopping = "none";           // "none", "median" or "halving"
  std::int64_t early_stopping_from = 10;         // the first step at which a trial may be ended

  bool stops_early() const { return early_stopping != "none"; }
};

/// A key of [sweep], for reading and for documentation.
struct SweepKeyRow {
  OptionRow option;
  OptionValue (*get)(const SweepSettings&);
  void (*set)(SweepSettings&, const OptionValue&);
};

/// All but `seeds`, which is an array of integers.
const std::vector<SweepKeyRow>& sweep_schema();

}  // namespace hookline
