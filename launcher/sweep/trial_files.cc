#include "launcher/sweep/trial_files.h"

#include "hooks/error.h"

namespace hookline {
namespace fs = std::filesystem;

fs::path folder_of_trial(const fs::path& sweep, const std::string& id) { return sweep / "trials" / id; }

fs::path set_aside(const fs::path& trial) {
  std::error_code error;
  if (!fs::exists(trial, error)) return {};
  fs::path kept;
  int n = 0;
  do {
    kept = trial.string() + "." + std::to_string(++n);
  } while (fs::exists(kept, error));
  fs::rename(trial, kept, error);
  if (error) throw Error("'" + trial.string() + "' can't be renamed: " + error.message());
  return kept;
}

}  // namespace hookline
