#include "hooks/comm.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

#include "base/error.h"

namespace hookline {

std::exception_ptr collective_error(c10::ivalue::Future& failed) {
  try {
    std::rethrow_exception(failed.exception_ptr());
  } catch (const RanksDiffer&) {
    return std::current_exception();
  } catch (...) {
    return std::make_exception_ptr(PeerError(failed.tryRetrieveErrorMessage()));
  }
}

FuturePtr OrderedChannel::all_reduce(std::uint64_t ticket, at::Tensor tensor) {
  FuturePtr result = make_future(tensor.device());
  std::optional<c10::Stream> stream;
  if (tensor.is_cuda()) stream = c10::impl::VirtualGuardImpl(c10::kCUDA).getStream(tensor.device());
  in_order_.run(ticket,
                [this, tensor = std::move(tensor), result, stream] { start(tensor, result, stream); });
  return result;
}

void OrderedChannel::skip(std::uint64_t ticket) {
  in_order_.run(ticket, [] {});
}

void OrderedChannel::start(const at::Tensor& tensor, const FuturePtr& result,
                           const std::optional<c10::Stream>& its_stream) {
  try {
    // Another bucket's thread may start this collective, so switch to the caller's stream.
    const c10::OptionalStreamGuard stream(its_stream);
    std::vector<at::Tensor> tensors{tensor};
    bytes_.fetch_add(static_cast<std::int64_t>(tensor.nbytes()));
    const c10::intrusive_ptr<c10d::Work> work = group_->allreduce(tensors);
    // The work's own future may hold a list; `result` holds the tensor. The callback keeps `work` until it is
    // done.
    work->getFuture()->addCallback([result, tensor, work](c10::ivalue::Future& done) {
      if (done.hasError()) {
        result->setError(collective_error(done));
        return;
      }
      try {
        // Gloo's future does not track streams, so make the current stream wait for Gloo's copies.
        c10::OptionalDeviceGuard device;
        if (tensor.is_cuda()) {
          device.reset_device(tensor.device());
          work->synchronize();
        }
        result->markCompleted(tensor);
      } catch (...) {
        result->setErrorIfNeeded(std::current_exception());
      }
    });
  } catch (...) {
    result->setError(std::current_exception());
  }
}

Comm::Comm(int rank, int world_size, GroupFactory make_group)
    : rank_(rank), world_size_(world_size), make_group_(std::move(make_group)) {
  open_channel("gradients");
}

FuturePtr Comm::all_reduce(at::Tensor tensor) {
  OrderedChannel& first = *channels_.front().channel;
  return first.all_reduce(first.draw_ticket(), std::move(tensor));
}

std::shared_ptr<OrderedChannel> Comm::open_channel(const std::string& name) {
  for (Opened& each : channels_)
    if (each.is_free && each.name == name) {
      each.is_free = false;
      return each.channel;
    }
  auto channel =
      std::make_shared<OrderedChannel>(make_group_("hook-" + std::to_string(channels_.size()) + "-" + name));
  channels_.push_back({name, channel});
  return channel;
}

void Comm::release_channels() {
  for (std::size_t i = 1; i < channels_.size(); ++i) channels_[i].is_free = true;  // hooks share the first
}

std::int64_t Comm::bytes_sent() const {
  std::int64_t bytes = 0;
  for (const Opened& each : channels_) bytes += each.channel->bytes();
  return bytes;
}

std::vector<StageBytes> Comm::bytes_by_stage() const {
  std::vector<StageBytes> all;
  for (const Opened& each : channels_) all.push_back({each.name, each.channel->bytes()});
  return all;
}

}  // namespace hookline
