// The store of the run's ranks, at the node that holds it, and the ways by which ranks reach it.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "libexec/rendezvous/lines/launcher_socket.h"
#include "libexec/rendezvous/store/rank_connections.h"
#include "libexec/rendezvous/store/store_hub.h"
#include "libexec/rendezvous/store/store_word.h"

namespace hookline {

class StoreServer {
 public:
  /// How ranks of other nodes reach the store.
  struct Others {
    /// Sends `word` to a node that has passed on what its ranks sent.
    std::function<void(const std::string& node, const StoreWord& word)> send;
    /// May ranks at this address, in digits, connect by TCP?
    std::function<bool(const std::string& address)> is_member;
  };

  /// `address`: where the nodes meet, in digits or a name. The launcher's socket must outlive it.
  StoreServer(LauncherSocket& launcher, std::string address, Others others);

  /// Opens an empty store for the next round: "ROUND tcp" or "ROUND here" of the launcher's. Tells the
  /// launcher where it is. Throws std::system_error.
  void open(const std::string& text);

  /// Readable when serve_ranks() has something to do; for poll().
  int descriptor() const { return ranks_.descriptor(); }
  /// Answers the ranks that have connected here.
  void serve_ranks();
  /// Takes what a rank of `node` has sent.
  void take(const std::string& node, const StoreWord& word);
  /// All connections of the ranks of `node` have ended.
  void end_all_of(const std::string& node) { store_.end_all_of(node); }

 private:
  /// By which others reach this node, as far as they have told it.
  std::string address_for_ranks() const;
  /// The addresses at which to listen by TCP.
  std::vector<std::string> places() const;
  void answer(const std::vector<StoreHub::Answer>& answers);

  LauncherSocket& launcher_;
  std::string address_;
  std::set<std::string> reached_at_;  // by other nodes
  Others others_;
  StoreHub store_;
  RankConnections ranks_;  // of this node, or all that come by TCP
};

}  // namespace hookline
