#include "parallel/fsdp/unit_order.h"

namespace hookline {

void UnitOrder::Sequence::add(std::size_t unit) {
  if (places.size() <= unit) places.resize(unit + 1);
  if (places[unit]) return;
  places[unit] = units.size();
  units.push_back(unit);
}

std::optional<std::size_t> UnitOrder::Sequence::place_of(std::size_t unit) const {
  return unit < places.size() ? places[unit] : std::nullopt;
}

void UnitOrder::begin_forward(std::size_t unit) { begun_.add(unit); }

void UnitOrder::end_forward(std::size_t unit) { ended_.add(unit); }

std::optional<std::size_t> UnitOrder::next_in_forward(std::size_t unit) const {
  const auto place = begun_.place_of(unit);
  if (!place || *place + 1 >= begun_.units.size()) return std::nullopt;
  return begun_.units[*place + 1];
}

bool UnitOrder::is_ahead_in_backward(std::size_t unit) const {
  const auto place = ended_.place_of(unit);
  return place && *place < left_in_backward_;
}

}  // namespace hookline
