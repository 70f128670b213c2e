#include "parallel/resume/random_state.h"

#include <ATen/Context.h>

#include <mutex>
#include <utility>
#include <vector>

namespace hookline {
namespace {

std::vector<std::pair<std::string, at::Generator>> generators(c10::Device device) {
  std::vector<std::pair<std::string, at::Generator>> all{
      {"cpu", at::globalContext().defaultGenerator(at::kCPU)}};
  if (device.is_cuda()) all.emplace_back("cuda", at::globalContext().defaultGenerator(device));
  return all;
}

}  // namespace

SavedPart save_random(c10::Device device) {
  SavedPart saved;
  for (const auto& [name, generator] : generators(device)) {
    at::Generator stream = generator;
    const std::lock_guard lock(stream.mutex());
    saved.own[name] = stream.get_state();
  }
  return saved;
}

void load_random(c10::Device device, const SavedPart& saved, Resumption& resumption) {
  for (const auto& [name, generator] : generators(device)) {
    const auto state = saved.own.find(name);
    if (state == saved.own.end()) {
      resumption.resets.push_back("random numbers (" + name + ")");
      continue;
    }
    at::Generator stream = generator;
    const std::lock_guard lock(stream.mutex());
    stream.set_state(state->second);
  }
}

}  // namespace hookline
