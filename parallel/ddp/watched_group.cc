#include "parallel/ddp/watched_group.h"

#include <utility>

#include "hooks/ddp/no_hook_name.h"
#include "parallel/groups/future_work.h"

namespace hookline {
namespace {

c10::intrusive_ptr<c10d::Work> watched(const World& world, const c10::intrusive_ptr<c10d::Work>& work,
                                       const std::string& what) {
  return c10::make_intrusive<FutureWork>(world.watched(work, what), work);
}

}  // namespace

WatchedGroup::WatchedGroup(std::shared_ptr<World> world, std::shared_ptr<Comm> comm,
                           std::shared_ptr<GradientSteps> steps)
    : ProcessGroup(world->rank(), world->size()),
      world_(std::move(world)),
      comm_(std::move(comm)),
      steps_(std::move(steps)) {
  // Callers such as c10d::Logger ask this group for its backends.
  c10d::ProcessGroup& group = *world_->group();
  setDefaultBackend(group.getBackendType());
  for (const c10::Device device : group.getDeviceTypes()) {
    const auto backend = group.getBackend(device.type());
    setBackend(device.type(), strToBackendType(backend->getBackendName()), backend);
  }
}

c10::intrusive_ptr<c10d::Work> WatchedGroup::allreduce(std::vector<at::Tensor>& tensors,
                                                       const c10d::AllreduceOptions& options) {
  const at::Tensor& tensor = tensors.at(0);
  if (c10::isIntegralType(tensor.scalar_type(), /*includeBool=*/true)) {
    return watched(*world_, world_->group()->allreduce(tensors, options), "the exchange of used parameters");
  }
  return c10::make_intrusive<FutureWork>(
      steps_->reduce(tensor.numel(), kNoHook, [&] { return comm_->all_reduce(tensor); }));
}

c10::intrusive_ptr<c10d::Work> WatchedGroup::broadcast(std::vector<at::Tensor>& tensors,
                                                       const c10d::BroadcastOptions& options) {
  return watched(*world_, world_->group()->broadcast(tensors, options), "the rebuilding of buckets");
}

}  // namespace hookline
