// A chain of processes: each starts the next one in a new session and exits, as a runaway rank might.
//
//     fork_chain COUNTER STOP
//
// Ignores SIGTERM. Each link appends a byte to the file COUNTER. Stops once the file STOP exists, or after a
// minute.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <ctime>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int counter = open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0644);
  std::signal(SIGTERM, SIG_IGN);
  const std::time_t end = std::time(nullptr) + 60;
  const auto add = [&] { return write(counter, ".", 1) == 1; };
  while (std::time(nullptr) < end && access(argv[2], F_OK) != 0 && add()) {
    if (fork() != 0) _exit(0);
    setsid();
  }
}
