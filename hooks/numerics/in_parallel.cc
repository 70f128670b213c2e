#include "hooks/numerics/in_parallel.h"

#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/ops/empty.h>

#include <algorithm>

namespace hookline {

void in_parallel(std::int64_t count, std::int64_t grain,
                 c10::function_ref<void(std::int64_t begin, std::int64_t end)> run) {
  const std::int64_t ranges = std::min<std::int64_t>(at::get_num_threads(), count / grain);
  if (ranges < 2 || at::in_parallel_region()) return run(0, count);
  // at::parallel_for runs on one thread in a program that is compiled without OpenMP. A tensor iterator over
  // one element per range runs its loop inside libtorch instead.
  at::Tensor elements = at::empty({ranges}, at::kByte);
  const auto* first = static_cast<const char*>(elements.const_data_ptr());
  at::TensorIterator::nullary_op(elements).for_each(
      [&](char** data, const std::int64_t* strides, std::int64_t columns, std::int64_t rows) {
        for (std::int64_t row = 0; row < rows; ++row) {
          for (std::int64_t column = 0; column < columns; ++column) {
            const std::int64_t range = data[0] + column * strides[0] + row * strides[1] - first;
            run(count * range / ranges, count * (range + 1) / ranges);
          }
        }
      },
      /*grain_size=*/1);
}

}  // namespace hookline
