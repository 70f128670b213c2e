// Trains a small transformer on the characters of a text. A TOML file chooses the number of ranks and the
// gradient hook:
//
//     hookline launch --config examples/charlm/power_sgd.toml build/bin/charlm --text a_book.txt
#include <torch/nn/functional/loss.h>
#include <torch/optim/adamw.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <string>

#include "parallel/hookline.h"
#include "text_dataset.h"
#include "transformer.h"

namespace {

using charlm::Text;
using charlm::Windows;

struct Options {
  std::string text = "/usr/share/common-licenses/GPL-3";  // on every Debian
  int epochs = 3;
  std::int64_t batch_size = 16;
  double learning_rate = 0.001;
  int sample = 300;
  charlm::NetSize net;
};

at::Tensor loss_of(const at::Tensor& logits, const at::Tensor& target) {
  return at::cross_entropy_loss(logits.flatten(0, 1), target.flatten());
}

/// The mean loss over the validation text. All ranks evaluate the same number of windows.
template <class Model>
double validation_loss(hookline::Accelerator& accelerator, Model& model, const Text& text,
                       const Options& options) {
  const at::NoGradGuard no_grad;
  Windows windows(text.validation(), options.net.context, options.net.context);
  const auto ranks = static_cast<std::size_t>(accelerator.world_size());
  const std::size_t each = std::max<std::size_t>(1, *windows.size() / ranks);
  const auto batch_size = static_cast<std::size_t>(options.batch_size);
  at::Tensor sum = at::zeros({}, at::TensorOptions(accelerator.device()));
  for (std::size_t first = 0; first < each; first += batch_size) {
    std::vector<at::Tensor> data, target;
    for (std::size_t i = first; i < std::min(each, first + batch_size); ++i) {
      const auto example =
          windows.get((i * ranks + static_cast<std::size_t>(accelerator.rank())) % *windows.size());
      data.push_back(example.data);
      target.push_back(example.target);
    }
    const at::Tensor logits = model->forward(at::stack(data).to(accelerator.device()));
    sum += loss_of(logits, at::stack(target).to(accelerator.device())) * static_cast<double>(data.size());
  }
  return accelerator.reduce(sum / static_cast<double>(each), "mean").template item<double>();
}

/// The first 16 characters of the validation text, and what the model writes after them. Every rank takes
/// part, and gets the same text.
template <class Model>
std::string sample(hookline::Accelerator& accelerator, Model& model, const Text& text,
                   const Options& options) {
  const at::NoGradGuard no_grad;
  auto random = at::make_generator<at::CPUGeneratorImpl>(1);
  at::Tensor tokens = text.validation().slice(0, 0, 16);
  for (int i = 0; i < options.sample; ++i) {
    const at::Tensor seen = tokens.slice(0, std::max<std::int64_t>(0, tokens.size(0) - options.net.context));
    const at::Tensor logits = model->forward(seen.unsqueeze(0).to(accelerator.device()))[0][-1].to(at::kCPU);
    tokens = at::cat({tokens, at::multinomial((logits / 0.8).softmax(0), 1, false, random)});
  }
  return text.decoded(tokens);
}

void train(Options options) {
  auto accelerator = hookline::Accelerator::from_env();
  const Text text(options.text, options.net.context);
  options.net.vocabulary = text.vocabulary();
  charlm::Net net(options.net);
  torch::optim::AdamW adamw(net->parameters(), options.learning_rate);
  auto [model, optimizer, loader] = accelerator.prepare(
      net, adamw,
      hookline::data_loader(Windows(text.training(), options.net.context, options.net.context / 8),
                            {.batch_size = options.batch_size}));

  for (auto epoch = loader.epoch(); epoch < options.epochs && !accelerator.should_stop(); ++epoch) {
    const auto start = std::chrono::steady_clock::now();
    std::int64_t tokens = 0;
    at::Tensor loss;
    for (auto& batch : loader) {
      loss = loss_of(model->forward(batch.data), batch.target);
      accelerator.backward(loss);
      accelerator.clip_grad_norm(model->parameters(), 1.0);
      optimizer.step();
      optimizer.zero_grad();
      tokens += batch.data.numel() * accelerator.world_size();
      if (accelerator.steps_done() % 10 == 0) accelerator.log({{"loss", loss.item<double>()}});
      if (accelerator.should_stop()) break;
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    const double validation = validation_loss(accelerator, model, text, options);
    const double speed = static_cast<double>(tokens) / seconds.count();
    accelerator.log({{"validation_loss", validation}, {"tokens_per_second", speed}});
    char line[120];
    std::snprintf(line, sizeof line, "epoch %2lld  loss %.3f  validation %.3f  %.0f tokens/s",
                  static_cast<long long>(epoch + 1), loss.item<double>(), validation, speed);
    accelerator.print(line);
  }
  accelerator.end_training();
  if (options.sample > 0) accelerator.print("\n" + sample(accelerator, model, text, options) + "\n");
  accelerator.print(accelerator.wire_summary());
  accelerator.wait_for_everyone();  // ranks sample at their own pace
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Trains a small transformer on the characters of a text.", "charlm");
  app.add_option("--text", options.text, "The text; else a licence that every Debian has")
      ->capture_default_str();
  app.add_option("--epochs", options.epochs, "Passes over the text")->check(CLI::Range(1, 100'000));
  app.add_option("--batch-size", options.batch_size, "Windows of text per rank and step")
      ->check(CLI::Range(1, 4096));
  app.add_option("--lr", options.learning_rate, "Learning rate")->check(CLI::Range(1e-7, 1.0));
  app.add_option("--sample", options.sample, "Characters to write at the end")->check(CLI::Range(0, 100'000));
  app.add_option("--context", options.net.context, "Characters of context")->check(CLI::Range(8, 4096));
  app.add_option("--heads", options.net.heads, "Attention heads of a layer")->check(CLI::Range(1, 64));
  app.add_option("--width", options.net.width, "Numbers per character, a multiple of --heads")
      ->check(CLI::Range(8, 8192));
  app.add_option("--layers", options.net.layers, "Layers")->check(CLI::Range(1, 128));
  try {
    app.parse(argc, argv);
    if (std::isnan(options.learning_rate)) throw CLI::ValidationError("--lr", "nan is not a learning rate");
    if (options.net.width % options.net.heads != 0)
      throw CLI::ValidationError("--width",
                                 std::to_string(options.net.width) + " is not a multiple of --heads");
    train(options);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const charlm::TextError& error) {
    std::cerr << "charlm: error: " << error.what() << '\n';
    return 2;
  }
  return 0;
}
