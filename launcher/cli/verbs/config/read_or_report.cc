#include "launcher/cli/verbs/config/read_or_report.h"

#include <iostream>

namespace hookline {

std::optional<SourceText> read_or_report(const std::filesystem::path& file) {
  auto source = read_source(file);
  if (auto* const text = std::get_if<SourceText>(&source)) return std::move(*text);
  std::cerr << render(std::get<Diagnostic>(source)) << std::flush;
  return std::nullopt;
}

}  // namespace hookline
