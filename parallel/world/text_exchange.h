// Texts between ranks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "parallel/world/process_group.h"

namespace hookline {

/// What `action` fails with, to be told to the others; empty if it does not. RunFailed, which they know of, passes through.
std::string problem_of(const std::function<void()>& action);

/// Every rank's `text`, in the order of ranks; a collective call on `group`, which `what` names in an error.
std::vector<std::string> exchange_texts(World& world, const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                        const std::string& text, const std::string& what);

/// Rank 0's `text`.
std::string text_of_rank_zero(World& world, const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                              const std::string& text, const std::string& what);

/// The first that `action` fails with on any rank; empty if it does on none. A collective call.
std::string problem_of_any(World& world, const std::string& what, const std::function<void()>& action);

}  // namespace hookline
