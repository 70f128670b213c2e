// hookline checkpoint verify: does a checkpoint hold what was written?
#include <iostream>

#include "base/error.h"
#include "base/log.h"
#include "base/text/bytes_text.h"
#include "base/text/count_text.h"
#include "base/text/printable.h"
#include "checkpoint/checkpoint_folder.h"
#include "launcher/cli/checkpoints_in.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs.h"
#include "launcher/process/exit_code.h"

namespace hookline {
namespace {

/// Prints that the checkpoint in `folder` is good, or logs what is wrong with it.
bool is_good(const std::filesystem::path& folder) {
  std::vector<std::string> problems;
  try {
    const Manifest manifest = read_manifest(folder);
    problems = problems_of(folder, manifest, [](const std::string&) { return true; });
    if (problems.empty())
      std::cout << printable(folder.string()) << ": good (" << count_text(manifest.files.size(), "file")
                << ", " << bytes_text(bytes_of(manifest)) << ")\n"
                << std::flush;
  } catch (const Error& error) {
    problems = {error.what()};
  }
  for (const std::string& problem : problems) log::error(problem);
  return problems.empty();
}

}  // namespace

int checkpoint_verify(const Arguments& arguments) {
  VerbParser parser(
      "hookline checkpoint verify DIR [flags]",
      "Compare each file of a checkpoint, or of each of those in a run's folder of checkpoints, "
      "with its checksum.",
      "hookline checkpoint verify checkpoints/step_00000100");
  if (!parser.parse(arguments)) return kSuccess;
  parser.expect_plain("DIR", 1, 1);

  bool all_good = true;
  for (const auto& folder : checkpoints_in(parser.plain()[0])) all_good = is_good(folder) && all_good;
  return all_good ? kSuccess : kFailure;
}

}  // namespace hookline
