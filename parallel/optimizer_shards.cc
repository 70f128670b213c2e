#include "parallel/optimizer_shards.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/hash.h>

#include <algorithm>
#include <deque>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/text/bytes_text.h"
#include "base/text/count_text.h"
#include "hooks/ddp/scatter_average.h"
#include "parallel/resume/optimizer_state.h"
#include "parallel/shards/gradient_shares.h"
#include "parallel/shards/shard_channels.h"

namespace hookline {
namespace {

/// Bytes per exchange, and how many exchanges are under way at a time: that takes little memory, most of it
/// in caches.
constexpr std::int64_t kGatheredBytes = 4 * 1024 * 1024;
constexpr std::size_t kMostUnderWay = 2;

/// How many parameters of which optimizer were stepped, in one number.
constexpr std::int64_t kMostOptimizers = 1 << 16;
std::int64_t unit_of(std::int64_t number, std::size_t stepped) {
  return static_cast<std::int64_t>(stepped) * kMostOptimizers + number % kMostOptimizers;
}

ChannelTexts texts_of_gathers() {
  const auto name = [](const ShardOperation& operation) {
    return "stepped " + count_text(operation.unit / kMostOptimizers, "parameter") + " of optimizer " +
           std::to_string(operation.unit % kMostOptimizers);
  };
  return {name, "the ranks stepped different parameters of a sharded optimizer",
          "A parameter without a gradient is not stepped: every rank must step the same optimizers in the "
          "same order, with gradients for the same parameters"};
}

ChannelTexts texts_of_scatters() {
  const auto name = [](const ShardOperation& operation) {
    return "averages its share of bucket " + std::to_string(operation.unit) + ", of " +
           count_text(operation.flat, "element");
  };
  return {name, "the ranks average different gradients",
          "Every rank must run the same backward passes in the same order"};
}

/// `rows` rows of `count` elements, one for each rank, which begin `step` elements apart.
at::Tensor rows_of(const at::Tensor& tensor, std::int64_t begin, std::int64_t rows, std::int64_t step,
                   std::int64_t count) {
  return tensor.as_strided({rows, count}, {step, 1}, tensor.storage_offset() + begin);
}

}  // namespace

/// As long as this object lives, the optimizer's parameters and their gradients are only this rank's shares
/// of them.
class OptimizerShards::Pieces {
 public:
  Pieces(torch::optim::Optimizer& optimizer, const ShardedParameters& shards, int rank) {
    const at::NoGradGuard no_grad;
    std::set<const ShardedParameter*> seen;
    for (const auto& group : optimizer.param_groups()) {
      for (const at::Tensor& parameter : group.params()) {
        const ShardedParameter* const entry = shards.find(parameter);
        if (!entry || !entry->is_whole() || !seen.insert(entry).second) continue;
        if (parameter.sizes() != at::IntArrayRef(entry->sizes) ||
            parameter.strides() != at::IntArrayRef(entry->strides))
          throw Error("the parameter '" + entry->name +
                      "' was given other sizes or another memory layout after its optimizer was sharded "
                      "([ddp] shard_optimizer): change a parameter's values in place");
        Swapped swapped{entry, parameter, parameter.variable_data(), {}, {}, parameter.grad()};
        if (swapped.gradient.defined()) {
          entry->gradients->before_step(entry->index);
          swapped.piece_of_gradient = shards.gradient_piece(parameter);
          swapped.gradient = parameter.grad();
        }
        swapped.piece = part_of(swapped.whole, entry->share_of(rank));
        all_.push_back(std::move(swapped));
      }
    }
    for (Swapped& each : all_) {
      each.parameter.set_data(each.piece);
      if (each.gradient.defined()) each.parameter.mutable_grad() = each.piece_of_gradient;
    }
  }
  ~Pieces() {
    const at::NoGradGuard no_grad;
    for (Swapped& each : all_) {
      if (each.parameter.data_ptr() != each.piece.data_ptr() && each.piece.numel() > 0)
        each.piece.copy_(each.parameter.variable_data());  // the optimizer gave the parameter other memory
      each.parameter.set_data(each.whole);
      if (each.parameter.grad().defined()) each.parameter.mutable_grad() = each.gradient;
    }
  }
  Pieces(const Pieces&) = delete;
  Pieces& operator=(const Pieces&) = delete;

  bool empty() const { return all_.empty(); }
  /// The parameters that have a gradient.
  std::vector<const ShardedParameter*> stepped() const {
    std::vector<const ShardedParameter*> stepped;
    for (const Swapped& each : all_)
      if (each.gradient.defined()) stepped.push_back(each.entry);
    return stepped;
  }

 private:
  struct Swapped {
    const ShardedParameter* entry;
    at::Tensor parameter;
    at::Tensor whole, piece, piece_of_gradient, gradient;
  };

  std::vector<Swapped> all_;
};

/// Parameters of one dtype and device.
struct OptimizerShards::Group {
  std::vector<at::Tensor> parameters;
  PartLayout layout;
};

/// A gather that is under way: elements [first, first + count) of every rank's part.
struct OptimizerShards::Gather {
  std::shared_ptr<const Group> group;
  std::int64_t first, count;
  at::Tensor whole;
  ShardWork work;
};

OptimizerShards::OptimizerShards(std::shared_ptr<World> world, std::shared_ptr<ShardedParameters> shards)
    : world_(std::move(world)), shards_(std::move(shards)) {}

void OptimizerShards::add(Ddp& ddp, const DdpConfig& config,
                          const std::vector<torch::optim::Optimizer*>& optimizers) {
  if (world_->size() == 1) return;
  for (torch::optim::Optimizer* optimizer : optimizers)
    expect_it_takes_pieces(*optimizer, ddp.parameters(), Sharding::optimizer, world_->rank() == 0);
  const auto gradients = std::make_shared<GradientShares>(ddp.parameter_names(), ddp.parameters(),
                                                          world_->rank(), world_->size());
  if (!channel_) channel_ = make_shard_channel(world_, "optimizer-gathers", texts_of_gathers());
  std::unique_ptr<ScatterAverage> average;
  if (const auto kind = scatter_kind_of(config.comm_hook, config.comm_wrapper)) {
    average = std::make_unique<ScatterAverage>(
        ddp.hook_context(), make_shard_channel(world_, "optimizer-scatters", texts_of_scatters()), pool_,
        *kind);
  } else if (world_->rank() == 0) {
    std::int64_t bytes = 0;
    for (const at::Tensor& parameter : ddp.parameters())
      bytes += static_cast<std::int64_t>(parameter.nbytes());
    log::info("[ddp] shard_optimizer: " + config.comm_hook +
              " averages whole gradients on every rank; gathering the parameters therefore adds " +
              bytes_text(bytes / 2) + " to each step");
  }
  const bool is_default = config.comm_hook == "no" && config.comm_wrapper == "no";
  ddp.shard_optimizer(gradients, std::move(average), is_default);
  for (std::size_t i = 0; i < ddp.parameters().size(); ++i) {
    const at::Tensor& parameter = ddp.parameters()[i];
    shards_->add({ddp.parameter_names()[i], parameter, parameter.sizes().vec(), parameter.strides().vec(),
                  [gradients, i](int rank) { return gradients->share_of(i, rank); }, gradients, i});
  }
  // After a resume, optimizers that were prepared before the model hold state for whole parameters: cut it.
  for (torch::optim::Optimizer* optimizer : optimizers) cut_optimizer(*optimizer, *shards_, ddp.parameters());
}

void OptimizerShards::step(torch::optim::Optimizer& optimizer, std::int64_t number,
                           const std::function<void()>& own) {
  if (!channel_) return own();
  std::vector<const ShardedParameter*> stepped;
  {
    const Pieces pieces(optimizer, *shards_, world_->rank());
    stepped = pieces.stepped();
    own();
    if (pieces.empty()) return;
  }
  gather(stepped, number);
  ++steps_;
}

void OptimizerShards::gather(const std::vector<const ShardedParameter*>& stepped, std::int64_t number) {
  const at::NoGradGuard no_grad;
  std::size_t hash = 0;
  for (const ShardedParameter* each : stepped) {
    hash = c10::hash_combine(hash, std::hash<std::string>()(each->name));
    each->gradients->gathered_bytes += static_cast<std::int64_t>(each->parameter.nbytes()) / 2;
  }
  const ShardOperation operation{ShardOperation::Kind::gather_after_step, unit_of(number, stepped.size()),
                                 static_cast<std::int64_t>(hash)};
  std::deque<Gather> under_way;
  const auto finish_oldest = [&] {
    finish(under_way.front());
    under_way.pop_front();
  };
  std::size_t next = 0;
  do {  // even if nothing was stepped here: another rank may have stepped
    auto group = std::make_shared<Group>();
    std::vector<std::int64_t> numels;
    for (; next < stepped.size(); ++next) {
      const at::Tensor parameter = stepped[next]->parameter.variable_data();
      if (!numels.empty() && (parameter.scalar_type() != group->parameters[0].scalar_type() ||
                              parameter.device() != group->parameters[0].device()))
        break;
      group->parameters.push_back(parameter);
      numels.push_back(parameter.numel());
    }
    group->layout = PartLayout(numels, world_->size());
    const std::int64_t all = group->layout.elements();
    const std::int64_t bytes =
        all == 0 ? 1 : static_cast<std::int64_t>(group->parameters[0].element_size()) * world_->size();
    const std::int64_t most = std::max<std::int64_t>(1, kGatheredBytes / bytes);
    std::int64_t first = 0;
    do {
      under_way.push_back(start(group, first, std::min(most, all - first), operation));
      if (under_way.size() == kMostUnderWay) finish_oldest();
      first += most;
    } while (first < all);
  } while (next < stepped.size());
  while (!under_way.empty()) finish_oldest();
  pool_->end_step();
}

OptimizerShards::Gather OptimizerShards::start(const std::shared_ptr<const Group>& group, std::int64_t first,
                                               std::int64_t count, const ShardOperation& operation) {
  const at::TensorOptions options =
      group->parameters.empty() ? at::TensorOptions(world_->device()) : group->parameters[0].options();
  Gather gather{group, first, count, pool_->empty(world_->size() * count, options), {}};
  const at::Tensor shard = pool_->empty(count, options);
  group->layout.for_each(first, first + count, [&](const PartLayout::Stretch& each) {
    const at::Tensor& parameter = group->parameters[each.parameter];
    const at::Tensor place = shard.narrow(0, each.at, each.count);
    const std::int64_t own = each.count_of(world_->rank());
    if (own > 0) place.narrow(0, 0, own).copy_(part_of(parameter, {each.begin_of(world_->rank()), own}));
    if (own < each.count) place.narrow(0, own, each.count - own).zero_();
  });
  gather.work = channel_->all_gather(operation, gather.whole, shard);
  return gather;
}

void OptimizerShards::finish(const Gather& gather) {
  {
    const TimedWait waiting(*world_->step_clock());
    world_->wait_for_all(
        gather.work.work, gather.work.sequence, gather.work.number,
        "step " + std::to_string(steps_) + " of a sharded optimizer: gathering the parameters");
  }
  gather.group->layout.for_each(
      gather.first, gather.first + gather.count, [&](const PartLayout::Stretch& each) {
        const at::Tensor& parameter = gather.group->parameters[each.parameter];
        const auto copy = [&](std::int64_t rank, std::int64_t rows, std::int64_t count) {
          rows_of(parameter, each.begin_of(rank), rows, each.step, count)
              .copy_(rows_of(gather.whole, rank * gather.count + each.at, rows, gather.count, count));
        };
        // This rank's own share is already in place.
        const std::int64_t full = each.full(), own = world_->rank();
        if (const std::int64_t before = std::min(own, full); before > 0) copy(0, before, each.count);
        if (own + 1 < full) copy(own + 1, full - own - 1, each.count);
        for (std::int64_t rank = full; rank < world_->size(); ++rank)
          if (const std::int64_t count = each.count_of(rank); count > 0) copy(rank, 1, count);
      });
}

}  // namespace hookline
