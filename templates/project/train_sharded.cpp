#include <hookline/hookline.h>
#include <torch/torch.h>

// Points of the plane; a point's class says whether it lies in the unit circle.
struct Points : torch::data::datasets::Dataset<Points> {
  torch::Tensor at = torch::randn({4096, 2}, at::make_generator<at::CPUGeneratorImpl>(1));
  torch::data::Example<> get(size_t i) override { return {at[i], at[i].norm().lt(1).to(torch::kLong)}; }
  std::optional<size_t> size() const override { return at.size(0); }
};

// As an FsdpUnit its parameters are whole only while its forward or its backward runs; in between, each rank
// holds its part.
struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(int64_t width)
      : up(register_module("up", torch::nn::Linear(width, 4 * width))),
        down(register_module("down", torch::nn::Linear(4 * width, width))) {}
  torch::Tensor forward(const torch::Tensor& x) { return x + down(torch::relu(up(x))); }
  torch::nn::Linear up, down;
};
TORCH_MODULE(Block);

int main() {
  auto accelerator = hookline::Accelerator::from_env();
  torch::nn::Sequential net(torch::nn::Linear(2, 64), hookline::FsdpUnit<Block>(64),
                            hookline::FsdpUnit<Block>(64), torch::nn::Linear(64, 2),
                            torch::nn::LogSoftmax(1));
  torch::optim::AdamW adamw(net->parameters(), 0.003);
  auto [model, optimizer, loader] =
      accelerator.prepare(net, adamw, hookline::data_loader(Points(), {.batch_size = 32}));
  for (auto epoch = loader.epoch(); epoch < 5 && !accelerator.should_stop(); ++epoch) {
    torch::Tensor loss;
    for (auto& batch : loader) {
      loss = torch::nll_loss(model->forward(batch.data), batch.target);
      accelerator.backward(loss);
      accelerator.clip_grad_norm(model->parameters(), 1.0);
      optimizer.step();
      optimizer.zero_grad();
      if (accelerator.should_stop()) break;
    }
    accelerator.print("epoch " + std::to_string(epoch) + ": loss " + std::to_string(loss.item<float>()));
    accelerator.log({{"loss", loss.item<double>()}});
  }
  accelerator.end_training();
  // Every rank takes part in making the model whole; one of them saves it.
  model->summon_full_params([&] {
    if (accelerator.is_main_process()) torch::save(net, "model.pt");
  });
}
