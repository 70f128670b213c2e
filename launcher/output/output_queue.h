// Output that waits to be written to the launcher's standard output or error.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace hookline {

/// Writes as much as the reader accepts and keeps the rest, so that a slow or stopped reader never blocks the
/// launcher. Writes whole lines together where possible. If the reader is gone (`| head`), only the writing
/// ends.
class OutputQueue {
 public:
  explicit OutputQueue(int descriptor) : descriptor_(descriptor) {}

  void write(std::string_view text);
  void pump();

  /// `before_write` is called before each write(), and may itself call write_without_callback().
  void set_before_write(std::function<void()> before_write) { before_write_ = std::move(before_write); }
  void write_without_callback(std::string_view text);

  bool is_empty() const { return pending_.size() == written_; }
  bool is_congested() const { return pending_.size() - written_ > kCongestedBytes; }
  int descriptor() const { return descriptor_; }
  int error_number() const { return error_number_; }  // why writing has ended; 0: it has not
  void discard() { pending_.clear(), written_ = 0; }

 private:
  static constexpr std::size_t kCongestedBytes = 1 << 20;

  int descriptor_;
  std::string pending_;
  std::size_t written_ = 0;
  int error_number_ = 0;
  std::function<void()> before_write_;
};

}  // namespace hookline
