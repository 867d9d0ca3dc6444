#pragma once
// Columns of values for the products that read and write them.
#include "core/base/error.h"
#include "providers/fused/run.h"

namespace forge::fused {

// Some columns of a value.
struct Part {
  void* data = nullptr;
  int64_t stride = 0, width = 0;
};

inline Part whole(const FusedRun& r, ValueId id) { return {r.m.data(id), r.m.stride(id), r.m.width(id)}; }

// Returns the columns that belong to one of the op's modules.
inline Part part(const FusedRun& r, ValueId id, size_t module) {
  int64_t column = 0;
  for (size_t i = 0; i < module; ++i) column += r.use(i).out;
  return {static_cast<char*>(r.m.data(id)) + column * r.bytes(), r.m.stride(id), r.use(module).out};
}

// Returns the mask of a module's adapter, for rows whose keys are `example` and `position` [rows].
inline LoraDropout dropout_of(const FusedRun& r, const FusedModule& m, const int64_t* example, const int32_t* position) {
  return {.probability = m.dropout,
          .seed = r.batch.seed,
          .stream = m.dropout_stream,
          .step = r.batch.step,
          .example = example,
          .position = position};
}

inline void copy(const FusedRun& r, int64_t rows, const Part& from, const Part& to) {
  r.device.run(CopyRows{.element_bytes = r.bytes(),
                        .rows = rows,
                        .width = from.width,
                        .x = from.data,
                        .x_stride = from.stride,
                        .y = to.data,
                        .y_stride = to.stride});
}

// Returns the value that the op's product adds to its result: the op's last input, if it adds one.
inline Part added(const FusedRun& r) { return r.op.attributes.accumulate ? whole(r, r.op.in.back()) : Part{}; }
inline Gemm plus(Gemm product, const Part& h, void* workspace) {
  if (!h.data) return product;
  FORGE_CHECK(!product.add, "a product that adds a stream and a bias");
  product.add = true, product.c = h.data, product.c_stride = h.stride, product.workspace = workspace;
  return product;
}

}  // namespace forge::fused
