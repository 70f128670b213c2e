// Prints shard_indices for sampler_parity.py. Reads one case per line from standard input, "size rank
// world_size shuffle drop_last seed epoch", and prints its indices on one line, separated by spaces.
#include <cstdint>
#include <iostream>

#include "parallel/data/distributed_sampler.h"

int main() {
  std::int64_t size = 0;
  hookline::ShardOptions options;
  while (std::cin >> size >> options.rank >> options.world_size >> options.shuffle >> options.drop_last >>
         options.seed >> options.epoch) {
    const char* separator = "";
    for (const std::int64_t index : hookline::shard_indices(size, options)) {
      std::cout << separator << index;
      separator = " ";
    }
    std::cout << '\n';
  }
  return std::cin.eof() ? 0 : 2;
}
