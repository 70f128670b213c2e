#include "parallel/uncaught.h"

#include <cxxabi.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <typeinfo>

#include "base/error.h"
#include "base/log.h"
#include "config/resolve.h"
#include "parallel/rank/rank_status.h"
#include "parallel/watch/failure_watch.h"
#include "tracking/trackers.h"

namespace hookline {
namespace {

std::terminate_handler before = nullptr;

[[noreturn]] void end(const char* message, int code) {
  Trackers::end_all(RunEnd::failed);  // after handle() has let the other ranks read a failure
  log::error(message);
  std::fflush(nullptr);
  std::_Exit(code);
}

std::string type_name(const std::exception& error) {
  int failure = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(typeid(error).name(), nullptr, nullptr, &failure), std::free);
  return name ? name.get() : typeid(error).name();
}

[[noreturn]] void handle() {
  try {
    if (const auto error = std::current_exception()) std::rethrow_exception(error);
  } catch (const std::exception& error) {
    write_error_file(error.what(), type_name(error));
    FailureWatch::let_others_hear();
    const bool bad_input = dynamic_cast<const ConfigError*>(&error) || dynamic_cast<const HookError*>(&error);
    if (bad_input || dynamic_cast<const Error*>(&error)) end(error.what(), bad_input ? 2 : 1);
  } catch (...) {
    write_error_file("an exception that is not a std::exception", "");
  }
  Trackers::end_all(RunEnd::failed);
  if (before) before();
  std::abort();
}

}  // namespace

void end_uncaught_errors_with_a_message() {
  static const bool installed = [] {
    before = std::set_terminate(handle);
    return true;
  }();
  static_cast<void>(installed);
}

}  // namespace hookline
