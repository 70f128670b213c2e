#include "base/text/time_text.h"

namespace hookline {
namespace {

constexpr const char* kFileFormat = "%Y-%m-%dT%H:%M:%SZ";

std::string formatted(const char* format, const std::tm& time) {
  char text[64];
  return {text, std::strftime(text, sizeof text, format, &time)};
}

std::tm utc(std::time_t time) {
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  return parts;
}

}  // namespace

std::string time_text(std::time_t time) { return formatted("%Y-%m-%d %H:%M:%S UTC", utc(time)); }

std::string time_text(const std::string& file_time) {
  std::tm parts{};
  const char* const end = ::strptime(file_time.c_str(), kFileFormat, &parts);
  return end == file_time.c_str() + file_time.size() ? time_text(::timegm(&parts)) : file_time;
}

std::string file_time_text(std::time_t time) { return formatted(kFileFormat, utc(time)); }

std::string time_name(std::time_t time) {
  std::tm parts{};
  ::localtime_r(&time, &parts);
  return formatted("%Y%m%d-%H%M%S", parts);
}

}  // namespace hookline
