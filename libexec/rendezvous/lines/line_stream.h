// Lines to and from one peer, each delivered once and in order, over connections that may break and come
// again. Pure: callers send the frames that it makes, and pass on those that arrive.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hookline {

/// A line that is on its way. One line to many peers is one object.
using SharedLine = std::shared_ptr<const std::string>;

/// One end of a connection between two processes, with lines in both directions. Every line has a number,
/// counted from 1. The receiver takes only the line whose number is next; the sender keeps its lines until
/// the receiver has counted them, and sends them again over each new connection.
///
/// A frame is "L", the line's number, a newline and the line; or it tells how many lines its sender has
/// received: "B" (a heartbeat) or "R" (the first frame over a new connection), both of which ask for an
/// answer, or "A" (the answer), and the number.
class LineStream {
 public:
  enum class Kind { line, heartbeat, resume, answer };
  struct Frame {
    Kind kind = Kind::line;
    std::uint64_t number = 0;  // of the line
    std::string line;
    std::uint64_t received = 0;  // how many lines its sender has received
  };
  /// Parses a frame; nothing if it is none.
  static std::optional<Frame> parse(std::string_view bytes);

  /// Takes a line to be sent, and returns its frame.
  std::string send(SharedLine line);
  /// The frame that tells how many lines this side has received.
  std::string count(Kind kind) const;

  /// Is this the line to be received next? If it is, counts it as received.
  bool takes(const Frame& line);
  /// The other side has received so many lines: these need not be kept. False if it has forgotten what it
  /// received before: it is another process than that of this stream.
  bool heard(std::uint64_t received);
  /// The frames of the lines that it has not received, as far as is known: what is sent over a new
  /// connection.
  std::vector<std::string> unreceived() const;

  /// Has the other side received everything that was sent?
  bool is_delivered() const { return kept_.empty(); }
  /// Gives up what the other side has not received. It receives empty lines instead.
  void forget();

 private:
  std::deque<SharedLine> kept_;  // sent and not yet received, the last being number sent_
  std::uint64_t sent_ = 0, received_ = 0;
};

}  // namespace hookline
