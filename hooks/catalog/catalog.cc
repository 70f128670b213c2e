#include "hooks/catalog/catalog.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

namespace hookline {
namespace {

constexpr const char* kPowerSgdSource =
    "Vogels, Karimireddy, Jaggi: PowerSGD, NeurIPS 2019, arXiv 1905.13727";
constexpr double kLargestSeed = 4294967295.0;

OptionRow option(std::string name, OptionType type, OptionValue value, std::string help) {
  OptionRow row;
  row.name = std::move(name);
  row.type = type;
  row.default_value = std::move(value);
  row.help = std::move(help);
  return row;
}

OptionRow integer_option(std::string name, std::int64_t value, double at_least, std::string unit,
                         std::string help) {
  OptionRow row = option(std::move(name), OptionType::integer, value, std::move(help));
  row.at_least = at_least;
  row.unit = std::move(unit);
  return row;
}

OptionRow number_option(std::string name, double value, double at_least, std::string help) {
  OptionRow row = option(std::move(name), OptionType::number, value, std::move(help));
  row.at_least = at_least;
  return row;
}

OptionRow boolean_option(std::string name, bool value, std::string help) {
  return option(std::move(name), OptionType::boolean, value, std::move(help));
}

OptionRow seed_option() {
  OptionRow row =
      integer_option("random_seed", 0, 0, "",
                     "Seeds the random Qs: the first of each bucket, or every one without warm_start.");
  row.at_most = kLargestSeed;
  return row;
}

std::vector<OptionRow> batched_power_sgd_options() {
  return {
      integer_option(
          "matrix_approximation_rank", 1, 1, "columns",
          "Rank of the factors P and Q: more sends more and keeps more of the gradient. Usual: 1, 2, 4."),
      integer_option("start_powerSGD_iter", 1000, 0, "steps",
                     "Plain all-reduce before this step; at least 2 with error feedback or warm start. "
                     "Usual: a tenth of all steps."),
      boolean_option("use_error_feedback", true,
                     "Add what compression left out to the next step's gradient."),
      boolean_option("warm_start", true, "Start from the previous step's Q instead of a random one."),
      number_option(
          "orthogonalization_epsilon", 0, 0,
          "Added to a column's norm before dividing by it. Above rank 2 it has no effect in float32 "
          "and float64, as in PyTorch. Usual: 0 to 1e-8."),
      seed_option(),
      integer_option("compression_stats_logging_frequency", 10000, 1, "steps",
                     "Steps between two reports of the compression rate."),
  };
}

std::vector<OptionRow> power_sgd_options() {
  std::vector<OptionRow> options = batched_power_sgd_options();
  options.insert(
      options.begin() + 2,
      number_option(
          "min_compression_rate", 2, 0,
          "Compress a gradient only if that makes it smaller by more than this factor. Usual: 1 to 4."));
  options.push_back(boolean_option(
      "batch_tensors_with_same_shape", false,
      "Draw the random Qs of equal shapes as one batch, as PyTorch's option of this name does."));
  return options;
}

bool is_name(std::string_view name, std::string_view also) {
  const auto fits = [&](unsigned char c) {
    return std::isalnum(c) || also.find(static_cast<char>(c)) != also.npos;
  };
  return !name.empty() && std::isalpha(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(), fits);
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

void check_options_are_well_formed(const HookRow& row) {
  std::set<std::string> seen;
  for (const OptionRow& option : row.options) {
    const std::string where = "hook '" + row.name + "', option '" + option.name + "': ";
    if (!is_name(option.name, "_"))
      throw CatalogError(where + "an option's name is a letter, then letters, digits and _");
    if (!seen.insert(lower(option.name)).second)
      throw CatalogError(
          where +
          "given twice (options set by environment variables do not distinguish upper and lower case)");
    std::string problem;
    if (!check_value(option, option.default_value, problem))
      throw CatalogError(where + "its default " + to_text(option.default_value) + " " + problem);
  }
}

constexpr std::pair<Exactness, const char*> kExactness[] = {{Exactness::lossless, "lossless"},
                                                            {Exactness::half, "half"},
                                                            {Exactness::low_rank, "low_rank"},
                                                            {Exactness::unstated, "unstated"}};

}  // namespace

std::string to_text(Exactness exactness) {
  for (const auto& [value, text] : kExactness)
    if (value == exactness) return text;
  return "";
}

std::optional<Exactness> exactness_of(std::string_view text) {
  for (const auto& [value, name] : kExactness)
    if (text == name) return value;
  return std::nullopt;
}

Catalog Catalog::built_in() {
  Catalog catalog;
  catalog.hooks_ = {
      {"no",
       {"none"},
       "No hook: DDP's own all-reduce.",
       {},
       true,
       false,
       true,
       "none",
       "no hook",
       Exactness::lossless},
      {"allreduce",
       {},
       "Divides by the number of ranks, then sums.",
       {},
       true,
       false,
       true,
       "none",
       "default_hooks.allreduce_hook",
       Exactness::lossless},
      {"fp16",
       {},
       "Averages gradients in float16: half the bytes.",
       {},
       true,
       true,
       true,
       "none",
       "default_hooks.fp16_compress_hook",
       Exactness::half},
      {"bf16",
       {},
       "Averages gradients in bfloat16: half the bytes, float32's range.",
       {},
       true,
       true,
       true,
       "none",
       "default_hooks.bf16_compress_hook",
       Exactness::half},
      {"power_sgd",
       {"powerSGD"},
       "Sends two thin factors of each gradient matrix instead of the matrix.",
       power_sgd_options(),
       true,
       false,
       true,
       kPowerSgdSource,
       "powerSGD_hook.powerSGD_hook",
       Exactness::low_rank},
      {"batched_power_sgd",
       {"batched_powerSGD"},
       "PowerSGD of each bucket as one square matrix: faster, coarser.",
       batched_power_sgd_options(),
       true,
       false,
       true,
       kPowerSgdSource,
       "powerSGD_hook.batched_powerSGD_hook",
       Exactness::low_rank},
      {"noop",
       {},
       "Sends nothing: each rank keeps its own gradients, and the ranks drift apart.",
       {},
       false,
       false,
       false,
       "none",
       "debugging_hooks.noop_hook"},
  };
  catalog.wrappers_ = {
      {"no", "No wrapper.", "", "no wrapper"},
      {"fp16", "Runs the hook on gradients cast to float16.", "float16",
       "default_hooks.fp16_compress_wrapper"},
      {"bf16", "Runs the hook on gradients cast to bfloat16.", "bfloat16",
       "default_hooks.bf16_compress_wrapper"},
  };
  return catalog;
}

void Catalog::add(HookRow row) {
  std::vector<std::string> names = row.aliases;
  names.insert(names.begin(), row.name);
  std::set<std::string> seen;
  for (const std::string& name : names) {
    if (!is_name(name, "_-."))
      throw CatalogError("hook '" + name + "': a hook's name is a letter, then letters, digits, _, - and .");
    if (name == kAutoHook)
      throw CatalogError(
          "hook 'auto': comm_hook = \"auto\" makes hookline choose a hook; give this one another name");
    if (const HookRow* there = find_hook(name)) {
      throw CatalogError("hook '" + name + "' is there already" +
                         (there->plugin.empty() ? ", hookline's own or the program's"
                                                : ", from the plug-in '" + there->plugin + "'") +
                         "; give one of them another name");
    }
    if (!seen.insert(name).second)
      throw CatalogError("hook '" + row.name + "' has the name '" + name + "' twice");
  }
  check_options_are_well_formed(row);
  hooks_.push_back(std::move(row));
}

const HookRow* Catalog::find_hook(std::string_view name) const {
  for (const HookRow& row : hooks_)
    if (row.name == name || std::count(row.aliases.begin(), row.aliases.end(), name)) return &row;
  return nullptr;
}

const WrapperRow* Catalog::find_wrapper(std::string_view name) const {
  for (const WrapperRow& row : wrappers_)
    if (row.name == name) return &row;
  return nullptr;
}

}  // namespace hookline
