#include "config/schema/origin_text.h"

#include "base/text/printable.h"

namespace hookline {

bool is_given(const RunConfig& config, const std::string& key) {
  return config.origins.at(key).kind != OriginKind::default_value;
}

std::string origin_name(OriginKind kind) {
  switch (kind) {
    case OriginKind::default_value:
      return "default";
    case OriginKind::file:
      return "file";
    case OriginKind::environment:
      return "environment";
    case OriginKind::command_line:
      return "command line";
  }
  return "default";
}

std::optional<OriginKind> origin_kind(std::string_view name) {
  for (const OriginKind kind :
       {OriginKind::default_value, OriginKind::file, OriginKind::environment, OriginKind::command_line})
    if (origin_name(kind) == name) return kind;
  return std::nullopt;
}

std::string origin_text(const Origin& origin) {
  if (origin.kind == OriginKind::default_value) return origin_name(origin.kind);
  std::string where = origin.where;
  // The text is also written into TOML comments, which allow neither control characters nor invalid UTF-8.
  if (printable(where) != where || where.starts_with('"')) where = printable(to_text(where));
  return "from " + origin_name(origin.kind) + " " + where;
}

}  // namespace hookline
