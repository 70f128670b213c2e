#include "parallel/ddp/gradient_recorder.h"

#include <system_error>
#include <utility>

#include "base/error.h"

namespace hookline {

GradientRecorder::GradientRecorder(std::filesystem::path folder, std::int64_t steps, int rank,
                                   const std::vector<std::string>& names,
                                   const std::vector<at::Tensor>& parameters)
    : folder_(std::move(folder)), steps_(steps), rank_(rank) {
  for (std::size_t i = 0; i < names.size(); ++i) names_[parameters[i].unsafeGetTensorImpl()] = names[i];
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) {
    throw Error("[training] record_gradients: the folder '" + folder_.string() +
                "' can't be made: " + error.message());
  }
}

void GradientRecorder::take(const GradBucket& bucket) {
  if (step_ >= steps_) return;
  const std::vector<at::Tensor> parameters = bucket.parameters(), gradients = bucket.gradients();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    gradients_[names_.at(parameters[i].unsafeGetTensorImpl())] =
        gradients[i].detach().to(at::kCPU, false, /*copy=*/true);
  }
  if (!bucket.is_last()) return;
  write_safetensors(folder_ / gradient_file_name(step_++, rank_), gradients_);
  gradients_.clear();
}

}  // namespace hookline
