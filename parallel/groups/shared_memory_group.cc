#include "parallel/groups/shared_memory_group.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/error.h"
#include "base/text/count_text.h"
#include "hooks/future.h"
#include "hooks/numerics/rank_sum.h"
#include "parallel/groups/future_work.h"
#include "parallel/groups/gloo_link.h"
#include "parallel/groups/group_errors.h"
#include "shared_memory/hand_over.h"

namespace hookline {
namespace {

// If a rank can't fetch the memory, the host's first rank waits this long for it, and only then do the others
// hear of the problem.
constexpr std::chrono::milliseconds kHandOverTimeout = std::chrono::seconds(20);

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

/// True if shared memory can take the tensor: contiguous, on the CPU, with a value for each element.
bool is_plain(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_cpu() && tensor.layout() == at::kStrided && tensor.is_contiguous();
}

/// The first number in the identity of an exchange that implements one of c10d's collectives.
constexpr std::int64_t kAllGather = -1, kBroadcast = -2;

PartExchange::Identity identity_of(std::int64_t kind, int root, const at::Tensor& tensor) {
  return {kind, root, static_cast<std::int64_t>(tensor.scalar_type()), tensor.numel()};
}

std::string text_of(const PartExchange::Identity& identity) {
  const auto [kind, root, type, elements] = identity;
  const std::string of = " of " + count_text(elements, "element") + " (" +
                         c10::toString(static_cast<c10::ScalarType>(type)) + ")";
  if (kind == kAllGather) return "an all-gather" + of;
  if (kind == kBroadcast) return "a broadcast from rank " + std::to_string(root) + of;
  return "an exchange of a sharded model's parts";
}

std::string difference_of(const std::vector<PartExchange::Identity>& all) {
  std::size_t other = 1;
  while (all[other] == all[0]) ++other;
  return "the ranks start different collectives: rank 0 " + text_of(all[0]) + ", rank " +
         std::to_string(other) + " " + text_of(all[other]);
}

std::string text_at(c10d::Store& store, const std::string& key, std::chrono::milliseconds timeout) {
  store.wait({key}, timeout);
  const std::vector<std::uint8_t> bytes = store.get(key);
  return {bytes.begin(), bytes.end()};
}

/// Every rank calls this with its problem, if it has one. Returns the problem of one of them, the same on
/// every rank; empty if there is none.
std::string problem_of_any(c10d::Store& store, const std::string& name, const std::string& own, int size,
                           std::chrono::milliseconds timeout) {
  const std::string problem = name + "/problem", all = name + "/all";
  if (!own.empty()) store.set(problem, bytes_of(own));
  if (store.add(name + "/asked", 1) == size)
    store.set(all, store.check({problem}) ? store.get(problem) : std::vector<std::uint8_t>{});
  return text_at(store, all, timeout);
}

}  // namespace

bool can_share_memory(const HostLayout& layout) {
  return layout.all_may_share && layout.most_ranks() <= SharedCollectives::kMostRanks;
}

std::unique_ptr<SharedCollectives> open_shared_memory(c10d::Store& store, const HostLayout& layout,
                                                      std::chrono::milliseconds timeout,
                                                      std::string& problem) {
  const std::string key = "shared_memory", address_key = key + "/host/" + std::to_string(layout.own);
  const int local_rank = layout.local_rank, local_size = static_cast<int>(layout.local_ranks().size());
  const std::size_t bytes = SharedCollectives::bytes_for(local_size);
  std::shared_ptr<SharedSegment> segment;
  std::unique_ptr<SharedCollectives> memory;
  std::string own_problem;
  bool is_announced = local_size == 1;
  try {
    if (local_rank == 0) {
      segment = std::make_shared<SharedSegment>(bytes);
      SharedCollectives::prepare(*segment, local_size);
      if (local_size > 1) {
        SegmentSource source(*segment);
        store.set(address_key, bytes_of(source.address()));
        is_announced = true;
        source.hand_over(local_size - 1, std::min(timeout, kHandOverTimeout));
      }
    } else if (const std::string address = text_at(store, address_key, timeout); !address.empty()) {
      segment = receive_segment(address, bytes, std::min(timeout, kHandOverTimeout));
    }
    if (segment) memory = std::make_unique<SharedCollectives>(segment, local_rank, local_size, timeout);
  } catch (const std::exception& error) {
    own_problem = "rank " + std::to_string(layout.local_ranks()[static_cast<std::size_t>(local_rank)]) +
                  ": " + error.what();
    if (local_rank == 0 && !is_announced) store.set(address_key, std::vector<std::uint8_t>{});
  }
  int size = 0;
  for (const auto& host : layout.hosts) size += static_cast<int>(host.size());
  problem = problem_of_any(store, key, own_problem, size, timeout);
  if (!problem.empty()) memory.reset();
  return memory;
}

SharedMemoryGroup::SharedMemoryGroup(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                     c10::intrusive_ptr<Options> options, const HostLayout& layout,
                                     SumScope scope, std::unique_ptr<SharedCollectives> memory)
    : GlooGroup(store, rank, size, std::move(options)),
      layout_(layout),
      scope_(scope),
      memory_(std::move(memory)) {
  if (layout.is_one_host()) return;
  OtherMachines others;
  others.names = layout.local_ranks();
  if (scope != SumScope::inside_hosts) others.links = layout.fewest_ranks();
  if (layout.local_rank < others.links) {
    std::vector<int> linked;
    for (const auto& host : layout.hosts) linked.push_back(host[static_cast<std::size_t>(layout.local_rank)]);
    others.link = std::make_unique<GlooLink>(getContext(0), std::move(linked), layout.own, options_->timeout);
  }
  memory_->join(std::move(others));
  if (scope == SumScope::all_ranks && HostGather::fits(layout))
    host_gather_ = std::make_unique<HostGather>(layout, memory_);
}

c10::intrusive_ptr<c10d::Work> SharedMemoryGroup::allreduce(std::vector<at::Tensor>& tensors,
                                                            const c10d::AllreduceOptions& options) {
  const bool is_one = tensors.size() == 1 && is_plain(tensors[0]);
  const RankSum sum = is_one ? rank_sum_of(tensors[0].scalar_type()) : nullptr;
  if (!sum || options.reduceOp != c10d::ReduceOp::SUM) {
    if (scope_ != SumScope::all_ranks)
      throw Error(
          "with [ddp] comm_scope = \"between_hosts\" a hook can only sum tensors on the CPU that are "
          "contiguous and hold "
          "floating-point numbers or integers: make them contiguous, or leave comm_scope out");
    return GlooGroup::allreduce(tensors, options);
  }
  const at::Tensor& tensor = tensors[0];
  Reduction reduction;
  reduction.data = tensor.mutable_data_ptr();
  reduction.elements = static_cast<std::size_t>(tensor.numel());
  reduction.element_bytes = tensor.element_size();
  reduction.type = static_cast<std::uint32_t>(tensor.scalar_type());
  reduction.sum = sum;
  reduction.is_equal_on_machine = scope_ == SumScope::between_hosts;
  return start(std::move(reduction), {}, {tensor});
}

c10::intrusive_ptr<c10d::Work> SharedMemoryGroup::allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                                            std::vector<at::Tensor>& inputs,
                                                            const c10d::AllgatherOptions& options) {
  const bool is_one = layout_.is_one_host() && inputs.size() == 1 && outputs.size() == 1 &&
                      is_plain(inputs[0]) && outputs[0].size() == static_cast<std::size_t>(getSize());
  if (!is_one || !std::all_of(outputs[0].begin(), outputs[0].end(), [&](const at::Tensor& output) {
        return is_plain(output) && output.scalar_type() == inputs[0].scalar_type() &&
               output.numel() == inputs[0].numel();
      }))
    return GlooGroup::allgather(outputs, inputs, options);
  PartExchange parts;
  parts.identity = identity_of(kAllGather, 0, inputs[0]);
  parts.difference = difference_of;
  parts.sent = inputs[0].const_data_ptr();
  parts.part_bytes = inputs[0].nbytes();
  parts.sends_same_to_all = true;
  for (const at::Tensor& output : outputs[0]) parts.received_from.push_back(output.mutable_data_ptr());
  return start(std::move(parts), {inputs[0]}, outputs[0]);
}

c10::intrusive_ptr<c10d::Work> SharedMemoryGroup::broadcast(std::vector<at::Tensor>& tensors,
                                                            const c10d::BroadcastOptions& options) {
  if (!layout_.is_one_host() || tensors.size() != 1 || !is_plain(tensors[0]) || options.rootTensor != 0 ||
      options.rootRank < 0 || options.rootRank >= getSize())
    return GlooGroup::broadcast(tensors, options);
  PartExchange parts;
  parts.only_from = static_cast<int>(options.rootRank);
  parts.identity = identity_of(kBroadcast, parts.only_from, tensors[0]);
  parts.difference = difference_of;
  parts.received = tensors[0].mutable_data_ptr();
  parts.sent = parts.received;
  parts.part_bytes = tensors[0].nbytes();
  return start(std::move(parts), {}, tensors);
}

c10::intrusive_ptr<c10d::Work> SharedMemoryGroup::exchange(Exchange wanted) {
  if (!layout_.is_one_host()) {
    const bool gathers = host_gather_ && wanted.sends_same_to_all && wanted.part_bytes > 0;
    const std::vector<int> to = gathers ? host_gather_->receivers() : other_ranks();
    const std::vector<int> from = gathers ? host_gather_->senders() : to;
    const auto over_gloo = std::make_shared<Exchange>(wanted);
    const auto made = make_exchange(routes_between(to, from, wanted.sends_same_to_all), over_gloo);
    in_turn(made, over_gloo)();
    if (!gathers) return made;
    return host_gather_->hand_on(made, std::move(wanted));
  }
  PartExchange parts;
  parts.identity = wanted.identity;
  parts.part_bytes = wanted.part_bytes;
  parts.sends_same_to_all = wanted.sends_same_to_all;
  parts.difference = std::move(wanted.difference);
  std::vector<at::Tensor> held;
  if (wanted.part_bytes > 0) {
    parts.sent = wanted.sent.const_data_ptr();
    parts.received = wanted.received.mutable_data_ptr();
    held = {std::move(wanted.received), std::move(wanted.sent)};
  }
  return start(std::move(parts), std::move(held), {});
}

int SharedMemoryGroup::addends(at::ScalarType type) const {
  return sums_before_it_sends(type) ? static_cast<int>(layout_.hosts.size()) : getSize();
}

bool SharedMemoryGroup::sums_before_it_sends(at::ScalarType type) const {
  return !layout_.is_one_host() && layout_.most_ranks() > 1 && scope_ == SumScope::all_ranks &&
         rank_sum_of(type);
}

c10::intrusive_ptr<c10d::Work> SharedMemoryGroup::scatter(Exchange wanted, at::ScalarType type) {
  if (!sums_before_it_sends(type) || wanted.part_bytes == 0) return exchange(std::move(wanted));
  Reduction reduction;
  reduction.data = wanted.sent.mutable_data_ptr();
  reduction.element_bytes = c10::elementSize(type);
  reduction.elements = wanted.part_bytes / reduction.element_bytes * static_cast<std::size_t>(getSize());
  reduction.type = static_cast<std::uint32_t>(type);
  reduction.sum = rank_sum_of(type);
  reduction.stays_on_machine = true;
  const auto between_hosts = std::make_shared<Exchange>(std::move(wanted));
  const auto made = make_exchange(routes_of_host_sums(), between_hosts);
  const auto on_host = start(std::move(reduction), {between_hosts->sent}, {})->getFuture();
  on_host->addCallback(
      [start_exchange = in_turn(made, between_hosts), between_hosts](c10::ivalue::Future& done) {
        if (done.hasError() && is_on_every_rank(done.exception_ptr())) {
          between_hosts->part_bytes =
              0;  // only compare identities, so that every host learns the whole difference
        } else if (done.hasError()) {
          between_hosts->failure = done.exception_ptr();
        }
        start_exchange();
      });
  return made;
}

GlooGroup::Routes SharedMemoryGroup::routes_of_host_sums() const {
  const auto place_in = [&](const std::vector<int>& host, int local_rank) {
    return static_cast<std::size_t>(local_rank) % host.size();
  };
  Routes routes;
  for (std::size_t host = 0; host < layout_.hosts.size(); ++host) {
    const std::vector<int>& ranks = layout_.hosts[host];
    if (host == layout_.own) continue;
    for (std::size_t local = 0; local < ranks.size(); ++local)
      if (place_in(layout_.local_ranks(), static_cast<int>(local)) ==
          static_cast<std::size_t>(layout_.local_rank))
        routes.to.push_back({ranks[local], static_cast<std::size_t>(ranks[local])});
    routes.from.push_back({ranks[place_in(ranks, layout_.local_rank)], host});
  }
  routes.own_sent = static_cast<std::size_t>(getRank());
  routes.own_received = layout_.own;
  return routes;
}

std::function<void()> SharedMemoryGroup::in_turn(const c10::intrusive_ptr<AsyncWork>& made,
                                                 const std::shared_ptr<Exchange>& wanted) {
  const c10::weak_intrusive_ptr<SharedMemoryGroup> weak(
      c10::intrusive_ptr<SharedMemoryGroup>::unsafe_reclaim_from_nonowning(this));
  return [order = exchanges_, ticket = exchanges_->draw_ticket(), weak, made, wanted] {
    order->run(ticket, [weak, made, wanted] {
      const c10::intrusive_ptr<SharedMemoryGroup> group = weak.lock();
      if (!group && !wanted->failure) wanted->failure = group_has_ended();
      if (wanted->failure) {
        AsyncWork::execute(made);
      } else {
        group->enqueue(made);
      }
    });
  };
}

template <class Collective>
c10::intrusive_ptr<c10d::Work> SharedMemoryGroup::start(Collective collective, std::vector<at::Tensor> held,
                                                        std::vector<at::Tensor> result) {
  auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  collective.done = [future, held = std::move(held),
                     result = std::move(result)](const std::exception_ptr& error) mutable {
    held.clear();  // before the future completes: waiters may count on it
    if (error) {
      future->setError(error);
    } else {
      future->markCompleted(c10::IValue(std::move(result)));
    }
  };
  if (host_gather_) {
    host_gather_->start(std::move(collective));
  } else {
    memory_->start(std::move(collective));
  }
  return c10::make_intrusive<FutureWork>(future);
}

bool SharedMemoryGroup::is_idle() { return memory_->is_idle() && GlooGroup::is_idle(); }

void SharedMemoryGroup::close_connections() {
  memory_->stop();
  GlooGroup::close_connections();
}

}  // namespace hookline
