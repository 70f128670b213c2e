// One rank of `hookline advise` for a model of which only the parameters' shapes are known. It runs training
// steps that such a model might have, until all ranks have chosen a hook.
//
//     advise_rank ROWS SIZES...              SIZES: "1024x512", of a parameter
//
// A parameter with two or more dimensions is multiplied by a batch of ROWS rows, as a matrix with as many
// rows as its first dimension; parameters with fewer dimensions are summed up. Backward reaches the
// parameters in reverse order.
#include <torch/nn/module.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <charconv>
#include <cstdint>
#include <exception>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "parallel/hookline.h"

namespace hookline {
namespace {

std::int64_t number_of(const std::string& text) {
  std::int64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || number < 1)
    throw Error("'" + text + "' is not a size");
  return number;
}

std::vector<std::int64_t> sizes_of(const std::string& text) {
  std::vector<std::int64_t> sizes;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, 'x');) sizes.push_back(number_of(part));
  return sizes;
}

struct ShapesImpl : torch::nn::Module {
  ShapesImpl(std::int64_t rows, const std::vector<std::vector<std::int64_t>>& shapes) {
    for (const auto& sizes : shapes) {
      const at::Tensor values = torch::randn(sizes) * 0.01;
      weights.push_back(register_parameter("parameter" + std::to_string(weights.size()), values));
      const at::Tensor matrix = values.flatten(1 < values.dim() ? 1 : 0);
      inputs.push_back(matrix.dim() == 2 ? torch::randn({rows, matrix.size(1)}) : at::Tensor());
    }
  }

  at::Tensor forward(const at::Tensor& scale) {
    at::Tensor loss = scale;
    for (std::size_t i = 0; i < weights.size(); ++i)
      loss = loss + (inputs[i].defined() ? inputs[i].matmul(weights[i].flatten(1).t()).square().mean()
                                         : weights[i].sum());
    return loss;
  }

  std::vector<at::Tensor> weights, inputs;
};
TORCH_MODULE(Shapes);

int run(int argc, char** argv) {
  if (argc < 3) throw Error("usage: advise_rank ROWS SIZES...; hookline advise starts it");
  std::vector<std::vector<std::int64_t>> shapes;
  for (int i = 2; i < argc; ++i) shapes.push_back(sizes_of(argv[i]));
  auto accelerator = Accelerator::from_env();
  Shapes net(number_of(argv[1]), shapes);
  net->to(accelerator.device());
  for (at::Tensor& input : net->inputs)
    if (input.defined()) input = input.to(accelerator.device());
  torch::optim::SGD sgd(net->parameters(), 1e-4);
  auto [model, optimizer] = accelerator.prepare(net, sgd);
  const at::Tensor scale = torch::zeros({}, accelerator.device());
  for (;;) {  // until the choice is made, which ends the process
    optimizer.zero_grad();
    accelerator.backward(model->forward(scale));
    optimizer.step();
  }
}

}  // namespace
}  // namespace hookline

int main(int argc, char** argv) {
  try {
    return hookline::run(argc, argv);
  } catch (const std::exception& error) {
    hookline::log::error(error.what());
    return 1;
  }
}
