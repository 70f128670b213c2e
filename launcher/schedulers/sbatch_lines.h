// What a job asks of Slurm, as lines of its script.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hookline {

/// What the ranks of one node need.
struct NodeResources {
  std::int64_t cpus = 1;
  std::int64_t gpus = 0;  // 0: they use none
};

/// Each is empty, or lines that begin with #SBATCH, without a newline at the end.
struct SbatchLines {
  std::string cpus, gpus;  // empty if an argument of the user's asks for them
  std::string arguments;   // the user's
  bool user_asks_for_gpus = false;
  std::string warning;  // of what the user's arguments leave out; empty if there is nothing to say
};

/// `arguments`: options of sbatch that the user gave. They win, and nothing is asked for twice.
SbatchLines sbatch_lines(const NodeResources& needed, const std::vector<std::string>& arguments);

/// An option of sbatch that says how many nodes or tasks there are.
struct LayoutOption {
  std::string word;  // "--nodes=5", or "-N" where its value is the next word
  bool is_of_nodes = false;
  std::string value;  // "5"
};

/// Those among `arguments`. A job of hookline's asks for its nodes itself, and for one task on each.
std::vector<LayoutOption> layout_options(const std::vector<std::string>& arguments);

/// The first among `arguments` that says where the job's output goes; empty if there is none.
std::string log_option(const std::vector<std::string>& arguments);

/// The value of --export, whose last one counts; empty if there is none.
std::string export_option(const std::vector<std::string>& arguments);

/// Is an argument of sbatch's the long option `option`, with or without a value? getopt takes "--arr=1-3" for --array too; of
/// fewer than two letters it asks which is meant.
bool names_option(std::string_view argument, std::string_view option);

}  // namespace hookline
