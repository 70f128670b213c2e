#include "hooks/ddp/power_sgd.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <utility>

#include "base/log.h"
#include "hooks/ddp/power_sgd_bucket.h"

namespace hookline {

/// Counts elements before and after compression. Logs the rate at the first step and now and then after it.
class PowerSgd::Statistics {
 public:
  Statistics(std::int64_t frequency, bool reports) : frequency_(frequency), reports_(reports) {}

  void count(const PowerSgdLayout& layout, bool is_last, std::int64_t iteration, const std::string& name) {
    before_ += layout.numel;
    after_ += layout.compressed_numel();
    if (!is_last || (last_report_ && iteration - *last_report_ < frequency_)) return;
    last_report_ = iteration;
    if (!reports_) return;
    char text[200];
    std::snprintf(text, sizeof text,
                  "%s: compression statistics after step %lld: %lld elements became %lld, rate %.2f",
                  name.c_str(), static_cast<long long>(iteration), static_cast<long long>(before_),
                  static_cast<long long>(after_), static_cast<double>(before_) / static_cast<double>(after_));
    log::info(text);
    if (after_ >= before_) {
      log::warning(
          name +
          ": compression saves nothing: at least as many elements are sent as without it; make the model "
          "larger or the rank smaller");
    }
  }

 private:
  std::int64_t frequency_;
  bool reports_;
  std::int64_t before_ = 0, after_ = 0;
  std::optional<std::int64_t> last_report_;
};

namespace {

// start_powerSGD_iter also counts the steps, this many, until DDP has rebuilt its buckets.
constexpr std::int64_t kStepsUntilBucketsAreFinal = 2;

BucketShapes shapes_of(const std::vector<at::Tensor>& tensors) {
  BucketShapes shapes;
  for (const at::Tensor& tensor : tensors) shapes.push_back(tensor.sizes().vec());
  return shapes;
}

}  // namespace

PowerSgd::PowerSgd(HookContext context, const OptionMap& options, std::string name, LayoutFunction layout)
    : CommHook(std::move(context)),
      name_(std::move(name)),
      options_(PowerSgdOptions::from(options)),
      layout_(layout),
      seeds_(options_.random_seed) {
  if (this->context().buckets_are_final)
    options_.start_powerSGD_iter =
        std::max<std::int64_t>(0, options_.start_powerSGD_iter - kStepsUntilBucketsAreFinal);
  q_channel_ = comm().open_channel("q");
  statistics_ =
      std::make_unique<Statistics>(options_.compression_stats_logging_frequency, comm().rank() == 0);
}

PowerSgd::~PowerSgd() = default;

std::string PowerSgd::describe() const {
  return name_ + "(rank=" + std::to_string(options_.matrix_approximation_rank) +
         ", start=" + std::to_string(options_.start_powerSGD_iter) + ")";
}

std::int64_t PowerSgd::bytes_per_step(const std::vector<BucketShapes>& buckets, at::ScalarType dtype) const {
  std::int64_t elements = 0;
  for (const BucketShapes& shapes : buckets) elements += layout_(shapes, options_).compressed_numel();
  return elements * static_cast<std::int64_t>(c10::elementSize(dtype));
}

std::shared_ptr<PowerSgdBucket> PowerSgd::bucket_of(const GradBucket& bucket) {
  std::shared_ptr<PowerSgdBucket>& state = buckets_[bucket];
  if (!state) state = make_bucket(shapes_of(bucket.gradients()), bucket.buffer().options());
  return state;
}

std::shared_ptr<PowerSgdBucket> PowerSgd::make_bucket(const BucketShapes& shapes,
                                                      const at::TensorOptions& like) const {
  return std::make_shared<PowerSgdBucket>(layout_(shapes, options_), like, options_.use_error_feedback);
}

HookState PowerSgd::save_state(const BucketParameters& buckets) const {
  HookState state;
  state.numbers = {
      {"steps", iteration_}, {"draws", seeds_.drawn()}, {"redraws", static_cast<std::int64_t>(redraws_)}};
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const std::shared_ptr<PowerSgdBucket>* bucket = buckets_.find(buckets[i]);
    if (!bucket) continue;
    state.shared[bucket_key(i, "p")] = (*bucket)->p;
    state.shared[bucket_key(i, "q")] = (*bucket)->q;
    if (!options_.use_error_feedback) continue;
    (*bucket)->form_error();
    state.own[bucket_key(i, "error")] = (*bucket)->sum;
  }
  return state;
}

std::vector<at::Tensor> PowerSgd::held_back(const BucketParameters& buckets) const {
  std::vector<at::Tensor> errors;
  for (const auto& parameters : buckets) {
    at::Tensor& error = errors.emplace_back();
    const std::shared_ptr<PowerSgdBucket>* bucket = buckets_.find(parameters);
    if (!bucket || !options_.use_error_feedback) continue;
    (*bucket)->form_error();
    error = (*bucket)->sum.narrow(0, 0, (*bucket)->layout.numel);
  }
  return errors;
}

void PowerSgd::load_state(const HookState& state, const BucketParameters& buckets) {
  const auto number = [&](const char* key) {
    const auto found = state.numbers.find(key);
    if (found == state.numbers.end())
      throw HookError(name_ + ": the saved state has no '" + key + "': it is not of this hook");
    return found->second;
  };
  iteration_ = number("steps");
  redraws_ = static_cast<std::uint64_t>(number("redraws"));
  seeds_ = SeedStream(options_.random_seed);
  for (std::int64_t drawn = number("draws"); seeds_.drawn() < drawn;) seeds_.next();
  buckets_ = {};
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const auto q = state.shared.find(bucket_key(i, "q")), p = state.shared.find(bucket_key(i, "p"));
    if (q == state.shared.end() || p == state.shared.end()) continue;  // saved before it was first compressed
    auto bucket = make_bucket(shapes_of(buckets[i]), q->second.options().device(buckets[i].front().device()));
    const auto copy = [&](const at::Tensor& to, const at::Tensor& from) {
      if (to.sizes() != from.sizes())
        throw HookError(name_ + ": the saved state of bucket " + std::to_string(i) +
                        " is of another size: was it saved with other options?");
      to.copy_(from);
    };
    copy(bucket->q, q->second);
    copy(bucket->p, p->second);
    bucket->has_q = true;
    const auto error = state.own.find(bucket_key(i, "error"));
    if (options_.use_error_feedback && error != state.own.end()) copy(bucket->sum, error->second);
    buckets_.of(buckets[i]) = std::move(bucket);
  }
}

void PowerSgd::start_q(PowerSgdBucket& state) {
  const PowerSgdLayout& layout = state.layout;
  if (!options_.warm_start || !state.has_q) {
    NormalStream random(seeds_.next());
    for (const DrawGroup& group : layout.draws) {
      const auto first = static_cast<std::size_t>(group.first_matrix);
      const CompressedMatrix& shape = layout.matrices[first];
      const at::Tensor drawn = random.draw({group.count, shape.m, shape.rank}, state.q.scalar_type());
      for (std::int64_t i = 0; i < group.count; ++i) {
        const Factor& f = state.q_factors[first + static_cast<std::size_t>(i)];
        state.q.narrow(0, f.offset, f.rank * f.length).view({f.rank, f.length}).copy_(drawn[i].t());
      }
    }
    state.has_q = true;
  }
  // Any seed will do that is equal on all ranks and is not drawn from the stream that parity depends on.
  for (std::uint64_t& seed : state.redraw_seeds)
    seed = 0x9E3779B97F4A7C15u * ++redraws_ + static_cast<std::uint64_t>(options_.random_seed);
  orthogonalize_start(state.q, state.q_factors, options_.orthogonalization_epsilon, state.redraw_seeds);
}

/// Throws HookError for NaN or infinity. It looks at P alone, since each element of the matrices is part of
/// some sum in P.
void PowerSgd::expect_finite(PowerSgdBucket& state, const at::Tensor& gradients) const {
  if (state.is_finite.passes(state.p)) return;
  throw HookError(
      name_ + " can't handle NaN or infinity, which would stay in its state for good, and the gradients " +
      (gradients.is_cpu() ? "contain" : "of the step before contained") + " one of them" +
      (gradients.scalar_type() == at::kHalf ? " (float16 ends at 65504)" : "") +
      ": lower the learning rate, clip the gradients, or scale the loss");
}

FuturePtr PowerSgd::run(GradBucket bucket) {
  at::Tensor gradients = bucket.buffer();
  if (!gradients.is_cpu() && !gradients.is_cuda()) {
    throw HookError(name_ + ": the gradients are on " + gradients.device().str() +
                    ", and this hook works on the CPU and on CUDA devices");
  }
  const std::int64_t iteration = iteration_;
  if (bucket.is_last()) ++iteration_;
  if (iteration < options_.start_powerSGD_iter) return comm().all_reduce(gradients.div_(world_size()));

  std::shared_ptr<PowerSgdBucket> state = bucket_of(bucket);
  statistics_->count(state->layout, bucket.is_last(), iteration, name_);
  state->put_factors_aside();
  start_q(*state);
  const at::Tensor work = state->pack(gradients);
  expect_finite(*state, gradients);

  auto ticket = std::make_shared<Ticket>(q_channel_);
  FuturePtr q_ready =
      then_start(comm().all_reduce(state->p),
                 [state, work, ticket = std::move(ticket),
                  epsilon = options_.orthogonalization_epsilon](const at::Tensor&) -> FuturePtr {
                   state->multiply_transposed(work, epsilon);
                   if (state->layout.matrices.empty()) return completed(state->q);
                   return ticket->all_reduce(state->q);
                 });

  return then(q_ready, [state, gradients, world = world_size()](const at::Tensor&) {
    state->unpack(gradients, world);
    return gradients;
  });
}

}  // namespace hookline
