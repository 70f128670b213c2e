// What a model has sent, for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/model/parallel_strategy.h"

namespace hookline {

/// "power_sgd(rank=2, start=10) in fp16 · 6.3 million parameters · 25.2 MB -> 50 kB a step after step 10"
std::string pipeline_line(const CommunicationStats& report);

/// One row per model: steps, bytes that plain gradients would have taken, bytes sent, ratio.
std::string wire_table(const std::vector<CommunicationStats>& reports);

}  // namespace hookline
