// What a rank reads: the launcher's own output, checked like any other file, with the origins of the launch.
#include <algorithm>
#include <charconv>

#include "config/origin_text.h"
#include "config/resolve.h"
#include "config/sources/collect.h"
#include "config/toml/toml_keys.h"

namespace hookline {
namespace {

constexpr std::size_t kCodeDigits = 4;  // behind \u

/// The byte that four digits of base 16 stand for: to_text writes none above 0x7f so.
std::optional<char> byte_of(std::string_view digits) {
  unsigned code = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
  const bool is_whole = problem == std::errc() && end == digits.data() + kCodeDigits;
  return is_whole && code <= 0x7f ? std::optional(static_cast<char>(code)) : std::nullopt;
}

/// Undoes to_text for the few texts that origin_text quotes; nothing for what to_text does not write.
std::optional<std::string> unquoted(std::string_view text) {
  if (text.size() < 2 || text.back() != '"') return std::nullopt;
  text = text.substr(1, text.size() - 2);
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') return std::nullopt;
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    const char escaped = ++i < text.size() ? text[i] : '\0';
    if (escaped == 'u') {
      const auto byte = byte_of(text.substr(i + 1, kCodeDigits));
      if (!byte) return std::nullopt;
      out += *byte;
      i += kCodeDigits;
    } else if (escaped == 'n' || escaped == 't') {
      out += escaped == 'n' ? '\n' : '\t';
    } else if (escaped == '"' || escaped == '\\') {
      out += escaped;
    } else {
      return std::nullopt;
    }
  }
  return out;
}

/// The comment in the rest of the line behind `value`, without its #.
std::string_view comment_behind(std::string_view text, Span value) {
  const std::size_t end = value.offset + value.length;
  std::string_view rest = text.substr(end, text.find('\n', end) - end);
  const std::size_t start = rest.find("# ");
  return start == rest.npos ? std::string_view() : rest.substr(start + 2);
}

}  // namespace

std::optional<Origin> read_origin_text(std::string_view text) {
  if (text == origin_name(OriginKind::default_value)) return Origin{};
  for (const OriginKind kind : {OriginKind::file, OriginKind::environment, OriginKind::command_line}) {
    const std::string start = "from " + origin_name(kind) + " ";
    if (text.substr(0, start.size()) != start) continue;
    const std::string_view where = text.substr(start.size());
    const auto whole = where.starts_with('"') ? unquoted(where) : std::optional(std::string(where));
    if (!whole)
      throw ConfigError("the place " + std::string(where) +
                        " is not written as hookline writes one: in quotes, " +
                        "with \\n, \\t, \\\", \\\\ and \\u0000 to \\u007F for what else would end it");
    return Origin{kind, *whole};
  }
  return std::nullopt;
}

RunConfig read_resolved(const std::filesystem::path& file, const Catalog& catalog) {
  Sources sources;
  sources.file = file;
  sources.allow_program_hooks = false;
  Resolution resolution = resolve(sources, catalog);
  const bool is_of_another_version =
      std::any_of(resolution.diagnostics.begin(), resolution.diagnostics.end(), [](const Diagnostic& each) {
        return each.kind == ProblemKind::unknown_key || each.kind == ProblemKind::unknown_wrapper;
      });
  if (!resolution.ok() && is_of_another_version) {
    throw ConfigError(
        resolution.report() +
        "the launcher that wrote this file is of another version than the library in this program: build "
        "both from one\n");
  }
  if (!resolution.ok()) throw ConfigError(resolution.report());

  const auto source = read_source(file);
  if (const auto* problem = std::get_if<Diagnostic>(&source)) throw ConfigError(render(*problem));
  const std::string_view text = std::get<SourceText>(source).text();
  for (const auto& [path, place] : find_keys(text)) {
    std::string key;
    for (const std::string& name : path) key += (key.empty() ? "" : ".") + name;
    const auto entry = resolution.config.origins.find(key);
    if (entry == resolution.config.origins.end()) continue;
    try {
      if (const auto origin = read_origin_text(comment_behind(text, place.value))) entry->second = *origin;
    } catch (const ConfigError& problem) {
      throw ConfigError(
          render(diagnostic_at(std::get<SourceText>(source).place(place.value), Severity::error,
                               "the comment behind " + key + " can't be read", problem.what())));
    }
  }
  return std::move(resolution.config);
}

}  // namespace hookline
