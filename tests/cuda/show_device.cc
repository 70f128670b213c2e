// Prints where a rank computes, and whether the process has loaded libtorch's CUDA half.
#include <fstream>
#include <string>

#include "parallel/hookline.h"

int main() {
  auto accelerator = hookline::Accelerator::from_env();
  bool has_cuda = false;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    has_cuda = has_cuda || line.find("libtorch_cuda.so") != std::string::npos;
  accelerator.print(accelerator.device().str() + (has_cuda ? " with" : " without") + " libtorch_cuda");
}
