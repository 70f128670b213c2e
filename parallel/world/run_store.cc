#include "parallel/world/run_store.h"

#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "base/error.h"
#include "base/text/address_text.h"
#include "base/text/duration_text.h"
#include "base/text/list_text.h"
#include "parallel/rank/environment.h"
#include "parallel/world/launcher_store.h"

namespace hookline {
namespace {

constexpr std::chrono::minutes kStoreTimeout{5};  // of one call

/// The name of the launcher's socket for the store, from HOOKLINE_STORE,
/// "PORT:NAME". Nothing if MASTER_PORT is another: then somebody started these ranks as a run of their own.
std::optional<std::string> launcher_store_name() {
  const std::string text = environment_text("HOOKLINE_STORE").value_or("");
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos || text.substr(0, colon) != environment_text("MASTER_PORT"))
    return std::nullopt;
  return text.substr(colon + 1);
}

c10::intrusive_ptr<c10d::Store> open_store(int rank, int size, std::chrono::milliseconds join_timeout) {
  const std::string host = environment_text("MASTER_ADDR").value_or("127.0.0.1");
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(required_environment_number("MASTER_PORT", 1, 65535));
  options.isServer = rank == 0 && !environment_text("TORCHELASTIC_USE_AGENT_STORE").has_value();
  options.numWorkers = static_cast<std::size_t>(size);
  options.timeout = join_timeout;  // for the store to appear
  options.waitWorkers = false;     // wait_until_all_joined does, and knows who is missing
  if (options.isServer && environment_text("HOOKLINE_STORE_FD"))
    options.masterListenFd = required_environment_number("HOOKLINE_STORE_FD", 0, 1 << 20);
  const auto name = launcher_store_name();
  try {
    if (name) return c10::make_intrusive<LauncherStore>(*name, kStoreTimeout);
    auto store = c10::make_intrusive<c10d::TCPStore>(host, options);
    store->setTimeout(kStoreTimeout);
    return store;
  } catch (const std::exception& error) {
    const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
    throw Error("rank " + std::to_string(rank) + " can't reach the store" +
                (name ? "" : " at " + host_and_port(host, options.port)) + ": " +
                (of_torch ? of_torch->what_without_backtrace() : error.what()));
  }
}

}  // namespace

std::string store_holder() { return launcher_store_name() ? "the launcher" : "rank 0"; }

int required_environment_number(const char* name, int least, int most) {
  if (!environment_text(name)) {
    throw Error(
        std::string(name) + " is not set, though " + (environment_text("RANK") ? "RANK" : "WORLD_SIZE") +
        " is: start the program with 'hookline launch', or with neither RANK nor WORLD_SIZE to run it as "
        "one rank");
  }
  return environment_number(name, least, most, least);
}

c10::intrusive_ptr<c10d::Store> open_part_of_store(int rank, int size,
                                                   std::chrono::milliseconds join_timeout) {
  static std::mutex mutex;
  static c10::intrusive_ptr<c10d::Store> store;
  static std::string opened_for;
  static int parts = 0;
  const std::lock_guard lock(mutex);
  const std::string wanted =
      environment_text("MASTER_ADDR").value_or("") + ":" + environment_text("MASTER_PORT").value_or("") +
      ", " + launcher_store_name().value_or("") + ", " + std::to_string(rank) + " of " + std::to_string(size);
  if (!store || opened_for != wanted) {
    store = open_store(rank, size, join_timeout);
    opened_for = wanted;
    parts = 0;
  }
  return c10::make_intrusive<c10d::PrefixStore>("hookline-" + std::to_string(parts++), store);
}

void meet_at(c10d::Store& store, const std::string& key, int size, std::chrono::milliseconds timeout) {
  const std::string all = "all_" + key;
  if (store.add(key, 1) == size) store.set(all, std::vector<std::uint8_t>{1});
  store.wait({all}, timeout);
}

void wait_until_all_joined(c10d::Store& store, int rank, int size, std::chrono::milliseconds timeout) {
  const auto key = [](int of) { return "joined/" + std::to_string(of); };
  const auto start = std::chrono::steady_clock::now();
  std::vector<int> missing;
  try {
    store.set(key(rank), std::vector<std::uint8_t>{1});
    try {
      return meet_at(store, "joined", size, timeout);
    } catch (const std::exception&) {
      // Time is up, or the store is gone. In that case, the next call fails as well.
    }
    for (int other = 0; other < size; ++other)
      if (!store.check({key(other)})) missing.push_back(other);
  } catch (const std::exception& error) {
    const std::string why = error.what();
    throw Error(store_holder() + ", which holds the store, is gone before all ranks have joined; rank " +
                std::to_string(rank) + " waited for it (" + why.substr(0, why.find('\n')) + ")");
  }
  if (missing.empty()) return;
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
  const bool is_one = missing.size() == 1;
  throw Error(rank_names(missing) + " did not join the run in the " + seconds_text(waited) + " that rank " +
              std::to_string(rank) + " waited for " + (is_one ? "it" : "them") + ": see whether " +
              (is_one ? "it failed, or takes" : "they failed, or take") +
              " long to get to Accelerator::from_env (then set [launch] join_timeout_seconds)");
}

}  // namespace hookline
