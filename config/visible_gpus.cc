#include "config/visible_gpus.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "base/lines.h"

namespace hookline {
namespace {

bool names_a_device(std::string_view entry, int devices) {
  if (entry.starts_with("GPU-") || entry.starts_with("MIG-")) return true;
  int index = -1;
  const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), index);
  return error == std::errc() && end == entry.data() + entry.size() && index >= 0 && index < devices;
}

std::optional<std::string> hiding_variable() {
  const char* variable = std::getenv("CUDA_VISIBLE_DEVICES");
  return variable ? std::optional<std::string>(variable) : std::nullopt;
}

}  // namespace

int visible_gpus(int devices, const std::optional<std::string>& variable) {
  if (!variable) return devices;
  int visible = 0;
  for (std::string_view left = *variable; visible < devices;) {
    const std::size_t comma = left.find(',');
    if (!names_a_device(trimmed(left.substr(0, comma)), devices)) break;
    ++visible;
    if (comma == std::string_view::npos) break;
    left.remove_prefix(comma + 1);
  }
  return visible;
}

int visible_gpus() {
  int devices = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", ignored)) {
    const std::string name = entry.path().filename();
    constexpr std::string_view prefix = "nvidia";
    if (name.starts_with(prefix) && name.size() > prefix.size() &&
        std::all_of(name.begin() + prefix.size(), name.end(),
                    [](unsigned char c) { return std::isdigit(c); }))
      ++devices;
  }
  return visible_gpus(devices, hiding_variable());
}

std::string why_no_gpu() {
  const auto variable = hiding_variable();
  return "there is no GPU here: no /dev/nvidia0, or CUDA_VISIBLE_DEVICES hides it (it is " +
         (variable ? "'" + *variable + "'" : "not set") + ")";
}

std::string too_few_gpus(int gpus, int ranks) {
  return " needs a GPU for each rank; GPUs: " + std::to_string(gpus) + ", ranks: " + std::to_string(ranks) +
         "\n  set processes_per_node to " + std::to_string(gpus) + " or lower, or backend = \"gloo\"";
}

}  // namespace hookline
