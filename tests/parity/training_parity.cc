// The C++ half of the training parity test: trains on the weights and batches that training_parity.py wrote
// to a folder, and writes the resulting weights. Run by hookline launch:
//
//     hookline launch --processes-per-node 2 training_parity DIR STEPS BATCH_SIZE LEARNING_RATE SIZE…
//
// The SIZEs are the widths of the layers. All files hold float32 in this machine's byte order.
#include <ATen/ATen.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>
#include <torch/optim/sgd.h>

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "parallel/hookline.h"

namespace {

struct Options {
  std::filesystem::path folder;
  std::int64_t steps, batch_size;
  double learning_rate;
  std::vector<std::int64_t> sizes;
};

Options parse(int argc, char** argv) {
  if (argc < 7) {
    throw std::runtime_error("usage: training_parity DIR STEPS BATCH_SIZE LEARNING_RATE SIZE SIZE…");
  }
  Options options{argv[1], std::stoll(argv[2]), std::stoll(argv[3]), std::stod(argv[4]), {}};
  for (int i = 5; i < argc; ++i) options.sizes.push_back(std::stoll(argv[i]));
  return options;
}

/// Linear layers with tanh between them.
struct NetImpl : torch::nn::Module {
  explicit NetImpl(const std::vector<std::int64_t>& sizes) {
    for (std::size_t i = 1; i < sizes.size(); ++i) {
      layers.push_back(
          register_module("layer" + std::to_string(i), torch::nn::Linear(sizes[i - 1], sizes[i])));
    }
  }
  at::Tensor forward(at::Tensor x) {
    x = layers[0]->forward(x);
    for (std::size_t i = 1; i < layers.size(); ++i) x = layers[i]->forward(x.tanh());
    return x;
  }
  std::vector<torch::nn::Linear> layers;
};
TORCH_MODULE(Net);

void read(std::ifstream& file, const at::Tensor& tensor) {
  file.read(static_cast<char*>(tensor.data_ptr()), static_cast<std::streamsize>(tensor.nbytes()));
  if (!file) throw std::runtime_error("a file of floats ends too early");
}

at::Tensor read_file(const std::filesystem::path& path, at::IntArrayRef shape) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("can't read " + path.string());
  at::Tensor tensor = at::empty(shape, at::kFloat);
  read(file, tensor);
  return tensor;
}

void read_weights(const std::filesystem::path& path, const std::vector<at::Tensor>& parameters) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("can't read " + path.string());
  for (const at::Tensor& parameter : parameters) read(file, parameter);
}

void write_weights(const std::filesystem::path& path, const std::vector<at::Tensor>& parameters) {
  std::ofstream file(path, std::ios::binary);
  for (const at::Tensor& parameter : parameters) {
    file.write(static_cast<const char*>(parameter.const_data_ptr()),
               static_cast<std::streamsize>(parameter.nbytes()));
  }
  if (!file.flush()) throw std::runtime_error("can't write " + path.string());
}

void train(const Options& options) {
  auto accelerator = hookline::Accelerator::from_env();
  const std::string rank = std::to_string(accelerator.rank());
  const at::Tensor inputs = read_file(options.folder / ("inputs" + rank + ".bin"),
                                      {options.steps, options.batch_size, options.sizes.front()});
  const at::Tensor targets = read_file(options.folder / ("targets" + rank + ".bin"),
                                       {options.steps, options.batch_size, options.sizes.back()});

  // The other ranks start with random weights, which prepare() must replace.
  Net net(options.sizes);
  if (accelerator.is_main_process()) read_weights(options.folder / "initial.bin", net->parameters());
  torch::optim::SGD sgd(net->parameters(), options.learning_rate);
  auto [model, optimizer] = accelerator.prepare(net, sgd);

  for (std::int64_t step = 0; step < options.steps; ++step) {
    optimizer.zero_grad();
    accelerator.backward(at::mse_loss(model->forward(inputs[step]), targets[step]));
    optimizer.step();
  }

  write_weights(options.folder / ("ours" + rank + ".bin"), net->parameters());
  std::ofstream wire(options.folder / ("wire" + rank + ".txt"));
  wire << model.ddp().communication_stats().bytes_sent << '\n';
  if (!wire.flush()) throw std::runtime_error("can't write how much was sent");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    train(parse(argc, argv));
  } catch (const std::exception& error) {
    std::cerr << "training_parity: error: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
