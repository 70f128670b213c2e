// The token of a user's launchers, where nothing else gives them one.
#pragma once

#include <filesystem>

namespace hookline {

/// The file "token" in own_config_folder(), which this user alone may read; whichever launcher needs it first
/// writes a new token into it. So this user's launchers have the same token on all hosts that share the home
/// folder. Throws Error if the file can't be made.
std::filesystem::path user_token_file();

}  // namespace hookline
