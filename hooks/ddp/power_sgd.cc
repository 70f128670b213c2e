#include "hooks/ddp/power_sgd.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <utility>

#include "base/log.h"
#include "hooks/numerics/finite_check.h"
#include "hooks/numerics/low_rank.h"

namespace hookline {

/// What is kept of a bucket between steps. Used by one step at a time: the Reducer waits for a bucket's future
/// before the next step begins.
struct PowerSgd::Bucket {
  PowerSgdLayout layout;
  Factors p_factors, q_factors;
  at::Tensor p;  // [p_numel]
  at::Tensor q;  // [q_numel]
  bool has_q = false;
  std::vector<std::uint64_t> redraw_seeds;  // of the step, one for each matrix
  FiniteCheck is_finite;

  // With error feedback: gradients and error of the last step, in one [padded_numel]. In the matrices the product of P and Q
  // is still to be taken off to leave the error, if `holds_product`; the plain segments hold the error itself.
  // Without: a copy of the gradients, with zeros behind it, if the matrix is larger than the bucket; else undefined.
  at::Tensor sum;
  bool holds_product = false;
  FactorPair before;  // the P and Q of the last step, while those of this one are made

  /// Leaves in `sum` the error that it stands for.
  void form_error() {
    if (holds_product) accumulate(layout.matrices, sum, {p, q}, at::Tensor());
    holds_product = false;
  }
};

/// Counts elements before and after compression and logs the rate now and then, the first time at once.
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
      log::warning(name +
                   ": no gradient of this model is compressed: an n by m matrix is if (n + m) * rank * "
                   "min_compression_rate < n * m; make the model larger or the rank smaller");
    }
  }

 private:
  std::int64_t frequency_;
  bool reports_;
  std::int64_t before_ = 0, after_ = 0;
  std::optional<std::int64_t> last_report_;
};

namespace {

// DDP rebuilds its buckets after its first step, and start_powerSGD_iter counts these, too.
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
  q_stage_ = comm().open_stage("q");
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

std::shared_ptr<PowerSgd::Bucket> PowerSgd::bucket_of(const GradBucket& bucket) {
  std::shared_ptr<Bucket>& state = buckets_[bucket];
  if (!state) state = make_bucket(shapes_of(bucket.gradients()), bucket.buffer().options());
  return state;
}

std::shared_ptr<PowerSgd::Bucket> PowerSgd::make_bucket(const BucketShapes& shapes,
                                                        const at::TensorOptions& like) const {
  auto state = std::make_shared<Bucket>();
  const PowerSgdLayout& layout = state->layout = layout_(shapes, options_);
  state->p_factors = layout.p_factors();
  state->q_factors = layout.q_factors();
  state->p = at::empty({layout.p_numel}, like);
  state->q = at::empty({layout.q_numel}, like);
  state->redraw_seeds.resize(layout.matrices.size());
  if (options_.use_error_feedback) {
    state->sum = at::zeros({layout.padded_numel}, like);
    state->before = {at::empty({layout.p_factors_numel()}, like), at::empty({layout.q_numel}, like)};
  } else if (layout.padded_numel != layout.numel) {
    state->sum = at::zeros({layout.padded_numel}, like);
  }
  return state;
}

HookState PowerSgd::save_state(const BucketParameters& buckets) const {
  HookState state;
  state.numbers = {
      {"steps", iteration_}, {"draws", seeds_.drawn()}, {"redraws", static_cast<std::int64_t>(redraws_)}};
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const std::shared_ptr<Bucket>* bucket = buckets_.find(buckets[i]);
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
    const std::shared_ptr<Bucket>* bucket = buckets_.find(parameters);
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

void PowerSgd::start_q(Bucket& state) {
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
  // Any seed will do that is equal on all ranks and keeps clear of the stream that parity depends on.
  for (std::uint64_t& seed : state.redraw_seeds)
    seed = 0x9E3779B97F4A7C15u * ++redraws_ + static_cast<std::uint64_t>(options_.random_seed);
  orthogonalize_start(state.q, state.q_factors, options_.orthogonalization_epsilon, state.redraw_seeds);
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

  std::shared_ptr<Bucket> state = bucket_of(bucket);
  const PowerSgdLayout& layout = state->layout;
  statistics_->count(layout, bucket.is_last(), iteration, name_);

  // `work` holds what this rank has to send: with error feedback once the gradients are added to it, where they are read anyway.
  const bool feedback = options_.use_error_feedback;
  const at::Tensor work = state->sum.defined() ? state->sum : gradients;
  const at::Tensor added = feedback ? gradients : at::Tensor();
  if (!feedback && state->sum.defined()) work.narrow(0, 0, layout.numel).copy_(gradients);

  FactorPair before;
  if (state->holds_product) {
    before = state->before;
    before.p.copy_(state->p.narrow(0, 0, before.p.numel()));
    before.q.copy_(state->q);
    state->holds_product = false;
  }
  start_q(*state);
  accumulate_and_multiply(layout.matrices, work, before, added, {state->p, state->q});
  add_plain(layout.plain, feedback ? work : at::Tensor(), gradients, state->p);

  // Each value of the matrices is part of a value of P.
  if (!state->is_finite.passes(state->p)) {
    throw HookError(name_ +
                    " can't carry NaN or infinity, which its state would keep for good, and the gradients " +
                    (gradients.is_cpu() ? "hold" : "of the step before held") + " some" +
                    (gradients.scalar_type() == at::kHalf ? " (float16 ends at 65504)" : "") +
                    ": lower the learning rate, or clip or scale the loss");
  }

  auto turn = std::make_shared<Turn>(q_stage_);
  const int world = world_size();
  const double epsilon = options_.orthogonalization_epsilon;

  FuturePtr q_ready =
      then_start(comm().all_reduce(state->p),
                 [state, work, turn = std::move(turn), epsilon](const at::Tensor&) -> FuturePtr {
                   orthogonalize(state->p, state->p_factors, epsilon);
                   multiply_transposed(state->layout.matrices, work, {state->p, state->q});
                   if (state->layout.matrices.empty()) return completed(state->q);
                   return turn->all_reduce(state->q);
                 });

  return then(q_ready, [state, gradients, world, feedback](const at::Tensor&) {
    state->q.div_(world);
    reconstruct(state->layout.matrices, {state->p, state->q}, gradients);
    const std::int64_t behind = state->layout.p_factors_numel();
    state->p.narrow(0, behind, state->layout.p_numel - behind).div_(world);
    take_plain(state->layout.plain, state->p, gradients, feedback ? state->sum : at::Tensor());
    state->holds_product = feedback;
    return gradients;
  });
}

}  // namespace hookline
