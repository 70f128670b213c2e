#include "hooks/ddp/scatter_average.h"

#include <ATen/ATen.h>
#include <ATen/ScalarOps.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "base/even_share.h"
#include "hooks/numerics/half_cast.h"
#include "hooks/numerics/rank_sum.h"

namespace hookline {
namespace {

/// On the CPU a bucket travels in pieces of kPieceBytes, kMostUnderWay at a time: that takes little memory,
/// most of it in caches. On a GPU it travels whole, since the host, which starts the pieces, runs ahead.
constexpr std::int64_t kPieceBytes = 4 * 1024 * 1024;
constexpr std::size_t kMostUnderWay = 2;

struct Bucket {
  std::int64_t number = 0;  // among the step's
  at::Tensor buffer;        // the Reducer's
  PartLayout layout;        // of its parameters
  FuturePtr result;
  std::optional<c10::Stream> stream = {};  // on a GPU: of the backward
  std::int64_t pieces_left = 0;
};

/// Elements [first, first + count) of every rank's part.
struct Piece {
  std::shared_ptr<Bucket> bucket;
  std::int64_t first = 0, count = 0;
  at::Tensor sent = {}, received = {};
};

}  // namespace

std::optional<ScatterKind> scatter_kind_of(const std::string& hook, const std::string& wrapper) {
  using Scale = ScatterKind::Scale;
  if (hook != "no" && hook != "allreduce") {
    if (wrapper != "no") return std::nullopt;
    if (hook == "fp16") return ScatterKind{Scale::divide, at::kHalf, hook};
    if (hook == "bf16") return ScatterKind{Scale::divide, at::kBFloat16, hook};
    return std::nullopt;
  }
  if (wrapper != "no")
    return ScatterKind{Scale::divide, wrapper == "fp16" ? at::kHalf : at::kBFloat16,
                       "allreduce in " + wrapper};
  return hook == "no" ? ScatterKind{} : ScatterKind{Scale::divide, {}, hook};
}

/// Starts exchanges in the order of buckets, which is the same on all ranks: on the thread that submits a
/// bucket, or on one on which an earlier exchange ended. Lives as long as an exchange is under way.
class ScatterAverage::Queue : public std::enable_shared_from_this<Queue> {
 public:
  Queue(std::shared_ptr<ShardChannel> channel, std::shared_ptr<BufferPool> pool, ScatterKind kind)
      : channel_(std::move(channel)), pool_(std::move(pool)), kind_(std::move(kind)) {}

  FuturePtr submit(const GradBucket& bucket) {
    auto submitted = std::make_shared<Bucket>();
    submitted->number = static_cast<std::int64_t>(bucket.index());
    submitted->buffer = bucket.buffer();
    std::vector<std::int64_t> numels;
    for (const at::Tensor& parameter : bucket.parameters()) numels.push_back(parameter.numel());
    submitted->layout = PartLayout(numels, channel_->size());
    const at::Tensor& buffer = submitted->buffer;
    submitted->result = make_future(buffer.device());
    std::int64_t most = std::max<std::int64_t>(1, submitted->layout.elements());
    if (buffer.is_cuda())
      submitted->stream = c10::impl::VirtualGuardImpl(c10::kCUDA).getStream(buffer.device());
    else
      most = std::clamp<std::int64_t>(kPieceBytes / ranks() / element_bytes(buffer), 1, most);
    submitted->pieces_left = (std::max<std::int64_t>(1, submitted->layout.elements()) + most - 1) / most;
    bytes_.fetch_add(buffer.numel() * element_bytes(buffer) / 2);
    {
      const std::lock_guard lock(mutex_);
      for (std::int64_t i = 0; i < submitted->pieces_left; ++i)
        waiting_.push_back({submitted, i * most, std::min(most, submitted->layout.elements() - i * most)});
    }
    start_next();
    return submitted->result;
  }

  std::int64_t bytes() const { return bytes_.load(); }

 private:
  int ranks() const { return channel_->size(); }
  at::ScalarType wire_of(const at::Tensor& buffer) const { return kind_.wire.value_or(buffer.scalar_type()); }
  std::int64_t element_bytes(const at::Tensor& buffer) const {
    return static_cast<std::int64_t>(c10::elementSize(wire_of(buffer)));
  }

  void start_next() {
    std::unique_lock lock(mutex_);
    if (is_starting_) return;  // the thread that starts exchanges starts this one, too
    is_starting_ = true;
    while (!waiting_.empty() && (waiting_.front().bucket->stream || under_way_ < kMostUnderWay)) {
      Piece piece = std::move(waiting_.front());
      waiting_.pop_front();
      ++under_way_;
      lock.unlock();  // the exchange may end inside start()
      start(std::move(piece));
      lock.lock();
    }
    is_starting_ = false;
  }

  void start(Piece piece) {
    const at::NoGradGuard no_grad;
    const std::shared_ptr<Bucket> bucket = piece.bucket;
    try {
      const c10::OptionalStreamGuard stream(bucket->stream);
      const at::TensorOptions options = bucket->buffer.options().dtype(wire_of(bucket->buffer));
      piece.sent = pool_->empty(ranks() * piece.count, options);
      pack(piece);
      const ShardOperation operation{ShardOperation::Kind::scatter, bucket->number, bucket->buffer.numel()};
      ShardWork started;
      if (channel_->sums()) {
        piece.received = at::empty({piece.count}, options);
        started = channel_->reduce_scatter(operation, piece.received, piece.sent);
      } else {
        piece.received = pool_->empty(addends(piece.sent) * piece.count, options);
        started = channel_->scatter_addends(operation, piece.received, piece.sent);
      }
      piece.sent.reset();  // the exchange keeps it for as long as it needs it
      started.work->getFuture()->addCallback([self = shared_from_this(), piece = std::move(piece),
                                              work = started.work](c10::ivalue::Future& done) mutable {
        self->finish(std::move(piece), *work, done);
      });
    } catch (...) {
      end(*bucket, std::current_exception());
    }
  }

  /// Fills `sent`, [ranks, count]: row r is what rank r averages.
  void pack(const Piece& piece) const {
    const at::Tensor &buffer = piece.bucket->buffer, &sent = piece.sent;
    piece.bucket->layout.for_each(
        piece.first, piece.first + piece.count, [&](const PartLayout::Stretch& each) {
          const auto from = [&](std::int64_t rank, std::int64_t rows, std::int64_t count) {
            return buffer.as_strided({rows, count}, {each.step, 1},
                                     buffer.storage_offset() + each.begin_of_parameter + each.begin_of(rank));
          };
          const auto to = [&](std::int64_t rank, std::int64_t rows, std::int64_t begin, std::int64_t count) {
            return sent.as_strided({rows, count}, {piece.count, 1},
                                   sent.storage_offset() + rank * piece.count + each.at + begin);
          };
          const std::int64_t full = each.full();
          if (full > 0) scale(from(0, full, each.count), to(0, full, 0, each.count));
          for (std::int64_t rank = full; rank < ranks(); ++rank) {
            const std::int64_t count = each.count_of(rank);
            if (count > 0) scale(from(rank, 1, count), to(rank, 1, 0, count));
            to(rank, 1, count, each.count - count).zero_();
          }
        });
  }

  /// Scales rows of gradients into the rows that are sent, with the same rounding as the hook that `kind_`
  /// stands for.
  void scale(const at::Tensor& from, at::Tensor to) const {
    if (kind_.wire && from.is_cpu()) {
      for (std::int64_t row = 0; row < from.size(0); ++row) cast_and_divide(from[row], to[row], ranks());
    } else if (kind_.wire) {
      to.copy_(from).div_(ranks());
    } else if (kind_.scale == ScatterKind::Scale::divide) {
      at::div_out(to, from, at::native::wrapped_scalar_tensor(static_cast<std::int64_t>(ranks())));
    } else {
      at::mul_out(to, from, at::native::wrapped_scalar_tensor(1.0 / ranks()));
    }
  }

  void finish(Piece piece, c10d::Work& work, c10::ivalue::Future& done) {
    if (done.hasError()) return end(*piece.bucket, collective_error(done));
    std::exception_ptr error;
    try {
      const at::NoGradGuard no_grad;
      const c10::OptionalStreamGuard stream(piece.bucket->stream);
      if (piece.bucket->stream) work.synchronize();
      unpack(piece);
      piece.received.reset();
    } catch (...) {
      error = std::current_exception();
    }
    end(*piece.bucket, error);
  }

  void unpack(const Piece& piece) const {
    const at::Tensor average = sum(piece);
    piece.bucket->layout.for_each(
        piece.first, piece.first + piece.count, [&](const PartLayout::Stretch& each) {
          const std::int64_t count = each.count_of(channel_->rank());
          if (count > 0)
            piece.bucket->buffer.narrow(0, each.begin_of_parameter + each.begin_of(channel_->rank()), count)
                .copy_(average.narrow(0, each.at, count));
        });
  }

  std::int64_t addends(const at::Tensor& sent) const { return channel_->addends(sent.scalar_type()); }

  /// The sum of what the ranks sent for this rank's part.
  at::Tensor sum(const Piece& piece) const {
    if (channel_->sums()) return piece.received;
    const std::int64_t addends = this->addends(piece.received);
    const at::Tensor rows = piece.received.view({addends, piece.count});
    const RankSum in_order = rows.is_cpu() ? rank_sum_of(rows.scalar_type()) : nullptr;
    if (!in_order) return rows.sum(0);
    std::vector<const void*> parts;
    for (std::int64_t row = 0; row < addends; ++row) parts.push_back(rows[row].const_data_ptr());
    at::Tensor first = rows[0];
    in_order(parts.data(), static_cast<int>(addends), first.mutable_data_ptr(),
             static_cast<std::size_t>(first.numel()));
    return first;
  }

  void end(Bucket& bucket, const std::exception_ptr& error) {
    bool is_last = false;
    {
      const std::lock_guard lock(mutex_);
      --under_way_;
      is_last = --bucket.pieces_left == 0;
    }
    if (error) {
      bucket.result->setErrorIfNeeded(error);
    } else if (is_last && !bucket.result->completed()) {
      const c10::OptionalStreamGuard stream(bucket.stream);
      bucket.result->markCompleted(bucket.buffer);
    }
    start_next();
  }

  std::shared_ptr<ShardChannel> channel_;
  std::shared_ptr<BufferPool> pool_;
  ScatterKind kind_;
  std::atomic<std::int64_t> bytes_{0};
  std::mutex mutex_;  // guards the rest; never held while an exchange is started
  std::deque<Piece> waiting_;
  std::size_t under_way_ = 0;
  bool is_starting_ = false;
};

ScatterAverage::ScatterAverage(HookContext context, std::shared_ptr<ShardChannel> channel,
                               std::shared_ptr<BufferPool> pool, ScatterKind kind)
    : CommHook(std::move(context)),
      kind_(std::move(kind)),
      queue_(std::make_shared<Queue>(std::move(channel), std::move(pool), kind_)) {}

ScatterAverage::~ScatterAverage() = default;

FuturePtr ScatterAverage::run(GradBucket bucket) { return queue_->submit(bucket); }

std::int64_t ScatterAverage::bytes_per_step(const std::vector<BucketShapes>& buckets,
                                            at::ScalarType dtype) const {
  return CommHook::bytes_per_step(buckets, kind_.wire.value_or(dtype)) / 2;
}

std::int64_t ScatterAverage::bytes_of(std::int64_t numel, at::ScalarType dtype) const {
  return numel * static_cast<std::int64_t>(c10::elementSize(kind_.wire.value_or(dtype))) / 2;
}

std::int64_t ScatterAverage::bytes_sent() const { return queue_->bytes(); }

}  // namespace hookline
