#include "launcher/process/file_url.h"

#include <string_view>

namespace hookline {

std::string file_url(const std::filesystem::path& file) {
  constexpr std::string_view kPlain =  // RFC 3986's unreserved characters, and the path separator
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string url = "file://";
  for (const char c : std::filesystem::absolute(file).string()) {
    if (kPlain.find(c) != kPlain.npos) {
      url += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    url += {'%', kDigits[byte / 16], kDigits[byte % 16]};
  }
  return url;
}

}  // namespace hookline
