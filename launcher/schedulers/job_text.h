// The text that a scheduler gets: a template with a run's values in it.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace hookline {

/// Seconds that a job is warned before it ends, unless the user says otherwise.
inline constexpr std::int64_t kWarningSeconds = 90;

/// A template uses a name that has no value.
class TemplateError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A built-in template: "slurm.sbatch", "slurm_array.sbatch" or "kubernetes.yaml". Throws std::out_of_range
/// for another name.
std::string_view built_in_template(const std::string& name);

/// `text` with each ${NAME} replaced. Drops a line that has nothing else if the value is empty. Throws
/// TemplateError for a name that `values` lacks, and says where it is.
std::string fill(std::string_view text, const std::map<std::string, std::string>& values);

}  // namespace hookline
