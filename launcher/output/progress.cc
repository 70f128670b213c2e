#include "launcher/output/progress.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "base/text/bytes_text.h"
#include "base/text/count_text.h"
#include "base/text/list_text.h"
#include "base/text/number_text.h"

namespace hookline {
namespace {

constexpr std::chrono::seconds kRateOver{10};
constexpr std::chrono::milliseconds kSampleEvery{100};
constexpr std::chrono::seconds kSilence{2};  // without a report; then rates run up to now

template <class Number>
bool read_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

double seconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

/// Not duration_text(): this clock ticks in place, so each second must show, even after hours.
std::string clock_text(std::chrono::steady_clock::duration time) {
  const auto total = std::chrono::duration_cast<std::chrono::seconds>(time).count();
  char text[64];
  if (total >= 3600) {
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", static_cast<long long>(total / 3600),
                  static_cast<long long>(total / 60 % 60), static_cast<long long>(total % 60));
  } else {
    std::snprintf(text, sizeof text, "%lld:%02lld", static_cast<long long>(total / 60),
                  static_cast<long long>(total % 60));
  }
  return text;
}

}  // namespace

std::optional<RankReport> parse_report(std::string_view message) {
  RankReport report;
  bool has_rank = false, has_step = false;
  while (!message.empty()) {
    const std::string_view word = message.substr(0, message.find_first_of(" \n"));
    message.remove_prefix(std::min(message.size(), word.size() + 1));
    const std::size_t equals = word.find('=');
    if (equals == word.npos) continue;
    const std::string_view name = word.substr(0, equals), value = word.substr(equals + 1);
    double loss = 0;
    if (name == "rank") {
      if (!(has_rank = read_number(value, report.rank))) return std::nullopt;
    } else if (name == "step") {
      if (!(has_step = read_number(value, report.step) && report.step >= 0)) return std::nullopt;
    } else if (name == "loss") {
      if (!read_number(value, loss)) return std::nullopt;
      report.loss = loss;
    } else if (name == "sent") {
      std::int64_t bytes = 0;
      if (!read_number(value, bytes)) return std::nullopt;
      report.sent_bytes = bytes;
    } else if (name == "timed" || name == "waited") {
      double seconds = 0;
      if (!read_number(value, seconds) || !(seconds >= 0)) return std::nullopt;
      (name == "timed" ? report.timed_seconds : report.waited_seconds) = seconds;
    } else if (name == "waiting") {
      report.is_waiting = value == "1";
    }
  }
  return has_rank && has_step ? std::optional(report) : std::nullopt;
}

bool Progress::take(const RankReport& report, Time now) {
  const int here = report.rank - first_rank_;
  if (here < 0 || static_cast<std::size_t>(here) >= ranks_.size()) return false;
  Rank& rank = ranks_[static_cast<std::size_t>(here)];
  const bool is_first = !rank.step;
  if (rank.step != report.step) {
    rank.step = report.step;
    rank.since = now;
  }
  rank.is_waiting = report.is_waiting;
  if (report.timed_seconds && report.waited_seconds)
    rank.times = {*report.timed_seconds, *report.waited_seconds};
  if (teller_ < 0 || here < teller_) {
    teller_ = here;
    samples_.clear();
  }
  if (here != teller_) return is_first;
  if (report.loss) loss_ = report.loss;
  Sample sample{now, report.step, samples_.empty() ? 0 : samples_.back().sent_bytes};
  if (report.sent_bytes) sample.sent_bytes = *report.sent_bytes;
  // Ranks report every step, and a few samples a second are enough.
  if (samples_.size() > 1 && now - samples_[samples_.size() - 2].when < kSampleEvery) samples_.pop_back();
  samples_.push_back(sample);
  // Keep one sample from before the time that rates are measured over.
  while (samples_.size() > 2 && now - samples_[1].when >= kRateOver) samples_.erase(samples_.begin());
  return is_first;
}

std::optional<Progress::Busiest> Progress::take_busiest() {
  std::optional<Busiest> busiest;
  bool knows_all = true;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    const Times before = std::exchange(rank.seen, rank.times);
    if (!rank.alive) continue;
    const double timed = rank.times.timed - before.timed, waited = rank.times.waited - before.waited;
    knows_all = knows_all && timed > 0 && waited >= 0;  // times begin at 0 again with another Accelerator
    const double share = std::clamp(1 - waited / timed, 0.0, 1.0);
    if (timed > 0 && (!busiest || share > busiest->share)) busiest = Busiest{static_cast<int>(i), share};
  }
  return knows_all ? busiest : std::nullopt;
}

std::optional<std::int64_t> Progress::furthest() const {
  std::optional<std::int64_t> furthest;
  for (const Rank& rank : ranks_) furthest = std::max(furthest, rank.step);
  return furthest;
}

std::optional<Progress::Time> Progress::last_step() const {
  std::optional<Time> last;
  for (const Rank& rank : ranks_)
    if (rank.alive && rank.step && (!last || rank.since > *last)) last = rank.since;
  return last;
}

std::optional<int> Progress::behind() const {
  const bool anybody_waits = !waiting().empty();
  const Rank* behind = nullptr;
  for (const Rank& rank : ranks_) {
    if (!rank.alive || (!rank.step && !anybody_waits)) continue;
    const auto place = [](const Rank& each) {
      return std::tuple(each.is_waiting, each.step.value_or(-1), each.since);
    };
    if (!behind || place(rank) < place(*behind)) behind = &rank;
  }
  return behind ? std::optional(static_cast<int>(behind - ranks_.data())) : std::nullopt;
}

std::vector<int> Progress::beside(int rank) const {
  const Rank& named = ranks_.at(static_cast<std::size_t>(rank));
  std::vector<int> others;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const Rank& other = ranks_[i];
    const bool is_like_it = other.step == named.step && other.is_waiting == named.is_waiting;
    if (other.alive && is_like_it && static_cast<int>(i) != rank) others.push_back(static_cast<int>(i));
  }
  return others;
}

std::vector<int> Progress::waiting() const {
  std::vector<int> waiting;
  for (std::size_t i = 0; i < ranks_.size(); ++i)
    if (ranks_[i].alive && ranks_[i].is_waiting) waiting.push_back(static_cast<int>(i));
  return waiting;
}

std::string Progress::places() const {
  std::map<std::pair<std::int64_t, bool>, std::vector<int>, std::greater<>> at;
  std::vector<int> silent;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (!ranks_[i].alive) continue;
    (ranks_[i].step ? at[{*ranks_[i].step, ranks_[i].is_waiting}] : silent)
        .push_back(first_rank_ + static_cast<int>(i));
  }
  std::string text;
  const auto add = [&](const std::vector<int>& ranks, const std::string& place) {
    text += (text.empty() ? "" : ", ") + rank_names(ranks) + " " + place;
  };
  for (const auto& [place, ranks] : at)
    add(ranks,
        (place.second ? "waiting in a collective at step " : "at step ") + std::to_string(place.first));
  if (!silent.empty()) add(silent, "not heard from");
  return text;
}

std::string Progress::line(Time started, Time now) const {
  const auto alive = std::count_if(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.alive; });
  std::string text =
      clock_text(now - started) + " · " + std::to_string(alive) + " of " + count_text(ranks_.size(), "rank");
  if (samples_.empty()) return text;
  const Sample& last = samples_.back();
  text += " · step " + std::to_string(last.step);
  const Time end = now - last.when > kSilence ? now : last.when;
  const Sample* first = &samples_.front();
  while (first != &last && end - (first + 1)->when >= kRateOver) ++first;
  const double time = seconds(end - first->when);
  if (time > 0 && last.step > first->step)
    text += " · " + rounded(static_cast<double>(last.step - first->step) / time, 3) + " steps/s";
  if (loss_) text += " · loss " + rounded(*loss_, 4);
  if (time > 0 && last.sent_bytes > first->sent_bytes)
    text += " · " + rate_text(static_cast<double>(last.sent_bytes - first->sent_bytes) / time);
  return text;
}

}  // namespace hookline
