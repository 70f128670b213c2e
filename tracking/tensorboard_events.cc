#include "tracking/tensorboard_events.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <nlohmann/json.hpp>
#include <string>

#include "config/run_files.h"
#include "tracking/crc32c.h"

namespace hookline {
namespace {

using Time = std::chrono::system_clock::time_point;

// Protocol Buffers by hand: five messages of few fields. Their library in a process with libtorch's own copy
// of it is asking for trouble, and what TensorFlow generates from event.proto is megabytes.
constexpr int kVarint = 0, kDouble = 1, kBytes = 2, kFloat = 5;  // wire types

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

template <typename Integer>
std::string little_endian(Integer value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof value; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

std::string tag(int number, int wire_type) {
  return varint(static_cast<std::uint64_t>(number) << 3 | static_cast<std::uint64_t>(wire_type));
}
std::string bytes_field(int number, std::string_view bytes) {
  return tag(number, kBytes) + varint(bytes.size()) + std::string(bytes);
}
std::string double_field(int number, double value) {
  return tag(number, kDouble) + little_endian(std::bit_cast<std::uint64_t>(value));
}
std::string float_field(int number, float value) {
  return tag(number, kFloat) + little_endian(std::bit_cast<std::uint32_t>(value));
}
std::string integer_field(int number, std::int64_t value) {
  return tag(number, kVarint) + varint(static_cast<std::uint64_t>(value));
}

/// tensorflow.Event of event.proto, with its wall_time and step; `what`: one of its other fields.
std::string event(Time time, std::int64_t step, const std::string& what) {
  const std::chrono::duration<double> since = time.time_since_epoch();
  return double_field(1, since.count()) + integer_field(2, step) + what;
}

/// Event.file_version.
std::string version() { return bytes_field(3, "brain.Event:2"); }

/// Event.summary, of its values.
std::string summary(const std::string& values) { return bytes_field(5, values); }

/// Readers refuse a whole record for a text that is not UTF-8.
std::string utf8(const std::string& text) {
  using nlohmann::json;
  return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace)).get<std::string>();
}

/// Summary.Value with its tag and simple_value.
std::string scalar(const std::string& name, double value) {
  return bytes_field(1, bytes_field(1, utf8(name)) + float_field(2, static_cast<float>(value)));
}

/// Summary.Value of the text plug-in: a tensor of one string, in Markdown.
std::string text(const std::string& name, const std::string& markdown) {
  constexpr int kString = 7;  // DataType.DT_STRING
  const std::string plugin =
      bytes_field(1, bytes_field(1, "text"));  // SummaryMetadata.plugin_data.plugin_name
  const std::string tensor = integer_field(1, kString) + bytes_field(2, "") + bytes_field(8, utf8(markdown));
  return bytes_field(1, bytes_field(1, name) + bytes_field(9, plugin) + bytes_field(8, tensor));
}

std::uint32_t masked(std::uint32_t checksum) { return std::rotr(checksum, 15) + 0xA282EAD8U; }

/// A name that no other file of the folder has.
std::string file_name() {
  static std::atomic<int> files{0};
  utsname system{};
  ::uname(&system);
  return "events.out.tfevents." +
         std::to_string(std::chrono::duration_cast<std::chrono::seconds>(
                            std::chrono::system_clock::now().time_since_epoch())
                            .count()) +
         "." + system.nodename + "." + std::to_string(::getpid()) + "." + std::to_string(files++);
}

}  // namespace

std::string event_record(std::string_view event) {
  const std::string length = little_endian(std::uint64_t{event.size()});
  return length + little_endian(masked(crc32c(length))) + std::string(event) +
         little_endian(masked(crc32c(event)));
}

TensorBoardEvents::TensorBoardEvents(const std::filesystem::path& folder) : file_(folder / file_name()) {}

std::string TensorBoardEvents::place() const { return "'" + file_.path().string() + "'"; }

void TensorBoardEvents::append(std::string_view records) {
  if (is_torn_) throw Error("it ends in half a record");
  std::string problem;
  const std::size_t written = file_.append(records, problem);
  if (problem.empty()) return;
  is_torn_ = written > 0 && !file_.take_back(written);
  if (is_torn_) throw Error(problem + ", in the middle of a record");
  throw TryAgain(problem);
}

void TensorBoardEvents::begin(const TrackedRun& run) {
  const Time now = std::chrono::system_clock::now();
  std::string records = event_record(event(now, 0, version()));
  if (!run.config.empty()) {
    std::string table = "| key | value |\n|---|---|\n";
    for (const auto& [key, value] : run.config) table += "| " + key + " | " + value + " |\n";
    records += event_record(event(now, 0, summary(text("config", table))));
  }
  append(records);
}

void TensorBoardEvents::write(std::span<const LoggedMetrics> lines) {
  std::string records;
  for (const LoggedMetrics& line : lines) {
    std::string values = scalar(kBytesOfLine, static_cast<double>(line.bytes_sent));
    for (const auto& [name, value] : line.values) values += scalar(name, value);
    records += event_record(event(line.time, line.step, summary(values)));
  }
  append(records);
}

}  // namespace hookline
