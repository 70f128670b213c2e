#include "parallel/groups/gloo_group.h"

#include <c10/util/hash.h>
#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.h"

namespace hookline {
namespace {

/// The other ranks, the next one first, so that not all ranks begin with the same one.
std::vector<int> others(int rank, int size) {
  std::vector<int> ranks;
  for (int i = 1; i < size; ++i) ranks.push_back((rank + i) % size);
  return ranks;
}

}  // namespace

/// An exchange; runs on one of the group's threads.
class GlooGroup::ExchangeWork : public c10d::ProcessGroupGloo::AsyncWork {
 public:
  /// Takes `rank` and `size`, since gloo::Context has another memory layout in torch's Gloo than in the
  /// headers.
  ExchangeWork(std::shared_ptr<gloo::Context> context, int rank, int size, std::uint32_t tag,
               std::uint64_t sequence, std::chrono::milliseconds timeout, Routes routes,
               std::shared_ptr<Exchange> wanted)
      : AsyncWork(std::move(context), {}, c10d::OpType::UNKNOWN, sequence, timeout),
        rank_(rank),
        size_(size),
        tag_(tag),
        routes_(std::move(routes)),
        wanted_(std::move(wanted)) {}

  void run() override {
    // Take the exchange out of the work, so that holders of the work do not keep its memory.
    Exchange wanted = std::move(*wanted_);
    if (wanted.failure) std::rethrow_exception(wanted.failure);
    std::vector<Identity> identities(static_cast<std::size_t>(size_));
    const Identity own_identity = wanted.identity;
    identities[static_cast<std::size_t>(rank_)] = own_identity;
    auto identities_in = buffer(identities.data(), identities.size() * sizeof own_identity);
    auto identity_out = buffer(&wanted.identity, sizeof own_identity);
    const std::size_t part_bytes = wanted.part_bytes;
    const bool has_parts = part_bytes > 0;
    const auto parts_in = has_parts ? buffer_of(wanted.received) : nullptr;
    const auto parts_out = has_parts ? buffer_of(wanted.sent) : nullptr;
    // Post everything at once, so that the comparison costs no round trip: Gloo sends a part only to a rank
    // that waits for one with the same identity.
    const std::uint64_t part_slot = slot(hash_of(own_identity));
    for_each_other([&](int rank) {
      identities_in->recv(rank, slot(0), static_cast<std::size_t>(rank) * sizeof own_identity,
                          sizeof own_identity);
    });
    if (has_parts) {
      for (const Route& from : routes_.from)
        parts_in->recv(from.rank, part_slot, from.place * part_bytes, part_bytes);
    }
    for_each_other([&](int rank) { identity_out->send(rank, slot(0), 0, sizeof own_identity); });
    if (has_parts) {
      for (const Route& to : routes_.to)
        parts_out->send(to.rank, part_slot, to.place * part_bytes, part_bytes);
      std::memcpy(
          static_cast<std::byte*>(wanted.received.mutable_data_ptr()) + routes_.own_received * part_bytes,
          static_cast<const std::byte*>(wanted.sent.const_data_ptr()) + routes_.own_sent * part_bytes,
          part_bytes);
    }
    for_each_other([&](int) { expect(identities_in->waitRecv(timeout_)); });
    for_each_other([&](int) { expect(identity_out->waitSend(timeout_)); });
    if (std::any_of(identities.begin(), identities.end(),
                    [&](const Identity& each) { return each != own_identity; }))
      throw RanksDiffer(wanted.difference(identities));
    if (!has_parts) return;
    for (std::size_t i = 0; i < routes_.from.size(); ++i) expect(parts_in->waitRecv(timeout_));
    for (std::size_t i = 0; i < routes_.to.size(); ++i) expect(parts_out->waitSend(timeout_));
  }

  const std::vector<at::Tensor> getInputTensors() override { return {}; }
  const std::vector<at::Tensor> getOutputTensors() override { return {}; }

 private:
  using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;

  Buffer buffer(void* data, std::size_t bytes) { return context_->createUnboundBuffer(data, bytes); }
  Buffer buffer_of(const at::Tensor& tensor) { return buffer(tensor.mutable_data_ptr(), tensor.nbytes()); }

  /// Gloo matches messages by their slots. Those of its own collectives begin with other numbers.
  std::uint64_t slot(std::uint32_t message) const {
    constexpr std::uint64_t kPrefix = 0xF1;
    constexpr std::uint64_t kTagBits = 24;  // before a number repeats
    return kPrefix << 56 | (tag_ & ((std::uint64_t{1} << kTagBits) - 1)) << 32 | message;
  }

  /// Never 0, which is the slot of identities.
  static std::uint32_t hash_of(const Identity& identity) {
    std::size_t hash = 0;
    for (const std::int64_t number : identity)
      hash = c10::hash_combine(hash, std::hash<std::int64_t>()(number));
    return static_cast<std::uint32_t>(hash ^ hash >> 32) | 1;
  }

  template <class Action>
  void for_each_other(const Action& action) const {
    for (const int rank : others(rank_, size_)) action(rank);
  }

  static void expect(bool completed) {
    if (!completed) throw PeerError("the exchange with the other ranks was aborted");
  }

  int rank_, size_;
  std::uint32_t tag_;
  Routes routes_;
  std::shared_ptr<Exchange> wanted_;
};

c10::intrusive_ptr<c10d::Work> GlooGroup::exchange(Exchange wanted) {
  const std::vector<int> others = other_ranks();
  Routes routes = routes_between(others, others, wanted.sends_same_to_all);
  auto work = make_exchange(std::move(routes), std::make_shared<Exchange>(std::move(wanted)));
  enqueue(work);
  return work;
}

c10::intrusive_ptr<c10d::Work> GlooGroup::scatter(Exchange wanted, at::ScalarType) {
  return exchange(std::move(wanted));
}

int GlooGroup::addends(at::ScalarType) const { return getSize(); }

std::vector<int> GlooGroup::other_ranks() const { return others(getRank(), getSize()); }

GlooGroup::Routes GlooGroup::routes_between(const std::vector<int>& to, const std::vector<int>& from,
                                            bool sends_same_to_all) const {
  Routes routes;
  for (const int rank : to)
    routes.to.push_back({rank, sends_same_to_all ? 0 : static_cast<std::size_t>(rank)});
  for (const int rank : from) routes.from.push_back({rank, static_cast<std::size_t>(rank)});
  routes.own_received = static_cast<std::size_t>(getRank());
  routes.own_sent = sends_same_to_all ? 0 : routes.own_received;
  return routes;
}

c10::intrusive_ptr<GlooGroup::AsyncWork> GlooGroup::make_exchange(Routes routes,
                                                                  std::shared_ptr<Exchange> wanted) {
  const std::uint32_t tag = nextTag();
  return c10::make_intrusive<ExchangeWork>(getContext(tag), getRank(), getSize(), tag, ++seq_,
                                           options_->timeout, std::move(routes), std::move(wanted));
}

bool GlooGroup::is_idle() {
  const std::lock_guard lock(workMutex_);
  const bool running = std::any_of(workInProgress_.begin(), workInProgress_.end(),
                                   [](const auto& work) { return work.defined(); });
  return workQueue_.empty() && !running;
}

bool GlooGroup::idle_within(std::chrono::milliseconds patience) {
  const auto give_up = std::chrono::steady_clock::now() + patience;
  while (!is_idle()) {
    if (std::chrono::steady_clock::now() >= give_up) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

void GlooGroup::close_connections() {
  for (const auto& context : contexts_) context->closeConnections();
}

void GlooGroup::abandon(c10::intrusive_ptr<GlooGroup> group) {
  group->close_connections();
  // Never destroyed: the groups' threads may still be waiting when the process ends.
  static auto& abandoned = *new std::vector<c10::intrusive_ptr<GlooGroup>>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  abandoned.push_back(std::move(group));
}

}  // namespace hookline
