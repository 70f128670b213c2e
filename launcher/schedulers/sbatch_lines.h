// The resources that a job asks Slurm for, as lines of its script.
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

/// `cpus`, `gpus` and `arguments` are empty, or have lines that begin with #SBATCH, without a newline at the
/// end.
struct SbatchLines {
  std::string cpus, gpus;  // empty if one of the user's arguments asks for them
  std::string arguments;   // the user's
  bool user_asks_for_gpus = false;
  std::string warning;  // about what the user's arguments leave out; may be empty
};

/// `arguments`: the user's options of sbatch. They take precedence, and nothing is requested twice.
SbatchLines sbatch_lines(const NodeResources& needed, const std::vector<std::string>& arguments);

/// An option of sbatch for the number of nodes or tasks.
struct LayoutOption {
  std::string word;  // "--nodes=5", or "-N" where its value is the next word
  bool is_of_nodes = false;
  std::string value;  // "5"
};

/// The layout options in `arguments`. A job of hookline asks for its nodes itself, and for one task on each.
std::vector<LayoutOption> layout_options(const std::vector<std::string>& arguments);

/// The first among `arguments` that says where the job's output goes; empty if there is none.
std::string log_option(const std::vector<std::string>& arguments);

/// The value of the last --export; empty if there is none.
std::string export_option(const std::vector<std::string>& arguments);

/// Is `argument` the long option `option`, with or without a value? getopt also accepts "--arr=1-3" for
/// --array, but an abbreviation of fewer than two letters is ambiguous.
bool names_option(std::string_view argument, std::string_view option);

}  // namespace hookline
