// Makes a c10d::Reducer, whose constructor differs from one torch version to the next.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parallel/ddp/ddp.h"
#include "parallel/ddp/resumable_reducer.h"

namespace hookline {

/// A Reducer over `parameters` with the buckets that DistributedDataParallel would give it.
std::shared_ptr<ResumableReducer> make_reducer(ProcessGroupPtr group,
                                               const std::vector<at::Tensor>& parameters,
                                               const std::vector<std::string>& names,
                                               const DdpOptions& options);

}  // namespace hookline
