// Emulates hosts on a switch with network namespaces.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "support/process.h"

namespace hookline::testing {

/// `count` hosts, each with a link to one switch; removed on destruction. Needs root and the program `ip`.
class Hosts {
 public:
  explicit Hosts(int count);
  ~Hosts();
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  /// False if network namespaces can't be created here: then skip the test.
  bool ok() const { return ok_; }

  /// "10.99.0.1" for host 0.
  static std::string address(int host);

  std::unique_ptr<Process> start(int host, const std::string& program, ProcessOptions options) const;

  /// The calling thread is on that host from now on. False if that fails.
  bool enter(int host) const;

  /// Gives the host an IPv6 address, "fd99::1" for host 0, and returns it; empty if this system has no IPv6.
  std::string add_ipv6(int host) const;

  /// Makes `name` resolve to `address` in programs that are started on the host afterwards.
  void know(int host, const std::string& name, const std::string& address) const;

  /// Runs `ip` with these arguments on the host; false if it fails.
  bool configure(int host, std::vector<std::string> arguments) const;

  /// Limits what the host sends and receives to `rate`, in tc's syntax: "50mbit". Can be called again with
  /// another rate. False if tc fails.
  bool shape(int host, const std::string& rate) const;

  /// Drops `percent` % of the packets that arrive at the host, at random. False if this system can't.
  bool lose(int host, int percent) const;

  /// From now on counts the TCP and UDP packets that leave the host. False if this system can't.
  bool count_packets(int host) const;
  /// How many have left the host since count_packets(); -1 if this system does not say.
  int packets_sent(int host) const;

  /// Drops packets to and from the host; its interface stays up.
  void cut(int host) const;

  /// Undoes cut().
  void heal(int host) const;

  /// As if its cable were pulled: its interface goes down, and the system notices.
  void unplug(int host) const;

 private:
  int count_;
  bool ok_ = false;
};

}  // namespace hookline::testing
