// The launcher's connection to the helper process that talks to the other nodes, and serves the ranks' store.
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

namespace hookline {

/// Lines over a socket to that process.
class RelayLink : public NodeLink {
 public:
  /// Starts the program `node_relay`, and gives it the other end of the socket. Throws SpawnError or
  /// std::system_error.
  RelayLink(const std::filesystem::path& program, const MeetingPlace& place, const Signals& signals);

  int descriptor() const override { return socket_.get(); }
  void send_up(const std::string& line) override { send("up " + line); }
  void send_down(const std::string& node, const std::string& line) override {
    send("down " + (node.empty() ? "*" : node) + " " + line);
  }

  void meet(const MeetingPlace& place) override;

  void open_store(int round, bool over_tcp) override {
    send("store " + std::to_string(round) + (over_tcp ? " tcp" : " here"));
  }

  /// What has come; does not wait. After the program's end, `broken` once.
  std::optional<LinkWord> next() override;

  /// Waits until everything sent has been delivered, for at most `patience`.
  void finish(std::chrono::milliseconds patience) override;

 private:
  void send(const std::string& line);
  void take(const std::string& line);

  FileDescriptor socket_;
  std::string program_;
  bool is_alone_;
  BoundedLines lines_{BoundedLines::kUnlimited};  // node_relay limits them
  std::deque<LinkWord> received_;
  bool ended_ = false, told_of_end_ = false;
};

}  // namespace hookline
