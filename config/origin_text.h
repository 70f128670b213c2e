// The comment behind each value of a resolved config: where the value came from.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/schema/run_config.h"

namespace hookline {

/// "default", "file", "environment", "command line".
std::string origin_name(OriginKind kind);

/// "default", "from file run.toml:3:1", "from command line --set ddp.comm_hook".
std::string origin_text(const Origin& origin);

/// Was the key given explicitly, even if with its default value?
bool is_given(const RunConfig& config, const std::string& key);

/// The inverse; nothing for any other text. Throws ConfigError for a place in quotes that origin_text does not write.
std::optional<Origin> read_origin_text(std::string_view text);

}  // namespace hookline
