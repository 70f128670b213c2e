// The connections of ranks to the run's store, at one node.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"

namespace hookline {

/// Takes connections, reads from them, and writes to them; never waits.
class RankConnections {
 public:
  using Connection = std::uint64_t;
  struct Event {
    enum class Kind { opened, data, ended };
    Kind kind = Kind::ended;
    Connection connection = 0;
    std::string bytes = {};  // of data
  };

  /// Throws std::system_error.
  RankConnections();

  /// Closes everything, and listens anew at a Unix socket without a file, which takes connections of
  /// processes of this user only. Returns the socket's name. Throws std::system_error.
  std::string listen_here();

  /// Listens, in addition, at one free TCP port of these addresses (in digits; an empty one: all of this
  /// host), for hosts for which `is_member` holds, and for this host. Returns the port. Throws
  /// std::system_error.
  int listen_at(const std::vector<std::string>& addresses,
                std::function<bool(const std::string& address)> is_member);

  /// Readable when events() has something to do; for poll().
  int descriptor() const { return polled_.get(); }

  /// What has happened.
  std::vector<Event> events();

  void send(Connection connection, std::string_view bytes);
  /// Closes it once everything sent has been written. No event follows.
  void end(Connection connection);

  /// The address of the first host of this round that was refused; once.
  std::optional<std::string> take_stranger() { return std::exchange(stranger_, std::nullopt); }

 private:
  struct Open {
    FileDescriptor descriptor;
    std::string unsent;
    bool is_ending = false;
  };

  void watch(int descriptor, std::uint64_t number, bool reads, bool writes, bool is_new);
  void accept_all(const FileDescriptor& listener, bool is_tcp, std::vector<Event>& events);
  bool may_connect(int descriptor, const std::string& from);
  /// If `pauses`, leaves waiting connections waiting; otherwise accepts connections again.
  void pause(bool pauses);
  void forget(Connection connection);
  void read(Connection connection, std::vector<Event>& events);
  /// False if the connection is broken.
  bool flush(Connection connection);

  FileDescriptor polled_, here_;
  std::vector<FileDescriptor> tcp_;
  std::function<bool(const std::string&)> is_member_;
  std::map<Connection, Open> open_;
  Connection last_;
  std::optional<std::string> stranger_;
  bool has_refused_ = false, is_paused_ = false;
};

}  // namespace hookline
