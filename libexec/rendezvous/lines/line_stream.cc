#include "libexec/rendezvous/lines/line_stream.h"

#include <utility>

#include "libexec/rendezvous/lines/take_text.h"

namespace hookline {
namespace {

std::string frame_of(std::uint64_t number, const std::string& line) {
  return "L" + std::to_string(number) + "\n" + line;
}

}  // namespace

std::optional<LineStream::Frame> LineStream::parse(std::string_view bytes) {
  Frame frame;
  if (take_text(bytes, "L")) {
    const auto number = take_number<std::uint64_t>(bytes);
    if (!number || !take_text(bytes, "\n")) return std::nullopt;
    frame.number = *number;
    frame.line = bytes;
    return frame;
  }
  if (take_text(bytes, "B"))
    frame.kind = Kind::heartbeat;
  else if (take_text(bytes, "R"))
    frame.kind = Kind::resume;
  else if (take_text(bytes, "A"))
    frame.kind = Kind::answer;
  else
    return std::nullopt;
  const auto received = take_number<std::uint64_t>(bytes);
  if (!received || !bytes.empty()) return std::nullopt;
  frame.received = *received;
  return frame;
}

std::string LineStream::send(SharedLine line) {
  kept_.push_back(std::move(line));
  return frame_of(++sent_, *kept_.back());
}

std::string LineStream::count(Kind kind) const {
  const char* const letter = kind == Kind::heartbeat ? "B" : kind == Kind::resume ? "R" : "A";
  return letter + std::to_string(received_);
}

bool LineStream::takes(const Frame& line) {
  if (line.number != received_ + 1) return false;
  ++received_;
  return true;
}

bool LineStream::heard(std::uint64_t received) {
  if (received > sent_) return true;  // impossible: no peer of ours has more lines than were sent
  if (received < sent_ - kept_.size()) return false;
  while (sent_ - kept_.size() < received) kept_.pop_front();
  return true;
}

std::vector<std::string> LineStream::unreceived() const {
  std::vector<std::string> frames;
  std::uint64_t number = sent_ - kept_.size();
  for (const SharedLine& line : kept_) frames.push_back(frame_of(++number, *line));
  return frames;
}

void LineStream::forget() {
  static const auto nothing = std::make_shared<const std::string>();
  for (SharedLine& line : kept_) line = nothing;
}

}  // namespace hookline
