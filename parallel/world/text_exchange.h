// Texts between ranks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "parallel/world/world.h"

namespace hookline {

/// Runs `action` and returns the text of the error that it throws, to be sent to the other ranks; empty if it
/// succeeds. RunFailed is rethrown, since the others have it already.
std::string problem_of(const std::function<void()>& action);

/// Every rank's `text`, in the order of ranks; a collective call on `group`, which `what` names in an error.
std::vector<std::string> exchange_texts(World& world, const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                        const std::string& text, const std::string& what);

/// Rank 0's `text`.
std::string text_of_rank_zero(World& world, const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                              const std::string& text, const std::string& what);

/// Runs `action` on every rank and returns the error text of the first rank on which it fails; empty if it
/// succeeds on all. A collective call.
std::string problem_of_any(World& world, const std::string& what, const std::function<void()>& action);

}  // namespace hookline
