// Trains a small network on handwritten digits. A TOML file chooses the number of ranks and the gradient
// hook:
//
//     hookline launch --config examples/digits/power_sgd_fp16.toml build/bin/digits --epochs 10
#include <torch/optim/sgd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "digits_dataset.h"
#include "net.h"
#include "parallel/hookline.h"

namespace {

struct Options {
  int epochs = 10;
  double learning_rate = 0.1;
  std::string data = HOOKLINE_DIGITS_DATA;
};

/// The share of the test images that the model gets right. Each rank looks at its own part of them.
template <class Model>
double accuracy(hookline::Accelerator& accelerator, Model& model, const digits::DigitsDataset& test) {
  const at::NoGradGuard no_grad;
  const auto mine = [&](const at::Tensor& all) {
    return all.slice(0, accelerator.rank(), all.size(0), accelerator.world_size()).to(accelerator.device());
  };
  const at::Tensor right = model->forward(mine(test.images())).argmax(1).eq(mine(test.labels())).sum();
  return accelerator.reduce(right, "sum").template item<double>() / static_cast<double>(*test.size());
}

void train(const Options& options) {
  auto accelerator = hookline::Accelerator::from_env();
  digits::DigitsDataset test_set(options.data, digits::Split::test);
  digits::DigitsDataset train_set(options.data, digits::Split::train);
  digits::Net net;
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(options.learning_rate).momentum(0.9));
  auto [model, optimizer, loader] =
      accelerator.prepare(net, sgd, hookline::data_loader(train_set, {.batch_size = 32}));

  // A resumed run starts in the epoch, and at the batch, at which its checkpoint was saved.
  for (auto epoch = loader.epoch(); epoch < options.epochs && !accelerator.should_stop(); ++epoch) {
    const auto start = std::chrono::steady_clock::now();
    const double done = static_cast<double>(epoch) / options.epochs;
    sgd.param_groups()[0].options().set_lr(options.learning_rate * (1 - done));
    std::vector<at::Tensor> losses;
    for (auto& batch : loader) {
      const at::Tensor loss = at::nll_loss(model->forward(batch.data), batch.target);
      accelerator.backward(loss);
      optimizer.step();
      optimizer.zero_grad();
      losses.push_back(loss.detach());
      if (accelerator.should_stop()) break;
    }
    const double loss = accelerator.reduce(at::stack(losses).mean(), "mean").item<double>();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    char line[100];
    std::snprintf(line, sizeof line, "epoch %2lld  loss %.4f  %.2f s", static_cast<long long>(epoch + 1),
                  loss, seconds.count());
    accelerator.print(line);
    accelerator.log({{"loss", loss}, {"accuracy", accuracy(accelerator, model, test_set)}});
  }
  accelerator.end_training();

  const double right = accuracy(accelerator, model, test_set);
  accelerator.log({{"accuracy", right}});
  char line[100];
  std::snprintf(line, sizeof line, "\ntest accuracy %.2f %% of %zu images\n", 100 * right, *test_set.size());
  accelerator.print(line);
  accelerator.print(accelerator.wire_summary());
  if (const char* folder = std::getenv("HOOKLINE_RUN_DIR"))
    accelerator.print(std::string("logs and resolved config: ") + folder);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Trains a small network on handwritten digits.", "digits");
  app.add_option("--epochs", options.epochs, "Passes over the training images")
      ->check(CLI::Range(1, 100'000));
  app.add_option("--lr", options.learning_rate, "Learning rate of the first epoch; it falls to 0")
      ->check(CLI::Range(1e-6, 10.0));
  app.add_option("--data", options.data, "A data set in the form of data/digits.csv");
  try {
    app.parse(argc, argv);
    if (std::isnan(options.learning_rate)) throw CLI::ValidationError("--lr", "nan is not a learning rate");
    train(options);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const digits::DataError& error) {
    std::cerr << "digits: error: " << error.what() << '\n';
    return 2;
  }
  return 0;
}
