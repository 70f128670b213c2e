// The run's store, at the node where all meet: which rank's connection gets which answer. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "run_store/key_values.h"

namespace hookline {

/// A rank's connection to the store.
struct StorePeer {
  std::string node = {};         // empty: this one
  std::uint64_t connection = 0;  // the node's number for it
  auto operator<=>(const StorePeer&) const = default;
};

class StoreHub {
 public:
  struct Answer {
    StorePeer to;
    std::string bytes;
    bool is_last = false;  // the connection is to be closed
  };

  /// All that the ranks of the last round have stored is forgotten, and so are their connections.
  void begin_round(int round);
  int round() const { return round_; }

  /// A rank of `round` has connected. False if it is another round than this.
  bool open(const StorePeer& peer, int round);

  /// Bytes of `peer` have come; answers to others may follow from them. Whoever sends what is not a request,
  /// or has not connected, is to be disconnected. For bytes that are no request, take_problem() says why.
  std::vector<Answer> take(const StorePeer& peer, std::string_view bytes);

  /// What was wrong with the last bytes that were no request; once, then empty.
  std::string take_problem() { return std::exchange(problem_, ""); }

  /// Once no rank is connected any more, all that they have stored is forgotten.
  void end(const StorePeer& peer);
  /// All connections of `node` have ended.
  void end_all_of(const std::string& node);

 private:
  struct Client {
    KeyValues::Client number = 0;
    StoreRequests requests = {};
  };

  int round_ = 0;
  KeyValues values_;
  std::map<StorePeer, Client> clients_;
  std::map<KeyValues::Client, StorePeer> peers_;
  KeyValues::Client connected_ = 0;  // so far
  std::string problem_;
};

}  // namespace hookline
