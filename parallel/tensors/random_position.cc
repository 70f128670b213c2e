#include "parallel/tensors/random_position.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

namespace hookline {

RandomPosition random_position() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  const at::mt19937_data_pod now = at::check_generator<at::CPUGeneratorImpl>(generator)->engine().data();
  return {now.seed_, now.next_, now.state_[0]};
}

}  // namespace hookline
