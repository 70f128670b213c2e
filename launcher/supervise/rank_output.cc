#include "launcher/supervise/rank_output.h"

#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "base/log.h"

namespace hookline {
namespace {

constexpr std::size_t kTurnBytes = 256 * 1024;  // read from one stream before the others get their turn
constexpr std::size_t kDrainBytes = 4
                                    << 20;  // more than a pipe holds; a process left behind may write forever

bool can_be_taken_of(const RankStream& stream) { return stream.is_open() && !stream.is_held_up(); }

}  // namespace

RankOutput::RankOutput(const std::vector<RankSpec>& ranks) {
  const auto on_log_failure = [this](const std::filesystem::path& file, int error_number) {
    warn_of_log(file, error_number);
  };
  ranks_.reserve(ranks.size());
  for (const RankSpec& rank : ranks)
    ranks_.push_back({RankStream(rank.log_folder / "stdout.log", rank.output_prefix, output_, on_log_failure),
                      RankStream(rank.log_folder / "stderr.log", rank.error_prefix, error_, on_log_failure)});
}

void RankOutput::set_before_write(const std::function<void()>& before_write) {
  for (OutputQueue* queue : {&output_, &error_}) queue->set_before_write(before_write);
}

RankOutput::Pipes RankOutput::open_pipes(int rank) {
  Streams& streams = ranks_.at(static_cast<std::size_t>(rank));
  FileDescriptor output = streams.output.open_pipe();
  return {std::move(output), streams.error.open_pipe()};
}

void RankOutput::add_readable(std::vector<pollfd>& descriptors) const {
  for (const Streams& rank : ranks_)
    for (const RankStream* stream : {&rank.output, &rank.error})
      if (can_be_taken_of(*stream)) descriptors.push_back({stream->descriptor(), POLLIN, 0});
}

void RankOutput::add_writable(std::vector<pollfd>& descriptors) const {
  for (const OutputQueue* queue : {&output_, &error_})
    if (!queue->is_empty()) descriptors.push_back({queue->descriptor(), POLLOUT, 0});
}

void RankOutput::write() {
  output_.pump();
  error_.pump();
}

void RankOutput::read() {
  for (Streams& rank : ranks_)
    for (RankStream* stream : {&rank.output, &rank.error})
      if (can_be_taken_of(*stream)) stream->take(kTurnBytes);
}

void RankOutput::drain() {
  for (Streams& rank : ranks_)
    for (RankStream* stream : {&rank.output, &rank.error})
      if (stream->is_open()) {
        stream->take(kDrainBytes);
        stream->finish();
      }
}

void RankOutput::discard() {
  output_.discard();
  error_.discard();
}

void RankOutput::warn_if_closed() {
  if (output_.error_number() == 0 || std::exchange(has_warned_of_closed_, true)) return;
  log::warning(std::string("can't write to standard output any more (") +
               std::strerror(output_.error_number()) + "); the run continues, and its logs are complete");
}

Tail RankOutput::error_tail(int rank) const { return ranks_.at(static_cast<std::size_t>(rank)).error.tail(); }

void RankOutput::warn_of_log(const std::filesystem::path& file, int error_number) {
  if (!std::exchange(has_warned_of_log_, true))
    log::warning("can't write '" + file.string() + "' any more (" + std::strerror(error_number) +
                 "); the run continues without it");
}

}  // namespace hookline
