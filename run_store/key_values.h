// The key-value store of a run's ranks. Pure: callers carry the requests and the answers.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "run_store/store_request.h"

namespace hookline {

/// Answers as the server of c10d's TCPStore does (torch 2.15, TCPStoreLibUvBackend.cpp).
class KeyValues {
 public:
  using Client = std::uint64_t;
  struct Answer {
    Client to = 0;
    std::string bytes;
  };

  /// What is to be sent, in this order. Throws StoreRequestError if `client` adds to a value that is no
  /// number.
  std::vector<Answer> take(Client client, const StoreRequest& request);

  /// `client` waits for nothing any more.
  void forget(Client client);

 private:
  bool has(const std::string& key) const;
  void set(const std::string& key, std::string value, std::vector<Answer>& answers);
  /// Releases whoever waits for `key`: all clients, or only one.
  void release(const std::string& key, std::vector<Answer>& answers, bool all);
  std::string compare_set(const StoreRequest& request, std::vector<Answer>& answers);
  void await(Client client, const std::string& key);
  /// What `key` holds, plus `amount`.
  std::int64_t sum(const std::string& key, std::int64_t amount) const;
  std::string get(const std::string& key) const;

  std::map<std::string, std::string> values_;
  std::map<std::string, std::deque<std::string>> queues_;
  std::map<Client, std::set<std::string>> awaited_;  // by each client that waits: what is not there yet
  std::map<std::string, std::set<Client>> waiting_;  // the same by key
};

}  // namespace hookline
