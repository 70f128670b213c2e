// What a model has sent, for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/model/engine.h"

namespace hookline {

/// "25.2 MB", "8.5 kB" or "512 B" (10⁶, 10³ and single bytes).
std::string bytes_text(std::int64_t bytes);

/// "power_sgd(rank=2, start=10) in fp16 · 6.3 M gradients · 25.2 MB -> 0.05 MB a step after step 10"
std::string pipeline_line(const WireReport& report);

/// A row a model: steps, bytes that plain gradients would have taken, bytes sent, ratio.
std::string wire_table(const std::vector<WireReport>& reports);

}  // namespace hookline
