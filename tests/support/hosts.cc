#include "support/hosts.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"

namespace hookline::testing {
namespace {

const std::string kSwitch = "s";

std::string name(const std::string& part) { return "hookline-" + std::to_string(::getpid()) + "-" + part; }
std::string name(int host) { return name(std::to_string(host)); }
std::filesystem::path folder_of(int host) { return "/etc/netns/" + name(host); }
std::string port(int host) { return "port" + std::to_string(host); }

/// Removes what know() has written.
void remove_folders(int count) {
  std::error_code ignored;
  for (int host = 0; host < count; ++host) std::filesystem::remove_all(folder_of(host), ignored);
  std::filesystem::remove(folder_of(0).parent_path(), ignored);  // if it is empty
}

bool run(const std::string& program, std::vector<std::string> arguments) {
  ProcessOptions options;
  options.arguments = std::move(arguments);
  return run_process(program, options).exit_code == 0;
}

bool ip(std::vector<std::string> arguments) { return run(IP_PROGRAM, std::move(arguments)); }

}  // namespace

Hosts::Hosts(int count) : count_(count) {
  remove_folders(count);  // left by a killed process that had the same process id
  ok_ = ip({"netns", "add", name(kSwitch)}) &&
        ip({"-n", name(kSwitch), "link", "add", "switch", "type", "bridge"}) &&
        ip({"-n", name(kSwitch), "link", "set", "switch", "up"});
  for (int host = 0; ok_ && host < count_; ++host) {
    ok_ = ip({"netns", "add", name(host)}) &&
          ip({"-n", name(kSwitch), "link", "add", port(host), "type", "veth", "peer", "name", "e0", "netns",
              name(host)}) &&
          ip({"-n", name(kSwitch), "link", "set", port(host), "master", "switch", "up"}) &&
          ip({"-n", name(host), "addr", "add", address(host) + "/24", "dev", "e0"}) &&
          ip({"-n", name(host), "link", "set", "e0", "up"}) &&
          ip({"-n", name(host), "link", "set", "lo", "up"});
  }
}

Hosts::~Hosts() {
  for (int host = 0; host < count_; ++host) ip({"netns", "del", name(host)});
  remove_folders(count_);
  ip({"netns", "del", name(kSwitch)});
}

std::string Hosts::address(int host) { return "10.99.0." + std::to_string(host + 1); }

std::string Hosts::add_ipv6(int host) const {
  const std::string address = "fd99::" + std::to_string(host + 1);
  return configure(host, {"addr", "add", address + "/64", "dev", "e0", "nodad"}) ? address : "";
}

std::unique_ptr<Process> Hosts::start(int host, const std::string& program, ProcessOptions options) const {
  options.arguments.insert(options.arguments.begin(), {"netns", "exec", name(host), program});
  return std::make_unique<Process>(IP_PROGRAM, options);
}

bool Hosts::enter(int host) const {
  const FileDescriptor space(::open(("/var/run/netns/" + name(host)).c_str(), O_RDONLY | O_CLOEXEC));
  return space.is_open() && ::setns(space.get(), CLONE_NEWNET) == 0;
}

void Hosts::know(int host, const std::string& known, const std::string& address) const {
  const std::filesystem::path folder = folder_of(host);  // `ip netns exec` lays its files over /etc
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "hosts", std::ios::app) << address << " " << known << "\n";
}

bool Hosts::configure(int host, std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin(), {"-n", name(host)});
  return ip(std::move(arguments));
}

bool Hosts::shape(int host, const std::string& rate) const {
  const std::vector<std::string> limit = {"root", "tbf", "rate", rate, "burst", "256kb", "latency", "50ms"};
  for (const auto& [space, device] :
       {std::pair(name(host), std::string("e0")), {name(kSwitch), port(host)}}) {
    std::vector<std::string> arguments = {"netns", "exec",    space, TC_PROGRAM,
                                          "qdisc", "replace", "dev", device};
    arguments.insert(arguments.end(), limit.begin(), limit.end());
    if (!ip(std::move(arguments))) return false;
  }
  return true;
}

bool Hosts::lose(int host, int percent) const {
  return ip({"netns", "exec", name(host), NFT_PROGRAM,
             "add table inet loss; add chain inet loss in { type filter hook input priority 0; }; "
             "add rule inet loss in iifname e0 numgen random mod 100 < " +
                 std::to_string(percent) + " drop"});
}

bool Hosts::count_packets(int host) const {
  return ip({"netns", "exec", name(host), NFT_PROGRAM,
             "add table inet count; add chain inet count out { type filter hook output priority 0; }; "
             "add rule inet count out oifname e0 meta l4proto { tcp, udp } counter"});
}

int Hosts::packets_sent(int host) const {
  ProcessOptions options;
  options.arguments = {"netns", "exec", name(host), NFT_PROGRAM, "list", "chain", "inet", "count", "out"};
  const std::string rules = run_process(IP_PROGRAM, options).out, before = "counter packets ";
  const auto found = rules.find(before);
  return found == rules.npos ? -1 : std::stoi(rules.substr(found + before.size()));
}

void Hosts::cut(int host) const {
  EXPECT_TRUE(ip({"-n", name(kSwitch), "link", "set", port(host), "nomaster"}));
}

void Hosts::heal(int host) const {
  EXPECT_TRUE(ip({"-n", name(kSwitch), "link", "set", port(host), "master", "switch"}));
}

void Hosts::unplug(int host) const {
  EXPECT_TRUE(ip({"-n", name(kSwitch), "link", "set", port(host), "down"}));
}

}  // namespace hookline::testing
