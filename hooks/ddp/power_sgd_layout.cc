#include "hooks/ddp/power_sgd_layout.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace hookline {
namespace {

void add_matrix(PowerSgdLayout& layout, std::int64_t offset, std::int64_t n, std::int64_t m,
                std::int64_t rank) {
  layout.matrices.push_back({offset, n, m, rank, layout.p_numel, layout.q_numel});
  layout.p_numel += n * rank;
  layout.q_numel += m * rank;
}

struct Gradient {
  std::int64_t offset, n, m;
};

}  // namespace

Factors PowerSgdLayout::p_factors() const {
  Factors factors;
  for (const CompressedMatrix& c : matrices) factors.push_back({c.p_offset, c.rank, c.n});
  return factors;
}

Factors PowerSgdLayout::q_factors() const {
  Factors factors;
  for (const CompressedMatrix& c : matrices) factors.push_back({c.q_offset, c.rank, c.m});
  return factors;
}

PowerSgdLayout per_gradient_layout(const BucketShapes& shapes, const PowerSgdOptions& options) {
  PowerSgdLayout layout;
  std::vector<std::vector<Gradient>> by_shape;
  std::vector<std::pair<std::int64_t, std::int64_t>> plain;  // offset, numel
  for (const auto& shape : shapes) {
    const std::int64_t count = numel(shape);
    const Gradient gradient{layout.numel, shape.empty() ? 1 : shape[0],
                            shape.empty() || shape[0] == 0 ? count : count / shape[0]};
    layout.numel += count;
    const std::int64_t rank = std::min({gradient.n, gradient.m, options.matrix_approximation_rank});
    const auto sent = static_cast<double>((gradient.n + gradient.m) * rank);
    if (shape.size() < 2 || sent * options.min_compression_rate >= static_cast<double>(count)) {
      plain.emplace_back(gradient.offset, count);
      continue;
    }
    const auto same_shape = std::find_if(by_shape.begin(), by_shape.end(), [&](const auto& group) {
      return group[0].n == gradient.n && group[0].m == gradient.m;
    });
    if (same_shape == by_shape.end()) {
      by_shape.push_back({gradient});
    } else {
      same_shape->push_back(gradient);
    }
  }
  layout.padded_numel = layout.numel;

  for (const auto& group : by_shape) {
    const auto first = static_cast<std::int64_t>(layout.matrices.size());
    for (const Gradient& g : group) {
      if (!options.batch_tensors_with_same_shape) {
        layout.draws.push_back({static_cast<std::int64_t>(layout.matrices.size()), 1});
      }
      add_matrix(layout, g.offset, g.n, g.m, std::min({g.n, g.m, options.matrix_approximation_rank}));
    }
    if (options.batch_tensors_with_same_shape) {
      layout.draws.push_back({first, static_cast<std::int64_t>(group.size())});
    }
  }
  for (const auto& [offset, count] : plain) {
    layout.plain.push_back({offset, count, layout.p_numel});
    layout.p_numel += count;
  }
  return layout;
}

PowerSgdLayout whole_bucket_layout(const BucketShapes& shapes, const PowerSgdOptions& options) {
  PowerSgdLayout layout;
  for (const auto& shape : shapes) layout.numel += numel(shape);
  auto side = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(layout.numel))));
  layout.padded_numel = side * side;
  add_matrix(layout, 0, side, side, std::min(side, options.matrix_approximation_rank));
  layout.draws.push_back({0, 1});
  return layout;
}

}  // namespace hookline
