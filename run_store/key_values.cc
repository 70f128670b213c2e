#include "run_store/key_values.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace hookline {
namespace {

template <typename Word>
std::string byte_of(Word word) {
  return std::string(1, static_cast<char>(word));
}

}  // namespace

std::vector<KeyValues::Answer> KeyValues::take(Client client, const StoreRequest& request) {
  std::vector<Answer> answers;
  std::string answer;
  switch (request.query) {
    case StoreQuery::validate:
      break;
    case StoreQuery::ping: {
      const auto nonce = static_cast<std::uint32_t>(request.number);
      answer.assign(reinterpret_cast<const char*>(&nonce), sizeof nonce);
      break;
    }
    case StoreQuery::set:
    case StoreQuery::set_many:
      for (std::size_t i = 0; i < request.keys.size(); ++i) set(request.keys[i], request.values[i], answers);
      break;
    case StoreQuery::append:
      values_[request.keys[0]] += request.values[0];
      release(request.keys[0], answers, /*all=*/true);
      break;
    case StoreQuery::compare_set:
      append_text(answer, compare_set(request, answers));
      break;
    case StoreQuery::get:
    case StoreQuery::get_many:
      for (const std::string& key : request.keys) append_text(answer, get(key));
      break;
    case StoreQuery::add: {
      const std::int64_t sum = this->sum(request.keys[0], request.number);
      set(request.keys[0], std::to_string(sum), answers);
      append_number(answer, sum);
      break;
    }
    case StoreQuery::check:
      answer = byte_of(
          std::all_of(request.keys.begin(), request.keys.end(), [&](const auto& key) { return has(key); })
              ? StoreCheck::ready
              : StoreCheck::not_ready);
      break;
    case StoreQuery::wait:
      for (const std::string& key : request.keys)
        if (!has(key)) await(client, key);
      if (!awaited_.contains(client)) answer = byte_of(StoreWait::over);
      break;
    case StoreQuery::barrier: {
      const std::string& key = request.keys[0];
      const std::int64_t here = sum(key, 1);
      values_[key] = std::to_string(here);
      if (here >= request.number) {
        answer = byte_of(StoreWait::over);
        release(key, answers, /*all=*/true);
      } else {
        await(client, key);
      }
      break;
    }
    case StoreQuery::cancel_wait:
      forget(client);
      answer = byte_of(StoreWait::canceled);
      break;
    case StoreQuery::count_keys:
      append_number(answer, static_cast<std::int64_t>(values_.size()));
      break;
    case StoreQuery::delete_key:
      append_number(answer, static_cast<std::int64_t>(values_.erase(request.keys[0])));
      break;
    case StoreQuery::list_keys:
      append_number(answer, static_cast<std::int64_t>(values_.size()));
      for (const auto& [key, value] : values_) append_text(answer, key);
      break;
    case StoreQuery::push:
      queues_[request.keys[0]].push_back(request.values[0]);
      release(request.keys[0], answers, /*all=*/false);
      break;
    case StoreQuery::pop: {
      const auto queue = queues_.find(request.keys[0]);
      append_number(answer, queue == queues_.end() ? 0 : static_cast<std::int64_t>(queue->second.size()));
      if (queue == queues_.end()) break;
      append_text(answer, queue->second.front());
      queue->second.pop_front();
      if (queue->second.empty()) queues_.erase(queue);
      break;
    }
    case StoreQuery::queue_length: {
      const auto queue = queues_.find(request.keys[0]);
      append_number(answer, queue == queues_.end() ? 0 : static_cast<std::int64_t>(queue->second.size()));
      break;
    }
  }
  if (!answer.empty()) answers.push_back({client, std::move(answer)});
  return answers;
}

void KeyValues::await(Client client, const std::string& key) {
  awaited_[client].insert(key);
  waiting_[key].insert(client);
}

void KeyValues::forget(Client client) {
  const auto awaited = awaited_.extract(client);
  if (awaited.empty()) return;
  for (const std::string& key : awaited.mapped()) {
    const auto waiting = waiting_.find(key);
    waiting->second.erase(client);
    if (waiting->second.empty()) waiting_.erase(waiting);
  }
}

bool KeyValues::has(const std::string& key) const { return values_.contains(key) || queues_.contains(key); }

std::string KeyValues::get(const std::string& key) const {
  const auto value = values_.find(key);
  return value == values_.end() ? "" : value->second;
}

void KeyValues::set(const std::string& key, std::string value, std::vector<Answer>& answers) {
  values_[key] = std::move(value);
  release(key, answers, /*all=*/true);
}

void KeyValues::release(const std::string& key, std::vector<Answer>& answers, bool all) {
  const auto waiting = waiting_.find(key);
  if (waiting == waiting_.end()) return;
  std::set<Client>& clients = waiting->second;
  while (!clients.empty()) {
    const Client client = *clients.begin();
    clients.erase(clients.begin());
    const auto awaited = awaited_.find(client);
    awaited->second.erase(key);
    if (!awaited->second.empty()) continue;
    awaited_.erase(awaited);
    answers.push_back({client, byte_of(StoreWait::over)});
    if (!all) break;
  }
  if (clients.empty()) waiting_.erase(waiting);
}

std::string KeyValues::compare_set(const StoreRequest& request, std::vector<Answer>& answers) {
  const std::string& key = request.keys[0];
  const std::string &expected = request.values[0], &wanted = request.values[1];
  const auto value = values_.find(key);
  if (value == values_.end() && !expected.empty()) return expected;  // as c10d does
  if (value != values_.end() && value->second != expected) return value->second;
  set(key, wanted, answers);
  return wanted;
}

std::int64_t KeyValues::sum(const std::string& key, std::int64_t amount) const {
  std::int64_t sum = 0;
  if (const auto value = values_.find(key); value != values_.end()) {
    const std::string& text = value->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), sum);
    if (error != std::errc() || end != text.data() + text.size())
      throw StoreRequestError("an addition to '" + key + "', which holds no whole number");
  }
  if (__builtin_add_overflow(sum, amount, &sum))
    throw StoreRequestError("an addition to '" + key + "' that exceeds 64 bits");
  return sum;
}

}  // namespace hookline
