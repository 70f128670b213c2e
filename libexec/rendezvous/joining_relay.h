// The relay of a node that joins the others: finds the serving one, and passes lines between it and this
// node's launcher, and bytes between this node's ranks and the store.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "libexec/rendezvous/lines/launcher_socket.h"
#include "libexec/rendezvous/lines/line_stream.h"
#include "libexec/rendezvous/patience.h"
#include "libexec/rendezvous/place.h"
#include "libexec/rendezvous/store/rank_connections.h"
#include "libexec/rendezvous/wire.h"

namespace hookline {

class JoiningRelay {
 public:
  /// `taken_here`: this node could not serve because the port is taken. The arguments must outlive it.
  JoiningRelay(const RelayPlace& place, const RunKeys& keys, zmq::context_t& context,
               LauncherSocket& launcher, bool taken_here);

  /// Returns when the launcher has closed its end and all that it sent has arrived; or when the serving node
  /// can't be reached or no longer answers, after reporting that to the launcher.
  void run();

 private:
  using Clock = std::chrono::steady_clock;
  /// A connection to one of the addresses that the serving host's name stands for.
  struct Attempt {
    Attempt(const std::string& address, const RelayPlace& place, const RunKeys& keys,
            zmq::context_t& context);
    std::string address;
    zmq::socket_t socket;
    ConnectionEvents events;
    bool is_connected = false;  // to something, which has not proved yet that it holds the secret

    /// Gives the connection up for a new one.
    void connect_again();

   private:
    std::string endpoint_;
  };

  /// Connects; returns false if that fails or the launcher ends.
  bool join();
  /// Connects to the next address; the earlier ones stay on trial, unless what listens there is no launcher.
  void try_next_address(Clock::time_point now);
  /// Keeps the connection that is established first and drops the others; false if none is established yet.
  bool take_joined();
  /// `failed`: the other side is not a launcher that accepts this node.
  enum class Fate { open, joined, failed };
  Fate fate_of(Attempt& attempt);
  /// Sends over a new connection what may have been lost with the last.
  void resume();
  /// Looks at what became of the connection. Returns why it can't be used any more, or nothing if it can.
  std::optional<std::string> look_at_connection(Clock::time_point now);
  /// Connects anew, at growing intervals, while the serving relay is silent: after a cut that heals, TCP
  /// would wait for as long again as the cut lasted.
  void connect_again_if_silent(Clock::time_point now);
  /// Reads from the launcher; false once it has closed its end.
  bool read_launcher();
  /// Takes the frames that have arrived. Returns why no more can follow, or nothing if more can.
  std::optional<std::string> take_frames(Clock::time_point now);
  /// A line of the serving relay's, for the launcher or for a rank.
  void take(const std::string& line);
  /// "ROUND here" of the launcher's.
  void open_store(const std::string& text);
  void serve_ranks();
  void send_up(const std::string& line);
  void send(const std::string& frame);
  std::string why_unreachable() const;

  const RelayPlace& place_;
  const RunKeys& keys_;
  zmq::context_t& context_;
  LauncherSocket& launcher_;
  bool taken_here_;
  std::vector<std::string> addresses_;  // that the name stood for when it was looked up last
  std::string why_no_address_;
  Clock::time_point looked_up_{};
  std::size_t next_ = 0;  // of addresses_, to be tried
  std::vector<std::unique_ptr<Attempt>> attempts_;
  std::unique_ptr<Attempt> joined_;  // the one that was established first
  bool has_connected_ = false, has_warned_ = false, has_told_of_silence_ = false;
  std::optional<Clock::time_point>
      cut_since_;  // since when the connection is broken, or when that was last looked at
  LineStream lines_;
  RankConnections ranks_;
  int round_ = 0;  // that they are in
  bool owes_count_ = false;
  Clock::time_point answered_{};  // when the serving relay answered last
  Clock::time_point connect_again_at_{};
  Clock::duration connect_again_every_{};
  Patience patience_;
};

}  // namespace hookline
