// Hosts on a switch, as network namespaces.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "support/process.h"

namespace hookline::testing {

/// `count` hosts with a link each to one switch; gone when this goes. Needs root and the program `ip`.
class Hosts {
 public:
  explicit Hosts(int count);
  ~Hosts();
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  /// False if network namespaces can't be made here: then use nothing else, and skip the test.
  bool ok() const { return ok_; }

  /// "10.99.0.1" for host 0.
  static std::string address(int host);

  std::unique_ptr<Process> start(int host, const std::string& program, ProcessOptions options) const;

  /// `ip` with these arguments, on the host; false if it fails.
  bool configure(int host, std::vector<std::string> arguments) const;

  /// Limits what the host sends and receives to `rate`, as tc writes it: "50mbit"; again, to another one. False if tc can't.
  bool shape(int host, const std::string& rate) const;

  /// Packets to and from the host vanish; its interface stays up.
  void cut(int host) const;

  /// As if somebody pulled its cable: its interface goes down, and the system knows.
  void unplug(int host) const;

 private:
  int count_;
  bool ok_ = false;
};

}  // namespace hookline::testing
