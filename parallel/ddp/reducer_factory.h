// Makes the c10d::Reducer of a model, with the buckets that DDP chooses.
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
