#include "parallel/resume/loader_state.h"

#include <string>

#include "base/text/count_text.h"

namespace hookline {

SavedPart save_position(const detail::EpochPlan& plan, int ranks) {
  const detail::EpochPosition position = plan.position();
  SavedPart saved;
  saved.notes = {{"epoch", position.epoch},
                 {"samples", position.batches * plan.options().batch_size * ranks},
                 {"samples_consumed", position.samples_consumed},
                 {"passes", position.passes},
                 {"epoch_offset", position.offset},
                 {"asks", position.asks},
                 {"looks", position.looks},
                 {"cycled", position.cycled},
                 {"nested", position.nested},
                 {"leaves", position.leaves},
                 {"trained_passes", position.trained_passes},
                 {"led", position.led},
                 {"trains", plan.is_trained_on()},
                 {"drives", plan.is_driver()}};
  return saved;
}

void load_position(detail::EpochPlan& plan, const SavedPart& saved, Resumption& resumption, bool by_hand) {
  detail::EpochPosition position;
  saved.notes.at("epoch").get_to(position.epoch);
  saved.notes.at("samples_consumed").get_to(position.samples_consumed);
  position.passes = saved.notes.value("passes", position.epoch);
  position.offset = saved.notes.value("epoch_offset", std::int64_t{0});
  position.asks = saved.notes.value("asks", false);
  position.looks = saved.notes.value("looks", std::int64_t{0});
  position.cycled = saved.notes.value("cycled", false);
  position.nested = saved.notes.value("nested", false);
  position.leaves = saved.notes.value("leaves", false);
  position.trained_passes = saved.notes.value("trained_passes", position.passes);
  position.led = saved.notes.value("led", false);
  const auto samples = saved.notes.at("samples").get<std::int64_t>();
  const std::int64_t batch = plan.options().batch_size * resumption.ranks;
  position.batches = samples / batch;
  if (const std::int64_t again = samples % batch; again != 0)
    resumption.resets.push_back("the exact place in epoch " + std::to_string(position.epoch) + ": " +
                                count_text(again, "sample") +
                                " will be seen again, since the samples are divided into other batches now");
  const bool drives = saved.notes.value("drives", false);
  plan.resume_at(position, drives, saved.notes.value("trains", drives), by_hand);
}

}  // namespace hookline
