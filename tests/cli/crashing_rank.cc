// A rank, built without libtorch, that a signal kills, for fatal_signals_test.cc:
//
//     crashing_rank MODE [thread]
//
// Rank 1, or the only one, does as MODE says after step 3, in its main thread or in another; the other
// ranks sleep.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "parallel/rank/rank_status.h"

namespace {

using Function = int (*)(int);

volatile int zero = 0, hundred = 100;
volatile std::uintptr_t nowhere = 0;
struct sigaction former;

[[gnu::noinline]] int recurse(int depth) {
  if (depth < zero) return 0;  // never
  volatile char block[256];
  block[0] = static_cast<char>(depth);
  return recurse(depth + 1) + block[0];
}

// The undefined-behaviour sanitizer would abort before the signal is raised.
#define NOT_CHECKED [[gnu::noinline, gnu::no_sanitize("undefined")]]
NOT_CHECKED void write_to_null() { *reinterpret_cast<volatile int*>(nowhere) = 1; }
NOT_CHECKED void call_null() { reinterpret_cast<Function>(nowhere)(1); }
NOT_CHECKED void divide() { zero = hundred / zero; }

void own_handler(int) {
  std::puts("the program's own handler");
  std::fflush(stdout);
  std::_Exit(7);
}

void chaining_handler(int signal, siginfo_t* info, void* context) {
  static constexpr char text[] = "the program's own handler\n";
  [[maybe_unused]] const ssize_t written = write(1, text, sizeof text - 1);
  former.sa_sigaction(signal, info, context);
}

void handle_segv_and_chain() {
  struct sigaction ours = {};
  ours.sa_sigaction = chaining_handler;
  ours.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &ours, &former);
}

/// Reads past the end of a memory-mapped file.
[[gnu::noinline]] void read_cut_file() {
  char name[] = "/tmp/cut.XXXXXX";
  const int file = mkstemp(name);
  unlink(name);
  if (ftruncate(file, 4096) != 0) return;
  auto* const memory = static_cast<volatile char*>(mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, 0));
  if (ftruncate(file, 0) != 0) return;
  zero = memory[100];
}

void crash_in_child() {
  if (const pid_t child = fork(); child == 0)
    write_to_null();
  else
    waitpid(child, nullptr, 0);
}

[[gnu::noinline]] void crash(const std::string& mode) {
  if (mode == "null" || mode == "own-handler" || mode == "later-handler" || mode == "chain") write_to_null();
  if (mode == "call") call_null();
  if (mode == "abort") std::abort();
  if (mode == "overflow") recurse(0);
  if (mode == "divide") divide();
  if (mode == "illegal") __builtin_trap();
  if (mode == "bus") read_cut_file();
  if (mode == "child") crash_in_child();
  if (mode == "wait") pause();
  if (mode == "reported") {
    hookline::write_error_file("no more memory", "std::runtime_error");
    std::abort();
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string mode = argv[1];
  const char* const size = std::getenv("WORLD_SIZE");
  const int rank = std::atoi(std::getenv("RANK"));
  if (mode == "own-handler") std::signal(SIGSEGV, own_handler);
  hookline::report_fatal_signals_in_error_file();
  hookline::remember_hook("power_sgd(rank=2)");
  if (mode == "later-handler") std::signal(SIGSEGV, own_handler);
  if (mode == "chain") handle_segv_and_chain();
  hookline::tell_step(rank, 3, [] { return hookline::StepDetails{0.5}; });
  std::puts("in step 3");
  std::fflush(stdout);
  if (rank != 1 && std::string(size) != "1") {
    pause();
  } else if (argc > 2) {
    std::thread([&] { crash(mode); }).join();
  } else {
    crash(mode);
  }
  return 0;
}
