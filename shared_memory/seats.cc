#include "shared_memory/seats.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>

#include "base/error.h"

namespace hookline {
namespace {

std::size_t begin_of_slots(int ranks) {
  constexpr std::size_t kPage = 4096;
  const std::size_t seats = sizeof(Seat) * static_cast<std::size_t>(ranks);
  return (seats + kPage - 1) / kPage * kPage;
}

}  // namespace

std::size_t Seats::bytes_for(int ranks) {
  return begin_of_slots(ranks) +
         static_cast<std::size_t>(ranks) * SharedCollectives::kSlots * SharedCollectives::kChunkBytes;
}

void Seats::prepare(SharedSegment& segment, int ranks) {
  pthread_mutexattr_t attributes;
  ::pthread_mutexattr_init(&attributes);
  ::pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  ::pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  int problem = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    Seat* const seat = new (segment.data() + sizeof(Seat) * static_cast<std::size_t>(rank)) Seat{};
    problem = std::max(problem, ::pthread_mutex_init(&seat->life, &attributes));
  }
  ::pthread_mutexattr_destroy(&attributes);
  if (problem != 0) throw Error(std::string("a mutex in shared memory: ") + std::strerror(problem));
}

Seats::Seats(const SharedSegment& segment, int ranks)
    : seats_(reinterpret_cast<Seat*>(segment.data())),
      slots_(segment.data() + begin_of_slots(ranks)),
      ranks_(ranks) {}

void Seats::take(int rank) const {
  ::pthread_mutex_lock(&seats_[rank].life);
  seats_[rank].presence = Presence::here;
}

void Seats::leave(int rank) const {
  seats_[rank].presence = Presence::left;
  ::pthread_mutex_unlock(&seats_[rank].life);
  wake_others(rank);
}

Presence Seats::presence(int rank) const {
  Seat& seat = seats_[rank];
  const Presence said = seat.presence.load();
  if (said != Presence::here) return said;
  // The kernel marks the mutex of a thread that is gone.
  const int result = ::pthread_mutex_trylock(&seat.life);
  if (result == EBUSY) return Presence::here;
  if (result == 0) {
    ::pthread_mutex_unlock(&seat.life);
    return Presence::left;
  }
  seat.presence = Presence::dead;
  if (result == EOWNERDEAD)
    ::pthread_mutex_unlock(&seat.life);  // not made consistent, so later callers also see that it is dead
  return Presence::dead;
}

void Seats::wake_others(int rank) const {
  for (int other = 0; other < ranks_; ++other)
    if (other != rank) seats_[other].bell.ring(std::uint64_t{1} << rank);
}

}  // namespace hookline
