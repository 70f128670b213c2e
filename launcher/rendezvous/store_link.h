// The launcher's connection to the helper process that accesses the nodes' store; only that process uses
// libtorch.
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

/// Where the store is, and who this node is to it.
struct StorePlace {
  bool serves = false;    // this node is to serve the store
  bool may_join = false;  // it may join instead if another launcher on this host serves the store already
  std::string address;
  int port = 0;
  std::string run_id;
  std::string node;  // this one's id
  std::chrono::duration<double> join_timeout{300};
  std::chrono::duration<double> node_timeout{5};  // without a heartbeat
};

/// Lines through the nodes' store, over a socket to the process that talks to it.
class StoreLink : public NodeLink {
 public:
  /// Starts the program `store_node` with this end's other half. Throws SpawnError or std::system_error.
  StoreLink(const std::filesystem::path& program, const StorePlace& place, const Signals& signals);

  int descriptor() const override { return socket_.get(); }
  void send_up(const std::string& line) override { send("up " + line); }
  void send_down(const std::string& line) override { send("down " + line); }

  /// What has come; does not wait. After the program's end, `gone` once.
  std::optional<LinkWord> next() override;

  /// Waits until everything sent has been delivered, for at most `patience`.
  void finish(std::chrono::milliseconds patience) override;

 private:
  void send(const std::string& line);
  void take(const std::string& line);

  FileDescriptor socket_;
  BoundedLines lines_{BoundedLines::kUnlimited};  // a failure's text may take megabytes
  std::deque<LinkWord> received_;
  bool ended_ = false, told_of_end_ = false;
};

}  // namespace hookline
