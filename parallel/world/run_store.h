// Where the ranks of a run meet: the store, which rank 0 or the launchers (HOOKLINE_STORE) hold; and which
// ranks have come to it.
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace hookline {

/// A variable that every rank of a run has, a whole number in [least, most]. Throws Error.
int required_environment_number(const char* name, int least, int most);

/// Who holds the store of the run that the environment describes, for messages: "rank 0" or "the launcher".
std::string store_holder();

/// A new part of the store of the run that the environment describes; each call returns another part. The
/// process opens the store itself only once: the socket that the launcher hands to rank 0 can't be opened
/// again, and other ranks may still read from it. Throws Error.
c10::intrusive_ptr<c10d::Store> open_part_of_store(int rank, int size,
                                                   std::chrono::milliseconds join_timeout);

/// Waits until all `size` ranks have called this with the same `key`, which can be used once per store. Each
/// rank makes one request, however many ranks there are; the last rank releases the others. Throws the
/// store's error after `timeout`.
void meet_at(c10d::Store& store, const std::string& key, int size, std::chrono::milliseconds timeout);

/// Says that this rank is there, and waits until all are. Throws Error, which names the ranks that have not
/// come after `timeout`.
void wait_until_all_joined(c10d::Store& store, int rank, int size, std::chrono::milliseconds timeout);

}  // namespace hookline
