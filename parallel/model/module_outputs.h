// Finding the tensors in what a forward call returns.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace hookline {

/// Calls `visit(at::Tensor&)` for each tensor in what a module's forward returns; here, for `output` itself.
/// For a struct of your own, define
///
///     template <class Visit>
///     void visit_tensors(MyOutput& output, Visit&& visit) { visit(output.logits); visit(output.hidden); }
///
/// beside it, in its namespace; it is found by argument-dependent lookup. A sharded model needs it, and DDP
/// with find_unused_parameters or static_graph.
template <class Visit>
void visit_tensors(at::Tensor& output, Visit&& visit) {
  visit(output);
}
/// Visits the tensors in each element, in order.
template <class T, class Visit>
void visit_tensors(std::vector<T>& output, Visit&& visit);
/// Visits the tensors in the value, if there is one.
template <class T, class Visit>
void visit_tensors(std::optional<T>& output, Visit&& visit);
/// Visits the tensors in each value, in the order of keys.
template <class Key, class T, class Visit>
void visit_tensors(std::map<Key, T>& output, Visit&& visit);
/// Visits the tensors in both elements, the first one's first.
template <class A, class B, class Visit>
void visit_tensors(std::pair<A, B>& output, Visit&& visit);
/// Visits the tensors in each element, in order.
template <class... T, class Visit>
void visit_tensors(std::tuple<T...>& output, Visit&& visit);

/// True where visit_tensors knows the type.
template <class T>
concept VisitableOutput = requires(T& output) {
  visit_tensors(output, [](at::Tensor&) {});
};

namespace detail {
template <class T>
struct IsKnown : std::bool_constant<VisitableOutput<T> || std::is_arithmetic_v<T> || std::is_enum_v<T> ||
                                    std::is_same_v<T, std::string>> {};
template <class T>
struct IsKnown<std::vector<T>> : IsKnown<T> {};
template <class T>
struct IsKnown<std::optional<T>> : IsKnown<T> {};
template <class Key, class T>
struct IsKnown<std::map<Key, T>> : IsKnown<T> {};
template <class A, class B>
struct IsKnown<std::pair<A, B>> : std::conjunction<IsKnown<A>, IsKnown<B>> {};
template <class... T>
struct IsKnown<std::tuple<T...>> : std::conjunction<IsKnown<T>...> {};

/// Parts that hold no tensor (an int in a tuple) are passed over.
template <class T, class Visit>
void visit_part(T& part, Visit&& visit) {
  if constexpr (VisitableOutput<T>) visit_tensors(part, visit);
}
}  // namespace detail

/// True where every tensor in a T is found: nowhere in it is a struct without visit_tensors.
template <class T>
concept KnownOutput = detail::IsKnown<T>::value;

template <class T, class Visit>
void visit_tensors(std::vector<T>& output, Visit&& visit) {
  for (T& part : output) detail::visit_part(part, visit);
}
template <class T, class Visit>
void visit_tensors(std::optional<T>& output, Visit&& visit) {
  if (output) detail::visit_part(*output, visit);
}
template <class Key, class T, class Visit>
void visit_tensors(std::map<Key, T>& output, Visit&& visit) {
  for (auto& [key, part] : output) detail::visit_part(part, visit);
}
template <class A, class B, class Visit>
void visit_tensors(std::pair<A, B>& output, Visit&& visit) {
  detail::visit_part(output.first, visit);
  detail::visit_part(output.second, visit);
}
template <class... T, class Visit>
void visit_tensors(std::tuple<T...>& output, Visit&& visit) {
  std::apply([&](T&... part) { (detail::visit_part(part, visit), ...); }, output);
}

}  // namespace hookline
