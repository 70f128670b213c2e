#include "tests/support/kernel_races.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <unordered_map>
#include <utility>

#include "tests/support/cuda_on_cpu.h"

namespace hookline::testing {
namespace {

/// The last accesses to a memory location, timed by cuda_on_cpu::ticks.
struct Place {
  std::uint64_t written = 0, read = 0, first_read = 0;
  unsigned writer = 0, reader = 0;
  bool has_other_reader = false;  // another thread read it at time `read`
};

std::unordered_map<std::uintptr_t, Place> places;
std::uint64_t launch;  // launch that `places` belong to
std::vector<std::string> races;

bool is_shared(std::uintptr_t address) {
  return address >= reinterpret_cast<std::uintptr_t>(cuda_on_cpu::__start_cuda_shared) &&
         address < reinterpret_cast<std::uintptr_t>(cuda_on_cpu::__stop_cuda_shared);
}

void report(unsigned other, bool is_other_block, const char* how) {
  const std::string race = "thread " + std::to_string(cuda_on_cpu::running) + " of block " +
                           std::to_string(blockIdx.x) + " " + how +
                           (is_other_block ? " another block" : " thread " + std::to_string(other));
  if (races.size() < 10 && (races.empty() || races.back() != race)) races.push_back(race);
}

/// Records an access to two bytes.
void use(std::uintptr_t address, bool writes) {
  const std::uint64_t now = cuda_on_cpu::ticks;
  const std::uint64_t block_began = cuda_on_cpu::block_began;
  const unsigned thread = cuda_on_cpu::running;
  Place& place = places[address / 2];
  if (is_shared(address) && std::max(place.written, place.read) < block_began) place = Place();
  // Before this block but in this launch, so by another block.
  const auto by_other_block = [&](std::uint64_t time) { return time != 0 && time < block_began; };

  if (by_other_block(place.written))
    report(0, true, writes ? "writes what was written by" : "reads what was written by");
  else if (place.written == now && place.writer != thread)
    report(place.writer, false, writes ? "writes what was written by" : "reads what was written by");
  if (!writes) {
    place.has_other_reader = place.read == now && (place.has_other_reader || place.reader != thread);
    place.read = now;
    place.reader = thread;
    if (place.first_read == 0) place.first_read = now;
    return;
  }
  if (by_other_block(place.first_read))
    report(0, true, "writes what was read by");
  else if (place.read == now && (place.has_other_reader || place.reader != thread))
    report(place.reader, false, "writes what was read by");
  place.written = now;
  place.writer = thread;
}

void use(const void* memory, std::size_t bytes, bool writes) {
  if (!cuda_on_cpu::inside_kernel) return;
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const auto stack = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  if (std::max(address, stack) - std::min(address, stack) < Fiber::kStackBytes)
    return;                            // the thread's own stack
  cuda_on_cpu::inside_kernel = false;  // the code below is not part of the kernel
  if (std::exchange(launch, cuda_on_cpu::launch_began) != cuda_on_cpu::launch_began) places.clear();
  for (std::size_t at = 0; at < bytes; at += 2) use(address + at, writes);
  cuda_on_cpu::inside_kernel = true;
}

}  // namespace

std::vector<std::string> take_kernel_races() { return std::exchange(races, {}); }

}  // namespace hookline::testing

// The functions that g++ calls. Of their arguments, only the address and the size matter.
using hookline::testing::use;
extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_read1(void* at) { use(at, 1, false); }
void __tsan_read2(void* at) { use(at, 2, false); }
void __tsan_read4(void* at) { use(at, 4, false); }
void __tsan_read8(void* at) { use(at, 8, false); }
void __tsan_read16(void* at) { use(at, 16, false); }
void __tsan_write1(void* at) { use(at, 1, true); }
void __tsan_write2(void* at) { use(at, 2, true); }
void __tsan_write4(void* at) { use(at, 4, true); }
void __tsan_write8(void* at) { use(at, 8, true); }
void __tsan_write16(void* at) { use(at, 16, true); }
void __tsan_read_range(void* at, std::size_t bytes) { use(at, bytes, false); }
void __tsan_write_range(void* at, std::size_t bytes) { use(at, bytes, true); }
void __tsan_vptr_update(void*, void*) {}
}
