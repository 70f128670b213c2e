#include "parallel/uncaught.h"

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "config/resolve.h"
#include "hooks/error.h"
#include "hooks/log.h"

namespace hookline {
namespace {

std::terminate_handler before = nullptr;

[[noreturn]] void end(const char* message, int code) {
  log::error(message);
  std::fflush(nullptr);
  std::_Exit(code);
}

[[noreturn]] void handle() {
  try {
    if (const auto error = std::current_exception()) std::rethrow_exception(error);
  } catch (const ConfigError& error) {
    end(error.what(), 2);
  } catch (const HookError& error) {
    end(error.what(), 2);
  } catch (const Error& error) {
    end(error.what(), 1);
  } catch (...) {
  }
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
