// Where a value came from, in words.
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

/// The inverse of origin_name(); nothing for any other text.
std::optional<OriginKind> origin_kind(std::string_view name);

}  // namespace hookline
