#include "launcher/containment/sentinel.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "base/log.h"
#include "launcher/containment/process_tree.h"

namespace hookline {
namespace {

constexpr const char* kSentinelName = "run-sentinel";

[[noreturn]] void refuse(const char* call) { throw std::system_error(errno, std::generic_category(), call); }

/// Closes all other descriptors, so that no terminal or reader of a pipe waits for this process to close
/// them.
void close_all_but(std::vector<int> kept) {
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO}) dup2(null, standard);
  kept.push_back(STDERR_FILENO);
  std::sort(kept.begin(), kept.end());
  int next = STDERR_FILENO;
  const auto close_until = [&next](unsigned end) {
    const auto begin = static_cast<unsigned>(next);
    if (begin > end || syscall(SYS_close_range, begin, end, 0) == 0) return;
    const long limit = std::min<long>(end, sysconf(_SC_OPEN_MAX));  // a kernel before 5.9
    for (long each = begin; each <= limit; ++each) close(static_cast<int>(each));
  };
  for (const int descriptor : kept) {
    if (descriptor < next) continue;
    if (descriptor > next) close_until(static_cast<unsigned>(descriptor) - 1);
    next = descriptor + 1;
  }
  close_until(~0U);
}

/// The status as waitpid() returns it.
int wait_status(const siginfo_t& end) {
  if (end.si_code == CLD_EXITED) return W_EXITCODE(end.si_status, 0);
  return W_EXITCODE(0, end.si_status) | (end.si_code == CLD_DUMPED ? WCOREFLAG : 0);
}

}  // namespace

/// In memory that launcher, sentinel and agent share. That takes no descriptor, which a rank could inherit.
struct Sentinel::Shared {
  std::atomic<pid_t> agent{0};
  std::atomic<bool> has_status{false}, has_given_up{false};
  int agent_status = 0;
  char refusal[2048] = "";  // why there is no agent
};

Sentinel::Sentinel() {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) refuse("mmap");
  shared_ = new (memory) Shared;
}

Sentinel::~Sentinel() { munmap(shared_, sizeof(Shared)); }

pid_t Sentinel::agent() const { return shared_->agent; }

std::optional<int> Sentinel::agent_status() const {
  return shared_->has_status ? std::optional(shared_->agent_status) : std::nullopt;
}

bool Sentinel::has_given_up() const { return shared_->has_given_up; }

void Sentinel::expect_agent() const {
  if (shared_->refusal[0] != '\0') throw std::runtime_error(shared_->refusal);
}

void Sentinel::wake() const { kill(pid_, SIGCONT); }

bool Sentinel::fork_agent(RunBounds& bounds) {
  const pid_t launcher = getpid();
  std::fflush(nullptr);
  pid_ = fork();
  if (pid_ < 0) refuse("fork");
  if (pid_ > 0) return false;
  pid_t agent = -1;
  try {
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) refuse("prctl");
    agent = bounds.fork_agent();
    if (agent < 0) refuse("fork");
  } catch (const std::exception& error) {
    std::strncpy(shared_->refusal, error.what(), sizeof shared_->refusal - 1);
    _exit(1);
  }
  if (agent == 0) return true;
  shared_->agent = agent;
  watch(agent, launcher, bounds);
}

void Sentinel::watch(pid_t agent, pid_t launcher, RunBounds& bounds) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, nullptr);
  // Only here: the agent and the ranks stay in the terminal's session.
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGCONT);  // SIGCONT continues a stopped process even if it is blocked
  close_all_but(bounds.descriptors());
  call_oneself(kSentinelName);
  siginfo_t end{};
  // Reap the agent only after its status is recorded: the launcher finds it there, or else reaps the agent
  // itself.
  while (waitid(P_PID, static_cast<id_t>(agent), &end, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  shared_->agent_status = wait_status(end);
  shared_->has_status = true;
  if (WIFSIGNALED(shared_->agent_status) && getppid() != launcher)
    log::error("the launcher and its agent were killed; killing the ranks");
  shared_->has_given_up = !kill_descendants(kPatienceAfterKill, bounds) || !bounds.remove();
  _exit(0);
}

void call_oneself(const char* name) {
  prctl(PR_SET_NAME, name);
  std::ifstream in("/proc/self/stat");
  std::string text;
  std::getline(in, text);
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  constexpr int kFirst = 3, kArguments = 48;  // field numbers of proc(5)
  std::string passed_over;
  for (int field = kFirst; field < kArguments; ++field) fields >> passed_over;
  std::uintptr_t begin = 0, end = 0;
  if (!(fields >> begin >> end) || end < begin + std::strlen(name) + 1) return;
  char* const arguments = reinterpret_cast<char*>(begin);
  std::memset(arguments, 0, end - begin);
  std::strcpy(arguments, name);
}

}  // namespace hookline
