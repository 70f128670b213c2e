#include "parallel/gloo_group.h"

#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "hooks/error.h"

namespace hookline {
namespace {

/// Runs on one of the group's threads.
class ExchangeWork : public c10d::ProcessGroupGloo::AsyncWork {
 public:
  /// `rank` and `size` apart: gloo::Context lies otherwise in memory in torch's Gloo than in the headers.
  ExchangeWork(std::shared_ptr<gloo::Context> context, int rank, int size, std::uint32_t tag,
               std::uint64_t sequence, std::chrono::milliseconds timeout, GlooGroup::Exchange wanted)
      : AsyncWork(std::move(context), {}, c10d::OpType::UNKNOWN, sequence, timeout),
        rank_(rank),
        size_(size),
        tag_(tag),
        wanted_(std::move(wanted)) {}

  void run() override {
    std::vector<GlooGroup::Identity> identities(static_cast<std::size_t>(size_));
    const auto own_identity = wanted_.identity;
    identities[static_cast<std::size_t>(rank_)] = own_identity;
    auto identities_in = buffer(identities.data(), identities.size() * sizeof own_identity);
    auto identity_out = buffer(&wanted_.identity, sizeof own_identity);
    // Receives of parts are announced at once: what is sent then goes without another round trip.
    auto parts_in = wanted_.part_bytes > 0 ? buffer_of(wanted_.received) : nullptr;
    for_each_peer([&](int peer) {
      identities_in->recv(peer, slot(0), static_cast<std::size_t>(peer) * sizeof own_identity,
                          sizeof own_identity);
      if (parts_in)
        parts_in->recv(peer, slot(1), static_cast<std::size_t>(peer) * wanted_.part_bytes,
                       wanted_.part_bytes);
    });
    for_each_peer([&](int peer) { identity_out->send(peer, slot(0), 0, sizeof own_identity); });
    for_each_peer([&](int) { expect(identities_in->waitRecv(timeout_)); });
    for_each_peer([&](int) { expect(identity_out->waitSend(timeout_)); });
    if (std::any_of(identities.begin(), identities.end(),
                    [&](const GlooGroup::Identity& each) { return each != own_identity; }))
      throw RanksDiffer(wanted_.difference(identities));
    if (!parts_in) return;
    auto parts_out = buffer_of(wanted_.sent);
    for_each_peer([&](int peer) {
      const auto part = wanted_.sends_same_to_all ? 0 : static_cast<std::size_t>(peer);
      parts_out->send(peer, slot(1), part * wanted_.part_bytes, wanted_.part_bytes);
    });
    const auto own = static_cast<std::size_t>(rank_) * wanted_.part_bytes;
    std::memcpy(
        static_cast<std::byte*>(wanted_.received.mutable_data_ptr()) + own,
        static_cast<const std::byte*>(wanted_.sent.const_data_ptr()) + (wanted_.sends_same_to_all ? 0 : own),
        wanted_.part_bytes);
    for_each_peer([&](int) { expect(parts_in->waitRecv(timeout_)); });
    for_each_peer([&](int) { expect(parts_out->waitSend(timeout_)); });
    wanted_.sent.reset();  // whoever holds the work need not hold the memory
    wanted_.received.reset();
  }

  const std::vector<at::Tensor> getInputTensors() override { return {}; }
  const std::vector<at::Tensor> getOutputTensors() override { return {}; }

 private:
  using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;

  Buffer buffer(void* data, std::size_t bytes) { return context_->createUnboundBuffer(data, bytes); }
  Buffer buffer_of(const at::Tensor& tensor) { return buffer(tensor.mutable_data_ptr(), tensor.nbytes()); }

  /// Of messages that are matched: Gloo's own collectives begin with other numbers.
  std::uint64_t slot(std::uint64_t round) const {
    constexpr std::uint64_t kPrefix = 0xF1;
    return kPrefix << 56 | static_cast<std::uint64_t>(tag_) << 24 | round;
  }

  /// The next rank first, so that not all of them begin with the same one.
  template <class Action>
  void for_each_peer(const Action& action) const {
    for (int i = 1; i < size_; ++i) action((rank_ + i) % size_);
  }

  static void expect(bool completed) {
    if (!completed) throw PeerError("the exchange with the other ranks was aborted");
  }

  int rank_, size_;
  std::uint32_t tag_;
  GlooGroup::Exchange wanted_;
};

}  // namespace

c10::intrusive_ptr<c10d::Work> GlooGroup::exchange(Exchange wanted) {
  const std::uint32_t tag = nextTag();
  auto work = c10::make_intrusive<ExchangeWork>(getContext(tag), getRank(), getSize(), tag, ++seq_,
                                                options_->timeout, std::move(wanted));
  enqueue(work);
  return work;
}

bool GlooGroup::idle_within(std::chrono::milliseconds patience) {
  const auto give_up = std::chrono::steady_clock::now() + patience;
  while (true) {
    {
      const std::lock_guard lock(workMutex_);
      const bool running = std::any_of(workInProgress_.begin(), workInProgress_.end(),
                                       [](const auto& work) { return work.defined(); });
      if (workQueue_.empty() && !running) return true;
    }
    if (std::chrono::steady_clock::now() >= give_up) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void GlooGroup::abandon(c10::intrusive_ptr<GlooGroup> group) {
  for (const auto& context : group->contexts_) context->closeConnections();
  // Never destroyed: the groups' threads may still be waiting when the process ends.
  static auto& abandoned = *new std::vector<c10::intrusive_ptr<GlooGroup>>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  abandoned.push_back(std::move(group));
}

}  // namespace hookline
