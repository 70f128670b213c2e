// The store that launchers hold: with several nodes, and on one host for a Python program.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "run_store/store_request.h"

namespace hookline {

/// A connection to the store through the launcher of this node, which reaches the other nodes' launchers over
/// encrypted connections, so that no store listens on the network. It does what c10d::TCPStore does, except
/// for queues and the list of keys; `get`, `wait` and `multiGet` wait for keys that are not there yet.
/// Thread-safe: one request at a time, so a call that waits holds up the others; a `clone()` has a connection
/// of its own.
///
/// Errors: c10::DistStoreError if a key has not come after the timeout. The store then cancels the wait, and
/// throws only when the launcher has confirmed that, however long it takes. If the launcher does not answer
/// any other kind of request within the timeout, that call throws c10::DistStoreError, and later ones throw
/// c10::DistNetworkError, as all do once the launcher has closed the connection.
class LauncherStore : public c10d::Store {
 public:
  /// `name`: of the launcher's Unix socket ($HOOKLINE_STORE), which belongs to this user.
  explicit LauncherStore(std::string name, std::chrono::milliseconds timeout = kDefaultTimeout);

  using Store::compareSet;
  using Store::set;

  c10::intrusive_ptr<Store> clone() override;
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override;
  std::vector<std::uint8_t> compareSet(const std::string& key, const std::vector<std::uint8_t>& expected,
                                       const std::vector<std::uint8_t>& desired) override;
  std::vector<std::uint8_t> get(const std::string& key) override;
  std::int64_t add(const std::string& key, std::int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  std::int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;
  void append(const std::string& key, const std::vector<std::uint8_t>& value) override;
  std::vector<std::vector<std::uint8_t>> multiGet(const std::vector<std::string>& keys) override;
  void multiSet(const std::vector<std::string>& keys,
                const std::vector<std::vector<std::uint8_t>>& values) override;
  bool hasExtendedApi() const override { return true; }

 private:
  // These need mutex_.
  void ask(const StoreRequest& request);
  void wait_for(const std::vector<std::string>& keys, std::chrono::milliseconds timeout);
  bool is_readable_within(std::chrono::milliseconds timeout) const;
  std::string receive(std::size_t bytes, std::chrono::milliseconds timeout);
  std::int64_t receive_number();
  std::vector<std::uint8_t> receive_value();

  std::string name_;
  std::mutex mutex_;
  FileDescriptor socket_;
};

}  // namespace hookline
