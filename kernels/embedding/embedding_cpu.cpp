#ifdef FORGE_ISA

namespace forge::FORGE_ISA {

// to += row, one row. The inner loop of the gradient.
template <class T>
void add_row(const T* row, float* to, int64_t width) {
  for_lanes(width, [&](int64_t i, int n)
                       FORGE_LAMBDA { store_n(to + i, load_n(to + i, n) + load_n(row + i, n), n); });
}

template <class T>
void add_rows(const EmbeddingBackward& a, int64_t part, int64_t parts) {
  for (int64_t t = 0; t < a.tokens; ++t)
    if (a.ids[t] >= 0 && a.ids[t] % parts == part)
      add_row(static_cast<const T*>(a.d_y) + t * a.d_y_stride, a.d_table + a.ids[t] * a.width, a.width);
}

void embedding_gradient(const EmbeddingBackward& a, int64_t part, int64_t parts) {
  if (a.type == Element::f32)
    add_rows<float>(a, part, parts);
  else if (a.type == Element::bf16)
    add_rows<Bf16>(a, part, parts);
  else
    add_rows<F16>(a, part, parts);
}

}  // namespace forge::FORGE_ISA

#else

#include "kernels/cpu/parallel.h"
#include "kernels/embedding/embedding_args.h"
#define FORGE_KERNEL_FILE "kernels/embedding/embedding_cpu.cpp"
#include "kernels/cpu/each_isa.h"

namespace forge {

// A copy of bytes: the level changes nothing.
void embedding_forward_cpu(const EmbeddingForward& args, CpuLevel) {
  int64_t row = args.width * bytes_of(args.type), stride = args.y_stride * bytes_of(args.type);
  parallel_ranges(args.tokens, 16, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      char* y = static_cast<char*>(args.y) + t * stride;
      if (args.ids[t] < 0)
        std::memset(y, 0, static_cast<size_t>(row));
      else
        std::memcpy(y, static_cast<const char*>(args.table) + args.ids[t] * row, static_cast<size_t>(row));
    }
  });
}

void embedding_backward_cpu(const EmbeddingBackward& args, CpuLevel level) {
  auto add = FORGE_PICK(level, embedding_gradient);
  int64_t parts = task_threads();
  parallel_tasks(parts, [&](int64_t part, int64_t) { add(args, part, parts); });
}

}  // namespace forge

#endif
