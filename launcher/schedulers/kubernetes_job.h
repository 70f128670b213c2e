// A Kubernetes job, as manifests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/schedulers/sbatch_lines.h"

namespace hookline {

struct KubernetesJob {
  std::string name, image;
  std::int64_t nodes = 1;
  std::string nnodes;  // as [launch] nnodes takes it, such as "2:4"
  std::int64_t warning_seconds = 0;
  NodeResources needed;
  std::string config;                // the text of the container's config file
  std::vector<std::string> command;  // valid UTF-8
};

/// `template_text` with the values of `job`, and a Secret with a new token for its launchers. Throws
/// TemplateError or Error.
std::string kubernetes_manifest(const std::string& template_text, const KubernetesJob& job);

/// Is it a name that Kubernetes accepts: lower-case letters, digits and '-', at most 52 characters, so that a
/// pod's number fits after it?
bool is_kubernetes_name(std::string_view name);
/// What such a name must be, after "it must ".
inline constexpr const char* kKubernetesNameRule =
    "begin with a lower-case letter, end with a letter or a digit, and consist of at most 52 lower-case "
    "letters, digits and '-'";

}  // namespace hookline
