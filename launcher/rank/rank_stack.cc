#include "launcher/rank/rank_stack.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/file_descriptor.h"
#include "base/lines.h"
#include "base/text/count_text.h"
#include "launcher/process/child.h"
#include "launcher/process/own_environment.h"
#include "launcher/rank/program.h"

namespace hookline {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{20};  // for addr2line, over all modules
constexpr std::size_t kMostFrames = 256;       // more than a rank writes; the file may come from anyone

/// The bytes of a JSON string in which each character stands for one byte.
std::string bytes_at(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return "";
  std::string bytes;
  const auto& text = found->get_ref<const std::string&>();
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const bool is_pair = (lead == 0xc2 || lead == 0xc3) && i + 1 < text.size();
    bytes += is_pair ? static_cast<char>(((lead & 3) << 6) | (static_cast<unsigned char>(text[++i]) & 0x3f))
                     : text[i];
  }
  return bytes;
}

std::int64_t number_at(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

/// The text if it is an address such as "0x12ab", else empty.
std::string address_at(const nlohmann::json& object, const char* key) {
  const std::string text = bytes_at(object, key);
  const bool is_address = text.size() > 2 && text.size() <= 18 && text.starts_with("0x") &&
                          text.find_first_not_of("0123456789abcdef", 2) == std::string::npos;
  return is_address ? text : "";
}

struct Output {
  std::string text;
  std::string problem;
};

std::string contents_of(int file) {
  std::string text;
  char block[4096];
  for (ssize_t count; (count = pread(file, block, sizeof block, static_cast<off_t>(text.size()))) > 0;)
    text.append(block, static_cast<std::size_t>(count));
  return text;
}

Output output_of_addr2line(const std::vector<std::string>& arguments, Clock::time_point deadline) {
  std::vector<std::string> command = {"addr2line", "-a", "-C", "-f", "-i"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  try {
    const Program program = find_program(command, search_path());
    const FileDescriptor out(memfd_create("addr2line", MFD_CLOEXEC));
    const FileDescriptor errors(memfd_create("errors", MFD_CLOEXEC));
    ChildSpec child;
    child.program = program.executable;
    child.arguments = program.arguments;
    child.environment = own_environment_without("DEBUGINFOD_URLS");
    child.standard_output = out.get();
    child.standard_error = errors.get();
    const pid_t pid = spawn(child);
    const FileDescriptor end(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    pollfd descriptor = {end.get(), POLLIN, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    const bool ended = poll(&descriptor, 1, static_cast<int>(std::max<decltype(left)>(left, 0))) > 0;
    if (!ended) kill(pid, SIGKILL);
    int status = 0;
    waitpid(pid, &status, 0);
    Output output{contents_of(out.get()), ""};
    if (!ended) {
      output.problem = "addr2line took too long";
    } else if (status != 0) {
      const std::string why = contents_of(errors.get());
      output.problem = why.substr(0, why.find('\n'));
      if (output.problem.empty()) output.problem = "addr2line failed";
    }
    return output;
  } catch (const ProgramError&) {
    return {"", "addr2line, of binutils, is not here"};
  } catch (const std::exception& error) {
    return {"", error.what()};
  }
}

/// The output of `addr2line -a -f -i` by address. It prints each address, then the name and the line of each
/// function there, the innermost first.
std::map<std::string, std::string> places_in(const std::string& text) {
  std::map<std::string, std::string> places;
  std::string function, address;
  for (const std::string_view line : lines_of(text)) {
    if (line.starts_with("0x")) {
      const std::size_t digits = line.find_first_not_of('0', 2);
      address = "0x" + std::string(digits == line.npos ? "0" : line.substr(digits));
    } else if (function.empty()) {
      function = line;
    } else {
      std::string& place = places[address];
      if (function != "??") {
        if (!place.empty()) place += ", inlined in ";
        place += function;
        const std::string_view where = line.substr(0, line.find(" (discriminator"));
        if (!where.starts_with("??") && !where.ends_with(":?") && !where.ends_with(":0"))
          place.append(" at ").append(where);
      }
      function.clear();
    }
  }
  return places;
}

/// The function of each frame, by module and offset, and why some frames have none.
struct FrameNames {
  std::map<std::pair<std::string, std::string>, std::string> places;
  std::string problem;
};

FrameNames names_of(const RankStack& stack) {
  std::map<std::string, std::vector<std::string>> arguments;
  for (const RankFrame& frame : stack.frames) {
    if (frame.module.empty() || !frame.module.starts_with('/')) continue;  // linux-vdso.so.1 has no path
    auto& of_module = arguments[frame.module];
    if (of_module.empty()) of_module = {"-e", frame.module};
    if (std::find(of_module.begin(), of_module.end(), frame.offset) == of_module.end())
      of_module.push_back(frame.offset);
  }
  FrameNames names;
  const auto deadline = Clock::now() + kPatience;
  for (const auto& [module, of_module] : arguments) {
    const Output output = output_of_addr2line(of_module, deadline);
    if (names.problem.empty()) names.problem = output.problem;
    for (auto& [offset, place] : places_in(output.text))
      if (!place.empty()) names.places[{module, offset}] = place;
  }
  return names;
}

std::string frame_text(const RankFrame& frame, const FrameNames& names) {
  if (frame.module.empty()) return frame.address + ", where there is no code";
  const std::string where = frame.offset + " in " + frame.module;
  const auto known = names.places.find({frame.module, frame.offset});
  return known == names.places.end() ? where : known->second + " (" + where + ")";
}

}  // namespace

std::optional<RankStack> rank_stack_in(const nlohmann::json& extra) {
  const auto found = extra.find("stack");
  if (found == extra.end() || !found->is_array()) return std::nullopt;
  RankStack stack;
  stack.thread = number_at(extra, "thread");
  stack.thread_name = bytes_at(extra, "thread_name");
  stack.depth = number_at(extra, "frames");
  stack.is_cut = extra.contains("frames_cut");
  for (const nlohmann::json& each : *found) {
    if (!each.is_object() || stack.frames.size() == kMostFrames) continue;
    RankFrame frame{number_at(each, "frame"), address_at(each, "address"), bytes_at(each, "module"),
                    address_at(each, "offset")};
    if (frame.offset.empty()) frame.module.clear();
    if (!frame.address.empty()) stack.frames.push_back(std::move(frame));
  }
  return stack;
}

std::vector<std::string> stack_lines(const RankStack& stack) {
  const std::string thread = std::to_string(stack.thread) + " '" + stack.thread_name + "'";
  if (stack.frames.empty()) return {"the stack of thread " + thread + " could not be read"};
  std::vector<std::string> lines = {"in thread " + thread + ", the innermost call first:"};
  const FrameNames names = names_of(stack);
  std::int64_t expected = stack.frames.front().number;
  for (std::size_t i = 0; i < stack.frames.size();) {
    const RankFrame& frame = stack.frames[i];
    if (const std::int64_t between = frame.number - expected; between > 0)
      lines.push_back("  " + count_text(between, "call") + (between == 1 ? " between is" : " between are") +
                      " left out");
    const std::string text = frame_text(frame, names);
    std::size_t end = i + 1;
    while (end < stack.frames.size() && stack.frames[end].number == stack.frames[end - 1].number + 1 &&
           frame_text(stack.frames[end], names) == text)
      ++end;
    const std::int64_t last = stack.frames[end - 1].number;
    lines.push_back("  " +
                    (end == i + 1
                         ? "frame #" + std::to_string(frame.number)
                         : "frames #" + std::to_string(frame.number) + " to #" + std::to_string(last)) +
                    ": " + text);
    expected = last + 1;
    i = end;
  }
  if (stack.is_cut)
    lines.push_back("  more calls follow, which were not read: the stack is more than " +
                    std::to_string(stack.depth) + " calls deep");
  if (!names.problem.empty()) lines.push_back("  names are missing: " + names.problem);
  return lines;
}

}  // namespace hookline
