#include "support/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace hookline::testing {
namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

// Appends what can be read without blocking; closes the descriptor at end of file.
void read_into(int& descriptor, std::string& text) {
  std::array<char, 65536> buffer;
  while (descriptor >= 0) {
    const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
    if (count > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(count));
    } else if (count == 0 || (errno != EINTR && errno != EAGAIN)) {
      close(descriptor);
      descriptor = -1;
    } else if (errno == EAGAIN) {
      return;
    }
  }
}

// The folders whose TemporaryFolder is alive. std::exit, as in the child of a death test, runs no
// destructor of a local TemporaryFolder, but it runs ~FoldersLeft, which removes the folders of the process.
class FoldersLeft {
 public:
  static FoldersLeft& of_process() {
    static FoldersLeft folders;
    return folders;
  }

  ~FoldersLeft() {
    while (!folders_.empty()) remove(folders_.begin()->first);
  }

  void add(const fs::path& folder) {
    const std::lock_guard lock(mutex_);
    folders_[folder] = getpid();
  }

  // A forked child must not delete the folders that its parent made.
  void remove(fs::path folder) {
    const std::lock_guard lock(mutex_);
    std::error_code ignored;
    if (folders_.at(folder) == getpid()) fs::remove_all(folder, ignored);
    folders_.erase(folder);
  }

 private:
  std::mutex mutex_;
  std::map<fs::path, pid_t> folders_;
};

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string pattern = fs::temp_directory_path() / "hookline-test-XXXXXX";
  if (!mkdtemp(pattern.data())) fail("mkdtemp");
  path_ = fs::canonical(pattern);
  FoldersLeft::of_process().add(path_);
}

TemporaryFolder::~TemporaryFolder() { FoldersLeft::of_process().remove(path_); }

fs::path TemporaryFolder::write(const std::string& name, const std::string& text, bool executable) const {
  const fs::path file = path_ / name;
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
  fs::permissions(file, executable ? fs::perms(0755) : fs::perms(0644));
  return file;
}

std::string read_file(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw std::runtime_error("can't read " + file.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

Process::Process(const std::string& program, const ProcessOptions& options)
    : deadline_(std::chrono::steady_clock::now() + options.limit) {
  int out[2], err[2], exec[2];
  if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0 || pipe2(exec, O_CLOEXEC) != 0) fail("pipe2");
  const int in = memfd_create("input", MFD_CLOEXEC);
  if (in < 0 || write(in, options.input.data(), options.input.size()) < 0 || lseek(in, 0, SEEK_SET) < 0)
    fail("memfd");

  pid_ = fork();
  if (pid_ < 0) fail("fork");
  if (pid_ == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int number : {SIGINT, SIGQUIT, SIGHUP, SIGTERM, SIGPIPE, SIGTSTP}) ::signal(number, SIG_DFL);
    dup2(in, 0);
    dup2(out[1], 1);
    dup2(err[1], 2);
    close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);  // files that the test's caller left open
    if (!options.folder.empty() && chdir(options.folder.c_str()) != 0) _exit(125);
    for (const auto& [name, value] : options.environment)
      if (value)
        setenv(name.c_str(), value->c_str(), 1);
      else
        unsetenv(name.c_str());
    std::vector<char*> arguments = {const_cast<char*>(program.c_str())};
    for (const std::string& argument : options.arguments)
      arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    execvp(program.c_str(), arguments.data());
    _exit(125);
  }
  setpgid(pid_, pid_);
  close(in);
  close(out[1]);
  close(err[1]);
  close(exec[1]);
  // Waits until exec has closed the other end: signals must reach the program, not the forked copy of this
  // process before exec.
  char nothing;
  while (::read(exec[0], &nothing, 1) < 0 && errno == EINTR) {
  }
  close(exec[0]);
  out_ = out[0];
  err_ = err[0];
  fcntl(out_, F_SETFL, O_NONBLOCK);
  fcntl(err_, F_SETFL, O_NONBLOCK);
}

Process::~Process() {
  kill(-pid_, SIGKILL);
  if (!ended_) waitpid(pid_, nullptr, 0);
  close_output();
  if (err_ >= 0) close(err_);
}

void Process::signal(int number) const {
  if (kill(pid_, number) != 0) fail("kill");
}

void Process::close_output() {
  if (out_ >= 0) close(out_);
  out_ = -1;
}

bool Process::is_over() {
  int status;
  if (ended_ || waitpid(pid_, &status, WNOHANG) == 0) return ended_;
  ended_ = true;
  result_.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return true;
}

void Process::read_available(int wait_ms) {
  std::array<pollfd, 2> descriptors = {{{out_, POLLIN, 0}, {err_, POLLIN, 0}}};
  poll(descriptors.data(), descriptors.size(), wait_ms);
  read_into(out_, result_.out);
  read_into(err_, result_.err);
}

bool Process::wait_for(const std::string& text) {
  while (true) {
    const bool over = is_over();
    read_available(over ? 0 : 10);
    if (result_.out.find(text) != std::string::npos || result_.err.find(text) != std::string::npos)
      return true;
    if (over || std::chrono::steady_clock::now() >= deadline_) return false;
  }
}

void Process::read() { read_available(0); }

ProcessResult Process::wait() {
  while (!is_over()) {
    read_available(10);
    if (std::chrono::steady_clock::now() >= deadline_ && !result_.timed_out) {
      result_.timed_out = true;
      kill(-pid_, SIGKILL);
    }
  }
  read_available(0);
  return result_;
}

ProcessResult run_process(const std::string& program, const ProcessOptions& options) {
  return Process(program, options).wait();
}

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

std::vector<pid_t> children_of(pid_t parent) {
  const std::string id = std::to_string(parent);
  std::ifstream in("/proc/" + id + "/task/" + id + "/children");
  return {std::istream_iterator<pid_t>(in), {}};
}

pid_t sentinel_of(pid_t launcher) {
  const auto name_of = [](pid_t pid) {
    std::string name;
    std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/comm"), name);
    return name;
  };
  // Until it sets its own name, it has the launcher's.
  for (const pid_t child : children_of(launcher))
    if (const std::string name = name_of(child); name == "run-sentinel" || name == name_of(launcher))
      return child;
  return 0;
}

pid_t agent_of(pid_t launcher) {
  const pid_t sentinel = sentinel_of(launcher);
  const std::vector<pid_t> children = sentinel == 0 ? std::vector<pid_t>() : children_of(sentinel);
  return children.empty() ? 0 : children[0];
}

std::int64_t peak_memory_kb(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/status");
  for (std::string name; in >> name;) {
    std::int64_t kilobytes = 0;
    if (name == "VmHWM:" && in >> kilobytes) return kilobytes;
  }
  return -1;
}

char state_of(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(status, text)) return '?';
  const std::size_t name_end = text.rfind(')');  // the name before it may contain any character
  return name_end != std::string::npos && text.size() > name_end + 2 ? text[name_end + 2] : '?';
}

bool is_running(pid_t pid) {
  const char state = state_of(pid);
  return state != '?' && state != 'Z';
}

std::string of_process(pid_t pid, const char* name) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<pid_t> running_with(const std::string& mark) {
  std::vector<pid_t> result;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc() || end != name.data() + name.size()) continue;
    if (of_process(pid, "environ").find(mark) != std::string::npos && is_running(pid)) result.push_back(pid);
  }
  return result;
}

}  // namespace hookline::testing
