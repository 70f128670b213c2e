#include "parallel/world/launcher_store.h"

#include <c10/util/Exception.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/text/duration_text.h"
#include "base/text/list_text.h"
#include "base/unix_socket.h"

namespace hookline {
namespace {

using std::chrono::milliseconds;
using Value = std::vector<std::uint8_t>;

constexpr std::size_t kMostKeysNamed = 3;

std::string string_of(const Value& bytes) { return {bytes.begin(), bytes.end()}; }

[[noreturn]] void fail(const std::string& why) {
  C10_THROW_ERROR(DistNetworkError, "the launcher, by which ranks reach their store, " + why);
}

FileDescriptor connect_to(const std::string& name) {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) fail(std::string("can't be reached: ") + std::strerror(errno));
  if (!connect_to_name(socket.get(), name)) fail(std::string("can't be reached: ") + std::strerror(errno));
  if (!is_of_this_user(socket.get())) fail("is not there: another user has its socket");
  return socket;
}

}  // namespace

LauncherStore::LauncherStore(std::string name, milliseconds timeout)
    : Store(timeout), name_(std::move(name)), socket_(connect_to(name_)) {
  ask({StoreQuery::validate});
}

c10::intrusive_ptr<c10d::Store> LauncherStore::clone() {
  return c10::make_intrusive<LauncherStore>(name_, timeout_);
}

void LauncherStore::ask(const StoreRequest& request) {
  const std::string bytes = to_bytes(request);
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t count = ::send(socket_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("is gone");
    sent += static_cast<std::size_t>(count);
  }
}

bool LauncherStore::is_readable_within(milliseconds timeout) const {
  return readable_by(socket_.get(), std::chrono::steady_clock::now() + timeout);
}

std::string LauncherStore::receive(std::size_t bytes, milliseconds timeout) {
  std::string received(bytes, '\0');
  for (std::size_t have = 0; have < bytes;) {
    if (timeout != kNoTimeout && !is_readable_within(timeout)) {
      socket_.reset();  // an answer that comes later must not pass for that of another request
      C10_THROW_ERROR(
          DistStoreError,
          "the launcher, by which ranks reach their store, has not answered for " + seconds_text(timeout));
    }
    const ssize_t count = ::recv(socket_.get(), received.data() + have, bytes - have, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail("is gone");
    have += static_cast<std::size_t>(count);
  }
  return received;
}

std::int64_t LauncherStore::receive_number() {
  std::int64_t number = 0;
  std::memcpy(&number, receive(sizeof number, timeout_).data(), sizeof number);
  return number;
}

Value LauncherStore::receive_value() {
  const std::string value = receive(static_cast<std::size_t>(receive_number()), timeout_);
  return {value.begin(), value.end()};
}

void LauncherStore::wait_for(const std::vector<std::string>& keys, milliseconds timeout) {
  ask({StoreQuery::wait, keys});
  const auto answer = [this] { return static_cast<StoreWait>(receive(1, kNoTimeout)[0]); };
  if (timeout == kNoTimeout || is_readable_within(timeout)) {
    answer();
    return;
  }
  ask({StoreQuery::cancel_wait});
  // The keys may have come meanwhile: then that answer is read first.
  if (answer() != StoreWait::canceled) answer();
  C10_THROW_ERROR(DistStoreError, "after " + seconds_text(timeout) + " no rank has stored " +
                                      list_text(keys, kMostKeysNamed));
}

void LauncherStore::set(const std::string& key, const Value& value) {
  const std::lock_guard lock(mutex_);
  ask({StoreQuery::set, {key}, {string_of(value)}});
}

Value LauncherStore::compareSet(const std::string& key, const Value& expected, const Value& desired) {
  const std::lock_guard lock(mutex_);
  ask({StoreQuery::compare_set, {key}, {string_of(expected), string_of(desired)}});
  return receive_value();
}

Value LauncherStore::get(const std::string& key) {
  const std::lock_guard lock(mutex_);
  wait_for({key}, timeout_);
  ask({StoreQuery::get, {key}});
  return receive_value();
}

std::int64_t LauncherStore::add(const std::string& key, std::int64_t value) {
  const std::lock_guard lock(mutex_);
  ask({StoreQuery::add, {key}, {}, value});
  return receive_number();
}

bool LauncherStore::deleteKey(const std::string& key) {
  const std::lock_guard lock(mutex_);
  ask({StoreQuery::delete_key, {key}});
  return receive_number() == 1;
}

bool LauncherStore::check(const std::vector<std::string>& keys) {
  const std::lock_guard lock(mutex_);
  ask({StoreQuery::check, keys});
  return static_cast<StoreCheck>(receive(1, timeout_)[0]) == StoreCheck::ready;
}

std::int64_t LauncherStore::getNumKeys() {
  const std::lock_guard lock(mutex_);
  ask({StoreQuery::count_keys});
  return receive_number();
}

void LauncherStore::wait(const std::vector<std::string>& keys) { wait(keys, timeout_); }

void LauncherStore::wait(const std::vector<std::string>& keys, const milliseconds& timeout) {
  const std::lock_guard lock(mutex_);
  wait_for(keys, timeout);
}

void LauncherStore::append(const std::string& key, const Value& value) {
  const std::lock_guard lock(mutex_);
  ask({StoreQuery::append, {key}, {string_of(value)}});
}

std::vector<Value> LauncherStore::multiGet(const std::vector<std::string>& keys) {
  const std::lock_guard lock(mutex_);
  wait_for(keys, timeout_);
  ask({StoreQuery::get_many, keys});
  std::vector<Value> values;
  for (std::size_t i = 0; i < keys.size(); ++i) values.push_back(receive_value());
  return values;
}

void LauncherStore::multiSet(const std::vector<std::string>& keys, const std::vector<Value>& values) {
  TORCH_CHECK(keys.size() == values.size(), "multiSet takes as many values as keys");
  const std::lock_guard lock(mutex_);
  StoreRequest request{StoreQuery::set_many, keys};
  for (const Value& value : values) request.values.push_back(string_of(value));
  ask(request);
}

}  // namespace hookline
