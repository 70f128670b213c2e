// The launcher's connection to the helper process that talks to the other nodes.
#pragma once

#include <chrono>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>

#include "base/file_descriptor.h"
#include "base/lines.h"
#include "launcher/process/signals.h"
#include "launcher/rendezvous/node_link.h"
#include "launcher/rendezvous/run_secret.h"

namespace hookline {

/// Where the nodes meet, and who this one is.
struct MeetingPlace {
  bool serves = false;    // the nodes are to meet at this one
  bool may_join = false;  // it may join instead if they already meet at another launcher of this host
  std::string address;
  int port = 0;
  std::string run_id;
  std::string node;  // this one's id
  std::chrono::duration<double> join_timeout{300};
  std::chrono::duration<double> node_timeout{5};  // without a heartbeat
  RunSecret secret;                               // no token yet: this user's own is still to be taken
};

/// Lines over a socket to the process that talks to the other nodes.
class RelayLink : public NodeLink {
 public:
  /// Starts the program `node_relay` with this end's other half. Throws SpawnError or std::system_error.
  RelayLink(const std::filesystem::path& program, const MeetingPlace& place, const Signals& signals);

  int descriptor() const override { return socket_.get(); }
  void send_up(const std::string& line) override { send("up " + line); }
  void send_down(const std::string& node, const std::string& line) override {
    send("down " + (node.empty() ? "*" : node) + " " + line);
  }

  void open_store(int round, bool over_tcp) override {
    send("store " + std::to_string(round) + (over_tcp ? " tcp" : " here"));
  }

  /// What has come; does not wait. After the program's end, `gone` once.
  std::optional<LinkWord> next() override;

  /// Waits until everything sent has been delivered, for at most `patience`.
  void finish(std::chrono::milliseconds patience) override;

 private:
  void send(const std::string& line);
  void take(const std::string& line);

  FileDescriptor socket_;
  std::string program_;
  BoundedLines lines_{BoundedLines::kUnlimited};  // at most a message each
  std::deque<LinkWord> received_;
  bool ended_ = false, told_of_end_ = false;
};

}  // namespace hookline
