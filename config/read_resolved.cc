// What a rank reads: the launcher's own output, checked like any other file, with the origins of the launch.
#include <algorithm>

#include "config/collect.h"
#include "config/origin_text.h"
#include "config/resolve.h"
#include "config/toml_keys.h"

namespace hookline {
namespace {

/// Undoes to_text for the few texts that origin_text quotes.
std::string unquoted(std::string_view text) {
  std::string out;
  for (std::size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] != '\\' || i + 2 >= text.size()) {
      out += text[i];
      continue;
    }
    const char escaped = text[++i];
    if (escaped == 'u' && i + 4 < text.size()) {
      out += static_cast<char>(std::stoi(std::string(text.substr(i + 1, 4)), nullptr, 16));
      i += 4;
    } else {
      out += escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped;
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
    return Origin{kind, where.substr(0, 1) == "\"" ? unquoted(where) : std::string(where)};
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
        return each.message.starts_with("unknown ") &&
               each.message.find("[ddp.comm_state_option]") == std::string::npos &&
               each.message.find("hook") == std::string::npos;
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
    const auto origin = read_origin_text(comment_behind(text, place.value));
    if (entry != resolution.config.origins.end() && origin) entry->second = *origin;
  }
  return std::move(resolution.config);
}

}  // namespace hookline
