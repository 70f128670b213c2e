// What is handed to a scheduler: a template with a run's values in it.
#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace hookline {

/// A template that asks for what there is not.
class TemplateError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The built-in one: "slurm.sbatch", "slurm_array.sbatch", "kubernetes.yaml". Throws std::out_of_range for another name.
std::string_view built_in_template(const std::string& name);

/// `text` with each ${NAME} replaced; a line that holds nothing else goes if its value is empty. Throws TemplateError for a
/// name that `values` lacks, saying where it is.
std::string fill(std::string_view text, const std::map<std::string, std::string>& values);

}  // namespace hookline
