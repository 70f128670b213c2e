#include "parallel/groups/gloo_link.h"

#include <c10/util/hash.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <functional>
#include <utility>

#include "base/text/count_text.h"
#include "parallel/groups/group_errors.h"

namespace hookline {
namespace {

enum Kind : std::uint32_t { kDescription, kAddends, kSums };

/// The current exception: RanksDiffer and PeerError as they are, any other as a PeerError.
std::exception_ptr why_it_failed() {
  try {
    throw;
  } catch (const RanksDiffer&) {
    return std::current_exception();
  } catch (const PeerError&) {
    return std::current_exception();
  } catch (const std::exception& error) {
    return std::make_exception_ptr(PeerError(error.what()));
  }
}

}  // namespace

GlooLink::GlooLink(std::shared_ptr<gloo::Context> context, std::vector<int> ranks, std::size_t own,
                   std::chrono::milliseconds timeout)
    : context_(std::move(context)), ranks_(std::move(ranks)), own_(own), timeout_(timeout) {
  threads_[0] = std::thread([this] { add_in_turn(); });
  try {
    threads_[1] = std::thread([this] { finish_in_turn(); });
  } catch (...) {
    stop();
    throw;
  }
}

GlooLink::~GlooLink() { stop(); }

void GlooLink::start(Piece piece) {
  auto transfer = std::make_shared<Transfer>();
  transfer->piece = std::move(piece);
  transfer->is_whole =
      ranks_.size() == 2 || transfer->piece.elements * transfer->piece.element_bytes <= kWholeBytes;
  std::exception_ptr error;
  {
    const std::lock_guard lock(mutex_);
    if (transfer->piece.within == 0) ++arrays_;
    transfer->array = arrays_;
    error = broken_;
    if (!error) live_.push_back(transfer);
  }
  if (!error) {
    try {
      post(*transfer);
    } catch (const std::exception& failure) {
      error = std::make_exception_ptr(PeerError(failure.what()));
    }
  }
  if (error) return end_with(transfer, error);
  const std::lock_guard lock(mutex_);
  to_add_.push_back(transfer);
  changed_.notify_all();
}

void GlooLink::stop() {
  const std::lock_guard only_one(joining_);
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (!broken_) broken_ = group_has_ended();
    for (const TransferPtr& each : live_) {
      for (const Buffer* buffer : {&each->in_place, &each->addends, &each->description_buffer}) {
        if (!*buffer) continue;
        (*buffer)->abortWaitRecv();
        (*buffer)->abortWaitSend();
      }
    }
    changed_.notify_all();
  }
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
  const std::lock_guard lock(mutex_);
  for (const TransferPtr& each : live_) {
    // Gloo does not access the memory of a buffer that was destroyed.
    each->in_place.reset();
    each->addends.reset();
    each->description_buffer.reset();
  }
  live_.clear();
}

GlooLink::Share GlooLink::share_of(const Transfer& transfer, std::size_t machine) const {
  const std::size_t elements = transfer.piece.elements, machines = ranks_.size();
  const std::size_t first = elements * machine / machines;
  return {first, elements * (machine + 1) / machines - first};
}

std::size_t GlooLink::bytes_of_share(const Transfer& transfer, std::size_t machine) const {
  return share_of(transfer, machine).elements * transfer.piece.element_bytes;
}

std::size_t GlooLink::place_of(const Transfer& transfer, std::size_t machine) const {
  const std::size_t bytes = transfer.is_whole ? transfer.piece.elements * transfer.piece.element_bytes
                                              : bytes_of_share(transfer, own_);
  return (machine < own_ ? machine : machine - 1) * bytes;
}

std::uint64_t GlooLink::slot(const Transfer& transfer, std::uint32_t kind) const {
  // Gloo matches messages by their slots. Those of its own collectives and of GlooGroup::exchange begin with
  // other numbers. The hash prevents pieces of different arrays from matching.
  constexpr std::uint64_t kPrefix = 0xF2;
  std::size_t hash = 0;
  if (kind != kDescription) {
    for (const std::int64_t number : description_of(transfer.piece))
      hash = c10::hash_combine(hash, std::hash<std::int64_t>()(number));
  }
  const auto bits = [](std::uint64_t value, int count) { return value & ((std::uint64_t{1} << count) - 1); };
  return kPrefix << 56 | bits(transfer.array, 20) << 36 | bits(hash ^ hash >> 32, 18) << 18 |
         bits(transfer.piece.within, 16) << 2 | kind;
}

GlooLink::Description GlooLink::description_of(const Piece& piece) {
  return {static_cast<std::int64_t>(piece.array_elements), static_cast<std::int64_t>(piece.type),
          static_cast<std::int64_t>(piece.element_bytes)};
}

/// Calls `action` for the other machines, the next one first, so that not all machines begin with the same
/// one.
template <class Action>
void GlooLink::for_each_peer(const Action& action) const {
  for (std::size_t i = 1; i < ranks_.size(); ++i) action((own_ + i) % ranks_.size());
}

/// Posts every send and receive that it can at once, so that no message waits for its receiver.
void GlooLink::post(Transfer& transfer) {
  Piece& piece = transfer.piece;
  const std::size_t bytes = piece.elements * piece.element_bytes;
  const std::size_t addends = transfer.is_whole ? bytes : bytes_of_share(transfer, own_);
  transfer.received = take_room(addends * (ranks_.size() - 1));
  if (bytes > 0) transfer.in_place = context_->createUnboundBuffer(piece.data, bytes);
  if (addends > 0)
    transfer.addends = context_->createUnboundBuffer(transfer.received.data(), transfer.received.size());
  if (piece.within == 0) {
    transfer.descriptions.resize(ranks_.size());
    transfer.descriptions[own_] = description_of(piece);
    transfer.description_buffer = context_->createUnboundBuffer(
        transfer.descriptions.data(), transfer.descriptions.size() * sizeof(Description));
    const std::uint64_t meeting = slot(transfer, kDescription);
    for_each_peer([&](std::size_t machine) {
      transfer.description_buffer->recv(ranks_[machine], meeting, machine * sizeof(Description),
                                        sizeof(Description));
    });
    for_each_peer([&](std::size_t machine) {
      transfer.description_buffer->send(ranks_[machine], meeting, own_ * sizeof(Description),
                                        sizeof(Description));
    });
  }
  const std::uint64_t meeting = slot(transfer, kAddends);
  for_each_peer([&](std::size_t machine) {
    if (addends > 0) transfer.addends->recv(ranks_[machine], meeting, place_of(transfer, machine), addends);
    // Receive sums into the shares that this machine sends: a share has left before its sum can come back.
    if (!transfer.is_whole && bytes_of_share(transfer, machine) > 0)
      transfer.in_place->recv(ranks_[machine], slot(transfer, kSums),
                              share_of(transfer, machine).first * piece.element_bytes,
                              bytes_of_share(transfer, machine));
  });
  for_each_peer([&](std::size_t machine) {
    const std::size_t sent = transfer.is_whole ? bytes : bytes_of_share(transfer, machine);
    if (sent == 0) return;
    const std::size_t from = transfer.is_whole ? 0 : share_of(transfer, machine).first * piece.element_bytes;
    transfer.in_place->send(ranks_[machine], meeting, from, sent);
    ++transfer.sends;
  });
}

/// Returns at least `bytes` of memory. It reuses memory, since touching a fresh page costs more than the
/// message.
std::vector<std::byte> GlooLink::take_room(std::size_t bytes) {
  std::vector<std::byte> room;
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      room = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (room.size() < bytes) room.resize(bytes);
  return room;
}

/// Throws if an earlier piece has failed: later ones would be summed into the wrong array.
void GlooLink::expect_whole() {
  const std::lock_guard lock(mutex_);
  if (broken_) std::rethrow_exception(broken_);
}

void GlooLink::expect(bool completed) const {
  if (!completed) throw PeerError("the process group has ended");
}

void GlooLink::compare_descriptions(Transfer& transfer) {
  if (!transfer.description_buffer) return;
  for_each_peer([&](std::size_t) { expect(transfer.description_buffer->waitRecv(nullptr, timeout_)); });
  for_each_peer([&](std::size_t) { expect(transfer.description_buffer->waitSend(nullptr, timeout_)); });
  const Description& mine = transfer.descriptions[own_];
  for (std::size_t machine = 0; machine < ranks_.size(); ++machine) {
    const Description& other = transfer.descriptions[machine];
    if (other == mine) continue;
    const std::size_t first = std::min(machine, own_), second = std::max(machine, own_);
    const auto name = [&](std::size_t of) { return "rank " + std::to_string(ranks_[of]); };
    if (other[1] != mine[1])
      throw RanksDiffer("the ranks sum tensors of different types: rank " + std::to_string(ranks_[first]) +
                        " and rank " + std::to_string(ranks_[second]));
    throw RanksDiffer("the ranks sum different tensors: " +
                      count_text(transfer.descriptions[first][0], "element") + " on " + name(first) + ", " +
                      std::to_string(transfer.descriptions[second][0]) + " on " + name(second));
  }
}

void GlooLink::add(Transfer& transfer) {
  compare_descriptions(transfer);
  Piece& piece = transfer.piece;
  const Share share = transfer.is_whole ? Share{0, piece.elements} : share_of(transfer, own_);
  if (share.elements > 0) {
    for_each_peer([&](std::size_t) { expect(transfer.addends->waitRecv(nullptr, timeout_)); });
    if (transfer.is_whole) {
      // Wait for the sends, since the sum below overwrites what they send.
      for (; transfer.sends > 0; --transfer.sends) expect(transfer.in_place->waitSend(nullptr, timeout_));
    }
    std::byte* const own = static_cast<std::byte*>(piece.data) + share.first * piece.element_bytes;
    std::vector<const void*> parts;
    for (std::size_t machine = 0; machine < ranks_.size(); ++machine)
      parts.push_back(machine == own_ ? own : transfer.received.data() + place_of(transfer, machine));
    piece.sum(parts.data(), static_cast<int>(parts.size()), own, share.elements);
  }
  if (transfer.is_whole || share.elements == 0) return;
  for_each_peer([&](std::size_t machine) {
    transfer.in_place->send(ranks_[machine], slot(transfer, kSums), share.first * piece.element_bytes,
                            share.elements * piece.element_bytes);
    ++transfer.sends;
  });
}

void GlooLink::finish(Transfer& transfer) {
  if (!transfer.is_whole) {
    for_each_peer([&](std::size_t machine) {
      if (bytes_of_share(transfer, machine) > 0) expect(transfer.in_place->waitRecv(nullptr, timeout_));
    });
  }
  for (; transfer.sends > 0; --transfer.sends) expect(transfer.in_place->waitSend(nullptr, timeout_));
}

GlooLink::TransferPtr GlooLink::next_of(std::deque<TransferPtr>& queue) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stopping_ || !queue.empty(); });
  if (queue.empty()) return nullptr;
  TransferPtr next = std::move(queue.front());
  queue.pop_front();
  return next;
}

void GlooLink::end_with(const TransferPtr& transfer, std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    if (error && !broken_) broken_ = error;
    if (error) error = broken_;
    std::erase(live_, transfer);
  }
  transfer->in_place.reset();
  transfer->addends.reset();
  transfer->description_buffer.reset();
  {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(transfer->received));
  }
  transfer->piece.done(error);
}

void GlooLink::add_in_turn() {
  while (const TransferPtr transfer = next_of(to_add_)) {
    try {
      expect_whole();
      add(*transfer);
    } catch (...) {
      end_with(transfer, why_it_failed());
      continue;
    }
    const std::lock_guard lock(mutex_);
    to_finish_.push_back(transfer);
    changed_.notify_all();
  }
}

void GlooLink::finish_in_turn() {
  while (const TransferPtr transfer = next_of(to_finish_)) {
    std::exception_ptr error;
    try {
      expect_whole();
      finish(*transfer);
    } catch (...) {
      error = why_it_failed();
    }
    end_with(transfer, error);
  }
}

}  // namespace hookline
