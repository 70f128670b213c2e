#include "config/recording.h"

#include <cstdio>

namespace hookline {
namespace {

std::string step_name(std::int64_t step) {
  char name[40];
  std::snprintf(name, sizeof name, "step%04lld", static_cast<long long>(step));
  return name;
}

}  // namespace

std::string gradient_file_name(std::int64_t step, int rank) {
  return step_name(step) + ".rank" + std::to_string(rank) + ".safetensors";
}

std::string replayed_file_name(std::int64_t step) { return step_name(step) + ".safetensors"; }

}  // namespace hookline
