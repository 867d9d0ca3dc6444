#pragma once
// Loops over rows on LibTorch's threads.
#include <ATen/Parallel.h>

#include "kernels/common/typed.h"

namespace forge {

// Calls visit(row) for every row. A thread takes `grain` of them or more.
template <class Visit>
void each_row(int64_t rows, int64_t grain, Visit visit) {
  at::parallel_for(0, rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) visit(row);
  });
}
// Calls visit(T{}, row), where T is the type of elements.
template <class Visit>
void each_row_of(Element type, int64_t rows, int64_t grain, Visit visit) {
  of_type(type, [&](auto zero) { each_row(rows, grain, [&](int64_t row) { visit(zero, row); }); });
}

}  // namespace forge
