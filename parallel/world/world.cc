#include "parallel/world/world.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>
#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/route.h"
#include "base/text/address_text.h"
#include "hooks/comm.h"
#include "parallel/groups/gloo_group.h"
#include "parallel/groups/gloo_groups.h"
#include "parallel/groups/gloo_options.h"
#include "parallel/groups/shared_memory_group.h"
#include "parallel/rank/environment.h"
#include "parallel/world/cuda_module.h"
#include "parallel/world/reachability.h"
#include "parallel/world/run_store.h"
#include "parallel/world/vector_math.h"

namespace hookline {
namespace {

// c10d's flight recorder keeps all of a process's collectives in one map, and adds a group's first one before
// it takes its lock (FlightRecorder::recordWithResetEnabled, torch 2.11). A hook's second stage starts
// collectives on Gloo's threads, so two groups may do that at once, and crash. With a buffer size of 0 it
// records nothing. The variable is read at the first collective, so it is set before main, when there is one
// thread. A value that the user set is kept.
[[maybe_unused]] const int kFlightRecorderOff = ::setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/0);

const char* const kOwnCalls = "world";  // FailureWatch's name for the World's own calls

constexpr std::chrono::seconds kReachTimeout{10};  // to connect to another node

/// Gloo writes to its sockets without MSG_NOSIGNAL, so a peer that is gone would kill this rank by SIGPIPE
/// before the rank can report which one failed. Python ignores the signal too. A handler of the program's is
/// kept.
void ignore_closed_connections() {
  struct sigaction former = {};
  ::sigaction(SIGPIPE, nullptr, &former);
  if ((former.sa_flags & SA_SIGINFO) == 0 && former.sa_handler == SIG_DFL) ::signal(SIGPIPE, SIG_IGN);
}

/// This machine's address on the route to `host`, at which the others can reach it.
std::string address_towards(const std::string& host) {
  std::string why_unknown;
  const std::string address = own_address_towards(host, why_unknown);
  if (!why_unknown.empty())
    throw Error("MASTER_ADDR is '" + host + "', which can't be resolved: " + why_unknown);
  if (address.empty())
    throw Error("no network interface of this machine leads to MASTER_ADDR '" + host + "'");
  return address;
}

}  // namespace

/// The NCCL backends of a World's groups. A backend that is destroyed without being shut down aborts the work
/// on the GPU that the host has not waited for, and logs a warning; after a failure, that is wanted.
/// Thread-safe.
class NcclBackends {
 public:
  explicit NcclBackends(std::function<bool()> has_failed) : has_failed_(std::move(has_failed)) {}

  void add(c10::intrusive_ptr<c10d::Backend> backend) {
    const std::lock_guard lock(mutex_);
    backends_.push_back(std::move(backend));
  }

  /// Shuts down `backend`, if add() was given it and it is not shut down yet.
  void end(const c10d::Backend* backend) {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(backends_.begin(), backends_.end(),
                                    [&](const auto& each) { return each.get() == backend; });
    if (found == backends_.end()) return;
    shut_down(**found);
    backends_.erase(found);
  }

  void end_all() {
    const std::lock_guard lock(mutex_);
    for (const auto& backend : backends_) shut_down(*backend);
    backends_.clear();
  }

 private:
  void shut_down(c10d::Backend& backend) const {
    if (has_failed_() || std::uncaught_exceptions() > 0) return;
    try {
      backend.shutdown();
    } catch (const std::exception& error) {
      log::warning(std::string("NCCL did not end as it should: ") + error.what());
    }
  }

  std::function<bool()> has_failed_;
  std::mutex mutex_;
  std::vector<c10::intrusive_ptr<c10d::Backend>> backends_;
};

namespace {

/// A process group that owns its Gloo group and NCCL backend: its destructor ends both.
class OwningGroup : public c10d::ProcessGroup {
 public:
  OwningGroup(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
              std::shared_ptr<GlooGroup> gloo)
      : ProcessGroup(store, rank, size), gloo_(std::move(gloo)) {}
  ~OwningGroup() override {
    if (const auto backends = nccl_backends_.lock()) backends->end(nccl_);
  }

  void set_nccl(const c10::intrusive_ptr<c10d::Backend>& nccl,
                const std::shared_ptr<NcclBackends>& backends) {
    setBackend(c10::DeviceType::CUDA, BackendType::NCCL, nccl);
    backends->add(nccl);
    nccl_ = nccl.get();
    nccl_backends_ = backends;
  }

 private:
  std::shared_ptr<GlooGroup> gloo_;
  const c10d::Backend* nccl_ = nullptr;
  std::weak_ptr<NcclBackends> nccl_backends_;
};

}  // namespace

std::shared_ptr<World> World::from_environment(std::chrono::milliseconds peer_timeout,
                                               const Placement& placement,
                                               std::chrono::milliseconds join_timeout) {
  if (!environment_text("RANK") && !environment_text("WORLD_SIZE")) {
    return std::make_shared<World>(c10::make_intrusive<c10d::HashStore>(), 0, 1, "127.0.0.1", kDefaultTimeout,
                                   peer_timeout, placement);
  }
  const int size = required_environment_number("WORLD_SIZE", 1, kMostRanks);
  const int rank = required_environment_number("RANK", 0, size - 1);
  const std::string address =
      address_for_gloo(address_towards(environment_text("MASTER_ADDR").value_or("127.0.0.1")));
  const auto store = open_part_of_store(rank, size, join_timeout);
  wait_until_all_joined(*store, rank, size, join_timeout);
  const int nodes = environment_number("GROUP_WORLD_SIZE", 1, kMostRanks, 1);
  if (nodes > 1 && environment_number("LOCAL_RANK", 0, kMostRanks - 1, 0) == 0) {
    expect_nodes_reach_each_other(*store, environment_number("GROUP_RANK", 0, nodes - 1, 0), nodes, address,
                                  std::min<std::chrono::milliseconds>(join_timeout, kReachTimeout));
  }
  return std::make_shared<World>(store, rank, size, address, kDefaultTimeout, peer_timeout, placement);
}

World::World(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, const std::string& address,
             std::chrono::milliseconds timeout, std::chrono::milliseconds peer_timeout,
             const Placement& placement)
    : store_(store),
      rank_(rank),
      size_(size),
      address_(address),
      timeout_(timeout),
      placement_(placement),
      backends_(std::make_shared<GlooGroups>()),
      nccl_backends_(std::make_shared<NcclBackends>([this] { return watch_->failure().has_value(); })),
      step_clock_(std::make_shared<StepClock>(placement.device)) {
  warm_up_vector_math();
  if (size_ > 1) ignore_closed_connections();
  // The watch has its own connection, since a call that waits for the store on this one must not block it.
  watch_ =
      std::make_unique<FailureWatch>(c10::make_intrusive<c10d::PrefixStore>("watch", store_->clone()), rank_,
                                     size_, peer_timeout, FailureWatch::kLongWait, store_holder());
  // All ranks take part, since a rank on a GPU may meet others on a CPU.
  layout_ = find_hosts(*store_, rank_, size_, placement_.shared_memory != SharedMemory::never,
                       placement_.host_label, timeout_);
  shares_memory_ = size_ > 1 && can_share_memory(layout_);
  if (placement_.shared_memory == SharedMemory::always && size_ > 1 &&
      !(shares_memory_ && layout_.is_one_host()))
    throw Error("[launch] backend = \"shm\" needs all ranks, at most " +
                std::to_string(SharedCollectives::kMostRanks) +
                ", on one machine, run by one user in one network namespace; this run's are not: set backend "
                "= \"auto\" or \"gloo\"");
  group_ = make_group("world");
}

std::string World::backend_name() const {
  if (uses_nccl()) return "NCCL";
  if (!shares_memory_ || layout_.most_ranks() == 1) return "Gloo";
  return layout_.is_one_host() ? "shared memory" : "shared memory and Gloo";
}

World::~World() {
  nccl_backends_->end_all();
  watch_.reset();  // tells the others that this rank has left, before its connections end
  group_.reset();
  backends_->end();
}

std::shared_ptr<GlooGroup> World::make_gloo(const std::string& name, SumScope scope) {
  // Connecting waits in the store for all ranks, and a failure would not end that wait. So the ranks first
  // meet in a barrier, which a failure does end.
  if (group_) barrier("making the group '" + name + "'");
  const auto store = c10::make_intrusive<c10d::PrefixStore>(unique_prefix(name), store_);
  c10::intrusive_ptr<GlooGroup> gloo;
  if (auto memory = open_memory(*store)) {
    gloo = c10::make_intrusive<SharedMemoryGroup>(store, rank_, size_, gloo_options(address_, timeout_),
                                                  layout_, scope, std::move(memory));
  } else {
    if (scope != SumScope::all_ranks)
      throw Error(
          "[ddp] comm_scope = \"between_hosts\" needs the ranks of a host to share memory, which they can't, "
          "as rank 0 has "
          "logged: leave comm_scope out");
    gloo = c10::make_intrusive<GlooGroup>(store, rank_, size_, gloo_options(address_, timeout_));
  }
  // No rank may close a group while others still connect it: they would fail with "Connection closed by
  // peer".
  meet_at(*store, "connected", size_, timeout_);
  backends_->add(gloo);
  GlooGroup* const group = gloo.get();
  return {group, [gloo = std::move(gloo), all = std::weak_ptr(backends_)](GlooGroup* ended) mutable {
            if (const auto groups = all.lock()) groups->release(ended);
            gloo.reset();
          }};
}

std::unique_ptr<SharedCollectives> World::open_memory(c10d::Store& store) {
  if (!shares_memory_) return nullptr;
  std::string problem;
  auto memory = open_shared_memory(store, layout_, timeout_, problem);
  if (memory) return memory;
  if (placement_.shared_memory == SharedMemory::always) throw Error("[launch] backend = \"shm\": " + problem);
  if (rank_ == 0) log::warning("the ranks communicate over Gloo, since they can't share memory: " + problem);
  shares_memory_ = false;
  return nullptr;
}

c10::intrusive_ptr<c10d::ProcessGroup> World::make_group(const std::string& name, SumScope scope) {
  const std::shared_ptr<GlooGroup> owned = make_gloo(name, scope);
  const auto gloo = c10::intrusive_ptr<GlooGroup>::reclaim_copy(owned.get());
  auto store = c10::make_intrusive<c10d::PrefixStore>(unique_prefix(name), store_);
  auto group = c10::make_intrusive<OwningGroup>(store, rank_, size_, owned);
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, gloo);
  if (placement_.nccl) {
    auto nccl_store = c10::make_intrusive<c10d::PrefixStore>("nccl", store);
    group->set_nccl(placement_.nccl->make_nccl(nccl_store, rank_, size_, timeout_), nccl_backends_);
  } else if (placement_.device.is_cuda()) {
    group->setBackend(c10::DeviceType::CUDA, c10d::ProcessGroup::BackendType::GLOO, gloo);
  }
  return group;
}

c10::intrusive_ptr<c10d::ProcessGroup> World::make_stage_group(const std::string& name) {
  return placement_.nccl ? group_ : make_group(name);
}

FuturePtr World::watched(const c10::intrusive_ptr<c10d::Work>& work, const std::string& what) const {
  FuturePtr done = make_future();
  work->getFuture()->addCallback([done, work](c10::ivalue::Future& finished) {
    if (finished.hasError()) {
      done->setError(collective_error(finished));
    } else {
      done->markCompleted(at::Tensor());
    }
  });
  return watch_->watched(done, what);
}

void World::wait(const c10::intrusive_ptr<c10d::Work>& work, const std::string& what) {
  watched(work, what)->waitAndThrow();
  work->synchronize();  // on a GPU, makes the current stream wait for it
}

void World::wait_for_all(const c10::intrusive_ptr<c10d::Work>& work, const std::string& sequence,
                         std::int64_t number, const std::string& what) {
  if (sequence.empty()) return wait(work, what);
  const FailureWatch::Waiting waiting(*watch_, sequence, number, what);
  wait(work, what);
}

void World::run_on_all(const std::function<c10::intrusive_ptr<c10d::Work>()>& start,
                       const std::string& what) {
  const std::int64_t call = watch_->start_call(kOwnCalls);
  wait_for_all(start(), kOwnCalls, call, what);
}

std::vector<at::Tensor> World::all_gather(const at::Tensor& tensor) {
  std::vector<std::vector<at::Tensor>> parts(1);
  for (int rank = 0; rank < size_; ++rank) parts[0].push_back(at::empty_like(tensor));
  std::vector<at::Tensor> input{tensor};
  run_on_all([&] { return group_->allgather(parts, input); }, "an all-gather");
  return parts[0];
}

bool World::can_add_up(at::ScalarType type) {
  switch (type) {
    case at::kByte:
    case at::kChar:
    case at::kInt:
    case at::kLong:
    case at::kHalf:
    case at::kBFloat16:
    case at::kFloat:
    case at::kDouble:
      return true;
    default:
      return at::isComplexType(type);
  }
}

void World::throw_cannot_add_up(const std::string& call, at::ScalarType type, const std::string& instead) {
  throw Error(call + "() can't add up tensors of dtype " + std::string(c10::toString(type)) +
              ", which the ranks' backend has no sum of: convert the tensor first, for example with "
              "tensor.to(torch::" +
              (at::isFloatingType(type) ? "kFloat" : "kLong") + "), or " + instead + "() it");
}

void World::all_reduce(const at::Tensor& tensor) {
  // Check first, since a collective that fails ends the World.
  if (!can_add_up(tensor.scalar_type()))
    throw_cannot_add_up("all_reduce", tensor.scalar_type(), "all_gather");
  std::vector<at::Tensor> in_place{tensor.is_complex() ? at::view_as_real(tensor) : tensor};
  run_on_all([&] { return group_->allreduce(in_place); }, "an all-reduce");
}

void World::broadcast(const std::vector<at::Tensor>& tensors) {
  constexpr std::size_t kLargestBytes = 250 * 1024 * 1024;
  const at::NoGradGuard no_grad;
  for (std::size_t first = 0; first < tensors.size();) {
    std::vector<at::Tensor> flat;
    std::size_t bytes = 0, next = first;
    while (next < tensors.size() && tensors[next].scalar_type() == tensors[first].scalar_type() &&
           tensors[next].device() == tensors[first].device() &&
           (next == first || bytes + tensors[next].nbytes() <= kLargestBytes)) {
      bytes += tensors[next].nbytes();
      // Send bytes, since Gloo does not know every dtype, and only copies here.
      flat.push_back(tensors[next++].detach().reshape({-1}).view(at::kByte));
    }
    const bool is_in_place = flat.size() == 1 && tensors[first].is_contiguous();
    std::vector<at::Tensor> whole{is_in_place ? flat[0] : at::cat(flat)};
    if (bytes > 0) run_on_all([&] { return group_->broadcast(whole); }, "a broadcast from rank 0");
    std::int64_t offset = 0;
    for (; first < next; ++first) {
      const at::Tensor& tensor = tensors[first];
      const auto length = static_cast<std::int64_t>(tensor.nbytes());
      if (rank_ != 0 && length > 0 && !is_in_place) {
        const at::Tensor values = whole[0].narrow(0, offset, length).view(tensor.scalar_type());
        tensor.detach().copy_(values.view(tensor.sizes()));
      }
      offset += length;
    }
  }
}

void World::barrier(const std::string& what) {
  std::vector<at::Tensor> nothing{at::zeros({1})};
  run_on_all([&] { return group_->allreduce(nothing); }, what);
}

std::string World::unique_name(const std::string& name) { return name + "/" + std::to_string(uses_[name]++); }

std::string World::unique_prefix(const std::string& name) { return "hookline/" + unique_name(name); }

}  // namespace hookline
