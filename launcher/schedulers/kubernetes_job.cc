#include "launcher/schedulers/kubernetes_job.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/random_hex.h"
#include "launcher/schedulers/job_text.h"

namespace hookline {
namespace {

/// The lines with `margin` in front, for a YAML block.
std::string indented(const std::string& text, const std::string& margin) {
  std::string result;
  bool starts_line = true;
  for (const char c : text) {
    if (starts_line && c != '\n') result += margin;
    starts_line = c == '\n';
    result += c;
  }
  while (!result.empty() && (result.back() == ' ' || result.back() == '\n')) result.pop_back();
  return result;
}

/// Lines that ask for one GPU for each rank, if ranks use any. Kubernetes takes GPUs only as limits, which
/// are also requests.
std::string gpu_limits(const NodeResources& needed) {
  return needed.gpus == 0
             ? ""
             : "            limits:\n              nvidia.com/gpu: " + std::to_string(needed.gpus);
}

/// Escapes '$', since Kubernetes replaces $(NAME) by a variable's value, and $$ by $.
std::string without_variables(const std::string& word) {
  std::string result;
  for (const char c : word) result += c == '$' ? std::string("$$") : std::string(1, c);
  return result;
}

/// A Secret with a new token for the launchers of the job `name`.
std::string secret_of(const std::string& name) {
  return "# The token by which the launchers know each other.\napiVersion: v1\nkind: Secret\nmetadata:\n  "
         "name: \"" +
         name + "\"\nimmutable: true\nstringData:\n  token: \"" + random_hex(32) + "\"\n---";
}

}  // namespace

std::string kubernetes_manifest(const std::string& template_text, const KubernetesJob& job) {
  std::vector<std::string> command;
  for (const std::string& word : job.command) command.push_back(without_variables(word));
  return fill(template_text, {{"name", job.name},
                              {"nodes", std::to_string(job.nodes)},
                              {"nnodes", job.nnodes},
                              {"secret", secret_of(job.name)},
                              {"image", job.image},
                              {"warning_seconds", std::to_string(job.warning_seconds)},
                              {"cpus", std::to_string(job.needed.cpus)},
                              {"gpus", gpu_limits(job.needed)},
                              {"config", indented(job.config, "    ")},
                              {"command", nlohmann::json(command).dump()}});
}

bool is_kubernetes_name(std::string_view name) {
  constexpr std::size_t kMost = 52;
  const auto is_end = [](unsigned char c) { return std::islower(c) || std::isdigit(c); };
  return !name.empty() && name.size() <= kMost && std::islower(static_cast<unsigned char>(name.front())) &&
         is_end(static_cast<unsigned char>(name.back())) &&
         std::all_of(name.begin(), name.end(), [&](unsigned char c) { return is_end(c) || c == '-'; });
}

}  // namespace hookline
