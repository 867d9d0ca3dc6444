#ifdef FORGE_ISA

namespace forge::FORGE_ISA {

// y = scale · row.
template <class From, class T>
void scaled_row(const void* row, float scale, void* y, int64_t width) {
  const From* from = static_cast<const From*>(row);
  T* to = static_cast<T*>(y);
  for_lanes(width, [&](int64_t i, int n) FORGE_LAMBDA { store_n(to + i, load_n(from + i, n) * set(scale), n); });
}

template <class From>
void scaled_from(const EmbeddingForward& a, const void* row, void* y) {
  by_element(a.type, [&](auto to) FORGE_LAMBDA { scaled_row<From, decltype(to)>(row, a.scale, y, a.width); });
}

// to += scale · row, one row. The inner loop of the gradient.
template <class T>
void add_row(const T* row, float scale, float* to, int64_t width) {
  for_lanes(width, [&](int64_t i, int n)
                       FORGE_LAMBDA { store_n(to + i, fma(load_n(row + i, n), set(scale), load_n(to + i, n)), n); });
}

template <class T>
void add_rows(const EmbeddingBackward& a, int64_t part, int64_t parts) {
  for (int64_t t = 0; t < a.tokens; ++t)
    if (a.ids[t] >= 0 && a.ids[t] != a.frozen && a.ids[t] % parts == part)
      add_row(static_cast<const T*>(a.d_y) + t * a.d_y_stride, a.scale, a.d_table + a.ids[t] * a.width, a.width);
}

}  // namespace forge::FORGE_ISA

#else

#include "kernels/cpu/parallel.h"
#include "kernels/embedding/embedding_args.h"
#define FORGE_KERNEL_FILE "kernels/embedding/embedding_cpu.cpp"
#include "kernels/cpu/each_isa.h"

namespace forge {

// The lookup is a copy of bytes if there is no scale and the types are equal.
void embedding_forward_cpu(const EmbeddingForward& args, CpuLevel level) {
  const Element from_type = args.table_type.value_or(args.type);
  auto scaled = FORGE_PICK_OF(level, from_type, scaled_from);
  const int64_t row = args.width * bytes_of(args.type), stride = args.y_stride * bytes_of(args.type),
                table_row = args.width * bytes_of(from_type);
  parallel_ranges(args.tokens, 16, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      char* y = static_cast<char*>(args.y) + t * stride;
      const char* from = static_cast<const char*>(args.table) + args.ids[t] * table_row;
      if (args.ids[t] < 0)
        std::memset(y, 0, static_cast<size_t>(row));
      else if (args.scale != 1 || from_type != args.type)
        scaled(args, from, y);
      else
        std::memcpy(y, from, static_cast<size_t>(row));
    }
  });
}

void embedding_backward_cpu(const EmbeddingBackward& args, CpuLevel level) {
  auto add = FORGE_PICK_OF(level, args.type, add_rows);
  int64_t parts = task_threads();
  parallel_tasks(parts, [&](int64_t part, int64_t) { add(args, part, parts); });
}

}  // namespace forge

#endif
