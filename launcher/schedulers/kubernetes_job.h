// A job of Kubernetes, as manifests.
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
  std::string config;                // text of the config file that the container gets
  std::vector<std::string> command;  // valid UTF-8
};

/// `template_text` with the values of `job`. Throws TemplateError.
std::string kubernetes_manifest(const std::string& template_text, const KubernetesJob& job);

/// Is it a name as Kubernetes takes them: lower-case letters, digits and '-', at most 52 of them, so that a pod's number fits?
bool is_kubernetes_name(std::string_view name);

}  // namespace hookline
