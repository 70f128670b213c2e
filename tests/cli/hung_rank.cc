// A rank that hangs after its first step, for stacks_test.cc:
//
//     hung_rank [DEPTH]
//
// Two more threads hang as well, and the main thread hangs DEPTH calls deep.
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>

namespace {

volatile bool is_over = false;

[[gnu::noinline]] void hang() {
  while (!is_over) pause();
}

// Not a tail call: its frame must stay on the stack.
[[gnu::noinline]] int descend(int depth) {
  if (depth == 0) {
    hang();
    return 0;
  }
  return descend(depth - 1) + 1;
}

[[gnu::noinline]] void hang_in_first_thread() { hang(); }
[[gnu::noinline]] void hang_in_second_thread() { hang(); }

}  // namespace

int main(int argc, char** argv) {
  std::thread first(hang_in_first_thread), second(hang_in_second_thread);
  const std::string told = std::string("rank=") + std::getenv("RANK") + " step=1";
  const ssize_t count = write(std::atoi(std::getenv("HOOKLINE_STATUS_FD")), told.data(), told.size());
  if (count < 0) return 1;
  return descend(argc > 1 ? std::atoi(argv[1]) : 0);
}
