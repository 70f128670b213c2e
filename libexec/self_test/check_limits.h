// Judges what the self-test has found. Pure, and torch-free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "libexec/self_test/checks.h"

namespace hookline {

/// A rank may not open as many files as joining takes.
class TooFewFiles : public Error {
 public:
  using Error::Error;
};

/// Throws TooFewFiles if a rank that has `open` files open, and may have `limit`, can't even join a run of
/// `ranks`.
void expect_enough_files(std::int64_t open, std::int64_t limit, int ranks);

/// `used` of `limit` descriptors that a process may have open (RLIMIT_NOFILE), with `ranks` connected.
Check judge_open_files(std::int64_t used, std::int64_t limit, int ranks);

/// `available` bytes of /dev/shm for the `ranks` of this host; only NCCL uses it, where several are on one
/// host.
Check judge_shared_memory(std::int64_t available, bool nccl, int ranks);

/// What each rank was built with, in the order of ranks.
Check judge_builds(const std::vector<std::string>& builds);

/// The pairs of ranks to measure: all pairs of a few ranks; of many, only neighbours; of very many, only some
/// of these.
std::vector<std::pair<int, int>> pairs_to_measure(int ranks);

/// The indices of links that are far slower than the others of their kind (on one host, between hosts).
std::vector<std::size_t> far_below(const std::vector<Link>& links);

/// Compares each link with the others of its kind.
Check judge_links(const std::vector<Link>& links);

/// What to do about an error of the system or a library; empty if its text says all that is known.
std::string advice_for(const std::string& error);
/// The same for what a rank failed with; `what`: its text.
std::string advice_for(const std::exception& failure, const std::string& what);

}  // namespace hookline
