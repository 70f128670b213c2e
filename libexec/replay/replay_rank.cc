// One rank of hookline replay: puts recorded gradients through the hook of the config.
//
//     replay_rank INPUT OUTPUT STEPS [--json]
//
// Started by the launcher, as many times as the input has ranks.
#include <ATen/ops/cat.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text/printable.h"
#include "config/recording.h"
#include "hooks/registry/registry.h"
#include "parallel/ddp/given_gradients.h"
#include "parallel/hookline.h"
#include "parallel/tensors/safetensors.h"
#include "parallel/world/same_bits.h"

namespace hookline {
namespace {

using NamedTensor = std::pair<std::string, at::Tensor>;

std::vector<at::Tensor> values_of(const NamedTensors& tensors) {
  std::vector<at::Tensor> values;
  for (const auto& [name, tensor] : tensors) values.push_back(tensor);
  return values;
}

/// The gradients as a module's parameters, whose names must not contain dots: replaces each dot by a slash.
std::vector<NamedTensor> as_parameters(const NamedTensors& gradients) {
  std::vector<NamedTensor> parameters;
  for (const auto& [name, gradient] : gradients) {
    std::string plain = name;
    std::replace(plain.begin(), plain.end(), '.', '/');
    parameters.emplace_back(plain, gradient);
  }
  return parameters;
}

at::Tensor flat(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& tensor : tensors) parts.push_back(tensor.detach().reshape({-1}).to(at::kDouble));
  return at::cat(parts);
}

/// Throws Error unless `gradients` have the names, shapes and dtypes of the first step.
void expect_same_tensors(const NamedTensors& first, const NamedTensors& gradients,
                         const std::filesystem::path& file) {
  for (const auto& [name, tensor] : first) {
    const auto found = gradients.find(name);
    if (found == gradients.end())
      throw Error("'" + file.string() + "' lacks '" + name + "', which the first step has");
    if (found->second.sizes() != tensor.sizes() || found->second.scalar_type() != tensor.scalar_type()) {
      throw Error("'" + file.string() + "' holds '" + name +
                  "' in another shape or dtype than the first step");
    }
  }
  if (gradients.size() != first.size())
    throw Error("'" + file.string() + "' holds tensors that the first step lacks");
}

struct Row {
  std::int64_t step;
  double relative_error;
  std::int64_t bytes_sent;
  double milliseconds;
};

void print(const Row& row, bool json) {
  if (json) {
    std::printf("%s\n", nlohmann::ordered_json{{"step", row.step},
                                               {"relative_error", row.relative_error},
                                               {"bytes_sent", row.bytes_sent},
                                               {"milliseconds", row.milliseconds}}
                            .dump()
                            .c_str());
  } else {
    if (row.step == 0) std::printf("%6s %14s %14s %12s\n", "step", "relative error", "bytes sent", "ms");
    std::printf("%6lld %14.3e %14lld %12.3f\n", static_cast<long long>(row.step), row.relative_error,
                static_cast<long long>(row.bytes_sent), row.milliseconds);
  }
  std::fflush(stdout);
}

class Replay {
 public:
  Replay(std::filesystem::path input, std::filesystem::path output, bool json)
      : accelerator_(Accelerator::from_env()),
        input_(std::move(input)),
        output_(std::move(output)),
        json_(json) {}

  void run(std::int64_t steps) {
    const NamedTensors first = read(0);
    if (first.empty()) throw Error("'" + file(0).string() + "' holds no tensor");
    auto model = accelerator_.prepare(std::make_shared<GivenGradients>(as_parameters(first)));
    replay(model, first, 0);
    for (std::int64_t step = 1; step < steps; ++step) {
      const NamedTensors gradients = read(step);
      expect_same_tensors(first, gradients, file(step));
      replay(model, gradients, step);
    }
  }

 private:
  std::filesystem::path file(std::int64_t step) const {
    return input_ / gradient_file_name(step, accelerator_.rank());
  }
  NamedTensors read(std::int64_t step) const {
    NamedTensors gradients = read_safetensors(file(step));
    for (const auto& [name, gradient] : gradients) {
      if (!gradient.is_floating_point())
        throw Error("'" + file(step).string() + "' holds '" + name + "' as " +
                    c10::toString(gradient.scalar_type()) + ", and gradients are floating-point numbers");
    }
    return gradients;
  }

  void replay(DistributedModule<GivenGradients>& model, const NamedTensors& gradients, std::int64_t step) {
    std::vector<at::Tensor> own = values_of(gradients);
    at::Tensor mean = flat(own);
    accelerator_.world().all_reduce(mean);
    mean.div_(accelerator_.world_size());

    model.zero_grad();
    const at::Tensor loss = model.forward(own);
    const std::int64_t sent_before = model.ddp().communication_stats().bytes_sent;
    accelerator_.wait_for_everyone();
    const auto start = std::chrono::steady_clock::now();
    loss.backward();
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;

    NamedTensors results;
    own.clear();
    const std::vector<at::Tensor> parameters = model.parameters();
    for (const auto& [name, gradient] : gradients) {
      own.push_back(parameters[results.size()].grad());
      results.emplace(name, own.back());
    }
    expect_equal_on_all_ranks(own, step);
    if (!accelerator_.is_main_process()) return;
    write_safetensors(output_ / replayed_file_name(step), results);
    const double length = mean.norm().item<double>(), distance = (flat(own) - mean).norm().item<double>();
    print({step, distance == 0 ? 0 : distance / length,
           model.ddp().communication_stats().bytes_sent - sent_before, time.count()},
          json_);
  }

  /// Throws Error on every rank if a hook that averages left different bits behind.
  void expect_equal_on_all_ranks(const std::vector<at::Tensor>& results, std::int64_t step) {
    const std::vector<bool> same = same_bits_as_rank_zero(accelerator_.world(), results);
    const std::string& hook = accelerator_.config().ddp.comm_hook;
    if (!Registry::instance().catalog().find_hook(hook)->averages) return;
    for (int rank = 1; rank < accelerator_.world_size(); ++rank) {
      if (!same[static_cast<std::size_t>(rank)]) {
        throw Error("step " + std::to_string(step) + ": " + hook + " left other gradients on rank " +
                    std::to_string(rank) + " than on rank 0, and the ranks would drift apart");
      }
    }
  }

  Accelerator accelerator_;
  std::filesystem::path input_, output_;
  bool json_;
};

}  // namespace
}  // namespace hookline

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: replay_rank INPUT OUTPUT STEPS [--json]; hookline replay starts it\n");
    return 2;
  }
  const bool json = argc > 4 && std::string_view(argv[4]) == "--json";
  std::optional<hookline::Replay> replay;
  // Exit without leaving the run first: otherwise the other ranks would fail because this one left, and might
  // exit before the rank that knows the reason.
  const auto end = [](const std::exception& error, int code) {
    std::fprintf(stderr, "hookline replay: error: %s\n", hookline::printable_lines(error.what()).c_str());
    std::fflush(nullptr);
    std::_Exit(code);
  };
  try {
    replay.emplace(argv[1], argv[2], json);
    replay->run(std::atoll(argv[3]));
  } catch (const hookline::RunFailed& error) {
    end(error, 1);
  } catch (const std::exception& error) {
    end(error, 2);
  }
  return 0;
}
