#include "libexec/self_test/check_limits.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/text/bytes_text.h"
#include "base/text/count_text.h"

namespace hookline {
namespace {

constexpr const char* kMoreFiles =
    "raise the limit where ranks are started: ulimit -n 65536, LimitNOFILE= of a systemd unit, "
    "or /etc/security/limits.conf";

double median_rate(std::vector<Link> links) {
  const auto middle = links.begin() + static_cast<std::ptrdiff_t>(links.size() / 2);
  std::nth_element(links.begin(), middle, links.end(),
                   [](const Link& a, const Link& b) { return a.bytes_per_second < b.bytes_per_second; });
  return middle->bytes_per_second;
}

std::vector<Link> of_kind(const std::vector<Link>& links, bool same_node) {
  std::vector<Link> kind;
  std::copy_if(links.begin(), links.end(), std::back_inserter(kind),
               [&](const Link& link) { return link.same_node == same_node; });
  return kind;
}

}  // namespace

void expect_enough_files(std::int64_t open, std::int64_t limit, int ranks) {
  // With two ranks, each opens 31 files besides those already open. Each further rank adds a socket in each
  // of a hook's groups, of which there are at most three.
  const std::int64_t needed = open + 25 + 3 * static_cast<std::int64_t>(ranks);
  if (limit < needed)
    throw TooFewFiles("too many open files would be needed: a rank may have " + std::to_string(limit) +
                      ", and " + count_text(ranks, "rank") + (ranks == 1 ? " takes about " : " take about ") +
                      std::to_string(needed) + (ranks == 1 ? "" : " each"));
}

Check judge_open_files(std::int64_t used, std::int64_t limit, int ranks) {
  Check check{
      "open files", Verdict::ok,
      std::to_string(used) + " of " + std::to_string(limit) + " at most, with " + count_text(ranks, "rank"),
      ""};
  // The program opens files, too: for the workers of its data loader and for datasets.
  if (used > limit / 2) {
    check.verdict = Verdict::warning;
    check.advice = kMoreFiles;
  }
  return check;
}

Check judge_shared_memory(std::int64_t available, bool nccl, int ranks) {
  Check check{"shared memory", Verdict::ok, bytes_text(available) + " free in /dev/shm", ""};
  if (!nccl || ranks < 2) {
    check.found += ", which these ranks do not use";
    return check;
  }
  // NCCL's buffers between two GPUs take up to some 10 MB a channel.
  constexpr std::int64_t kNeededByARank = 64'000'000;
  if (available < kNeededByARank * ranks) {
    check.verdict = Verdict::warning;
    check.found += ", and NCCL may want " + bytes_text(kNeededByARank * ranks);
    check.advice =
        "give a container more (docker run --shm-size=1g, an emptyDir with medium: Memory at /dev/shm), "
        "or set NCCL_SHM_DISABLE=1";
  }
  return check;
}

Check judge_builds(const std::vector<std::string>& builds) {
  for (std::size_t rank = 1; rank < builds.size(); ++rank) {
    if (builds[rank] != builds[0]) {
      return {"versions", Verdict::failed,
              "rank 0 has " + builds[0] + ", and rank " + std::to_string(rank) + " has " + builds[rank],
              "install the same hookline and libtorch on every host"};
    }
  }
  return {"versions", Verdict::ok, builds.empty() ? "" : builds[0] + (builds.size() > 1 ? " everywhere" : ""),
          ""};
}

std::vector<std::pair<int, int>> pairs_to_measure(int ranks) {
  constexpr int kFew = 8, kMostPairs = 64;
  std::vector<std::pair<int, int>> pairs;
  if (ranks <= kFew) {
    for (int from = 0; from < ranks; ++from)
      for (int to = from + 1; to < ranks; ++to) pairs.emplace_back(from, to);
    return pairs;
  }
  const int count = std::min(ranks, kMostPairs);
  for (int i = 0; i < count; ++i) {
    const auto from = static_cast<int>(static_cast<std::int64_t>(i) * ranks / count);
    const int to = (from + 1) % ranks;
    pairs.emplace_back(std::min(from, to), std::max(from, to));
  }
  return pairs;
}

std::vector<std::size_t> far_below(const std::vector<Link>& links) {
  constexpr double kFarBelow = 0.4;  // of the median; smaller differences occur by chance
  std::vector<std::size_t> slow;
  for (std::size_t i = 0; i < links.size(); ++i)
    if (links[i].bytes_per_second < kFarBelow * median_rate(of_kind(links, links[i].same_node)))
      slow.push_back(i);
  return slow;
}

Check judge_links(const std::vector<Link>& links) {
  Check check{"links", Verdict::ok, "", ""};
  const std::vector<std::size_t> slow = far_below(links);
  for (const bool same_node : {true, false}) {
    const std::vector<Link> kind = of_kind(links, same_node);
    if (kind.empty()) continue;
    check.found += std::string(check.found.empty() ? "median " : ", ") + rate_text(median_rate(kind)) +
                   (same_node ? " on one host" : " between hosts");
    const Link* worst = nullptr;
    for (const std::size_t i : slow)
      if (links[i].same_node == same_node && (!worst || links[i].bytes_per_second < worst->bytes_per_second))
        worst = &links[i];
    if (!worst) continue;
    check.verdict = Verdict::warning;
    check.advice +=
        (check.advice.empty() ? "" : "\n") + std::string("the link between ranks ") +
        std::to_string(worst->from) + " and " + std::to_string(worst->to) + " reaches " +
        rate_text(worst->bytes_per_second) + ", and the others wait for it at every step: " +
        (same_node ? "look for another process on the cores of these ranks"
                   : "look at its cable, its switch port and its link speed (ethtool), or for other traffic");
  }
  return check;
}

std::string advice_for(const std::string& error) {
  static constexpr std::pair<std::string_view, const char*> kKnown[] = {
      {"Too many open files", kMoreFiles},
      {"No space left on device", "make room on the disk or in /dev/shm, whichever the message names"},
      {"out of memory", "free memory on that host or GPU, or start fewer ranks on it"},
      {"Cannot allocate memory", "free memory on that host, or start fewer ranks on it"},
  };
  for (const auto& [part, advice] : kKnown) {
    if (error.find(part) != error.npos) return advice;
  }
  return "";
}

std::string advice_for(const std::exception& failure, const std::string& what) {
  if (dynamic_cast<const TooFewFiles*>(&failure)) return kMoreFiles;
  const auto* const of_run = dynamic_cast<const RunFailed*>(&failure);
  switch (of_run ? of_run->cause() : RunFailed::Cause::error) {
    case RunFailed::Cause::rank_left:
      return "see that rank's logs: it ended first";
    case RunFailed::Cause::rank_silent:
      return "see whether that host is up, and whether the others can still reach it (ping)";
    case RunFailed::Cause::error:
      break;
  }
  return advice_for(what);
}

}  // namespace hookline
