#include "launcher/output/rank_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/regular_file.h"

namespace hookline {
namespace {

constexpr std::chrono::seconds kOverwrittenEvery{1};

}  // namespace

FileDescriptor open_log(const std::filesystem::path& file) {
  const RegularFile opened = open_regular(file, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (opened.descriptor < 0) throw Error("'" + file.string() + "' can't be written: " + opened.why);
  return FileDescriptor(opened.descriptor);
}

RankStream::RankStream(std::filesystem::path log, const std::optional<std::string>& prefix, OutputQueue& out,
                       OnLogFailure on_log_failure)
    : log_file_(std::move(log)),
      log_(open_log(log_file_)),
      prefix_(prefix),
      out_(&out),
      on_log_failure_(std::move(on_log_failure)) {}

FileDescriptor RankStream::open_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "can't make a pipe");
  pipe_ = FileDescriptor(ends[0]);
  // Only this end is non-blocking: the rank must get an ordinary, blocking output.
  fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);
  return FileDescriptor(ends[1]);
}

bool RankStream::take(std::size_t most_bytes) {
  std::array<char, 64 * 1024> buffer;
  std::size_t taken = 0;
  while (pipe_.is_open() && taken < most_bytes) {
    const ssize_t count = read(pipe_.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    if (count <= 0) {
      finish();
      break;
    }
    const std::string_view bytes(buffer.data(), static_cast<std::size_t>(count));
    taken += bytes.size();
    write_log(bytes);
    std::string shown;
    lines_.feed(bytes, [&](std::string_view line) {
      tail_.add(line);
      if (prefix_) shown.append(*prefix_).append(line).push_back('\n');
    });
    out_->write(shown);
  }
  // A progress bar does not end its line for a long time, so its current state is shown from time to time.
  const auto now = std::chrono::steady_clock::now();
  if (lines_.has_overwritten() && now - shown_overwritten_ >= kOverwrittenEvery) {
    shown_overwritten_ = now;
    show(lines_.take_overwritten());
  }
  return taken > 0;
}

void RankStream::finish() {
  lines_.finish([this](std::string_view line) {
    tail_.add(line);
    show(line);
  });
  pipe_.reset();
  log_.reset();
}

Tail RankStream::tail() const {
  Tail tail = tail_;
  tail.add(lines_.unfinished());
  return tail;
}

void RankStream::show(std::string_view line) {
  if (prefix_) out_->write(std::string(*prefix_).append(line).append("\n"));
}

void RankStream::write_log(std::string_view bytes) {
  while (log_.is_open() && !bytes.empty()) {
    const ssize_t count = write(log_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int error = errno;
      log_.reset();
      on_log_failure_(log_file_, error);
      return;
    }
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace hookline
