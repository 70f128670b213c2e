#include <hookline/hookline.h>
#include <torch/torch.h>

// Points of the plane; a point's class says whether it lies in the unit circle.
struct Points : torch::data::datasets::Dataset<Points> {
  torch::Tensor at = torch::randn({4096, 2}, at::make_generator<at::CPUGeneratorImpl>(1));
  torch::data::Example<> get(size_t i) override { return {at[i], at[i].norm().lt(1).to(torch::kLong)}; }
  std::optional<size_t> size() const override { return at.size(0); }
};

int main() {
  auto accelerator = hookline::Accelerator::from_env();
  torch::nn::Sequential net(torch::nn::Linear(2, 128), torch::nn::ReLU(), torch::nn::Linear(128, 128),
                            torch::nn::ReLU(), torch::nn::Linear(128, 2), torch::nn::LogSoftmax(1));
  torch::optim::SGD sgd(net->parameters(), 0.5);
  auto [model, optimizer, loader] =
      accelerator.prepare(net, sgd, hookline::data_loader(Points(), {.batch_size = 32}));
  for (auto epoch = loader.epoch(); epoch < 5 && !accelerator.should_stop(); ++epoch) {
    torch::Tensor loss;
    for (auto& batch : loader) {
      loss = torch::nll_loss(model->forward(batch.data), batch.target);
      accelerator.backward(loss);
      optimizer.step();
      optimizer.zero_grad();
      if (accelerator.should_stop()) break;
    }
    accelerator.print("epoch " + std::to_string(epoch) + ": loss " + std::to_string(loss.item<float>()));
    accelerator.log({{"loss", loss.item<double>()}});
  }
  accelerator.end_training();
}
