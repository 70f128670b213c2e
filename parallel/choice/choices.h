// The models of a program that choose their hooks.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "config/schema/run_config.h"
#include "parallel/choice/hook_chooser.h"
#include "parallel/ddp/ddp.h"
#include "parallel/tensors/saved_part.h"

namespace hookline {

/// Makes models choose hooks by [ddp.auto]. Under `hookline advise`, the program exits with code 0 once every
/// model has chosen, and rank 0 writes the results to the file that $HOOKLINE_ADVICE_FILE names. Preliminary
/// results are written from the start, at first without a model, in case the program ends earlier. Not
/// synchronised.
class Choices {
 public:
  explicit Choices(std::shared_ptr<World> world);

  /// `ddp` chooses its hook from now on, and keeps the chooser alive.
  std::shared_ptr<HookChooser> add(const std::shared_ptr<Ddp>& ddp, const AutoHookConfig& wanted);
  /// Nothing for a model that does not choose.
  std::shared_ptr<const ChoiceReport> report_of(const ParallelStrategy& model) const;

 private:
  std::optional<NamedLink> named_link(const std::string& text) const;
  void end_if_all_have_chosen() const;
  void write_what_is_known();
  void write_advice(bool is_whole) const;

  std::shared_ptr<World> world_;
  std::optional<std::filesystem::path> advice_;
  std::vector<std::pair<const ParallelStrategy*, std::shared_ptr<HookChooser>>> choosers_;
  int written_exchanges_ = -1;  // of hooks, when the advice was last written
};

/// The part of a model's hook, with the choice that the hook came from: it is restored before the hook's
/// state. A choice that can't be used is made anew, and a warning says why.
CheckpointPart with_choice(CheckpointPart hook, std::shared_ptr<HookChooser> chooser);

}  // namespace hookline
