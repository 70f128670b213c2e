#include "parallel/groups/host_layout.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <sstream>

namespace hookline {
namespace {

/// The same text in processes that can share memory; empty if that is unknown.
std::string identity_of_host() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat network {};
  if (boot.empty() || ::stat("/proc/self/ns/net", &network) != 0) return "";
  return boot + "," + std::to_string(network.st_ino) + "," + std::to_string(::geteuid());
}

std::string key_of(int rank) { return "host_of_rank/" + std::to_string(rank); }

std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

bool has_fewer(const std::vector<int>& a, const std::vector<int>& b) { return a.size() < b.size(); }

}  // namespace

int HostLayout::fewest_ranks() const {
  return static_cast<int>(std::min_element(hosts.begin(), hosts.end(), has_fewer)->size());
}

int HostLayout::most_ranks() const {
  return static_cast<int>(std::max_element(hosts.begin(), hosts.end(), has_fewer)->size());
}

HostLayout find_hosts(c10d::Store& store, int rank, int size, bool may_share, const std::string& label,
                      std::chrono::milliseconds timeout) {
  // Rank 0 reads the entries of all ranks and writes one summary, so that the others need not read them all.
  const std::string all = "host_of_each_rank";
  const std::string identity = identity_of_host();
  std::string own = may_share ? "+" : "-";
  own += identity.empty() ? "rank" + std::to_string(rank) : identity + "," + label;
  store.set(key_of(rank), std::vector<std::uint8_t>{own.begin(), own.end()});
  if (rank == 0) {
    std::vector<std::string> keys, known;
    for (int each = 0; each < size; ++each) keys.push_back(key_of(each));
    store.wait(keys, timeout);
    std::string numbers;
    bool all_may_share = true;
    for (const std::string& key : keys) {
      const std::string text = text_of(store.get(key));
      all_may_share = all_may_share && text.starts_with('+');
      const std::string host = text.substr(1);
      const auto found = std::find(known.begin(), known.end(), host);
      numbers += std::to_string(found - known.begin()) + " ";
      if (found == known.end()) known.push_back(host);
    }
    const std::string table = (all_may_share ? "1 " : "0 ") + numbers;
    store.set(all, std::vector<std::uint8_t>{table.begin(), table.end()});
  }
  store.wait({all}, timeout);
  std::istringstream numbers(text_of(store.get(all)));
  // Rank 0's process may hold the store, and may exit because of what it read. So it waits until the others
  // have read it, too.
  const std::string read = "hosts_are_read";
  if (store.add(read + "_by", 1) == size) store.set(read, std::vector<std::uint8_t>{1});
  if (rank == 0) store.wait({read}, timeout);
  HostLayout layout;
  numbers >> layout.all_may_share;
  for (int each = 0; each < size; ++each) {
    std::size_t host = 0;
    numbers >> host;
    if (host >= layout.hosts.size()) layout.hosts.emplace_back();
    if (each == rank) {
      layout.own = host;
      layout.local_rank = static_cast<int>(layout.hosts[host].size());
    }
    layout.hosts[host].push_back(each);
  }
  return layout;
}

}  // namespace hookline
