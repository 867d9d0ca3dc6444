#include "providers/fused/bind.h"

namespace forge::bind {

Gemm product(const Call& c, int64_t rows, const Part& y, const Part& x, const Weight& weight, bool biased) {
  return {.type = c.type(),
          .m = rows,
          .n = weight.rows,
          .k = x.width,
          .a = {x.data, x.stride},
          .b = {weight.data, weight.stride, /*transposed=*/!weight.across},
          .out_type = c.type(),
          .out = y.data,
          .out_stride = y.stride,
          .add = biased,
          .apart = c.batch.cache != nullptr};
}

Gemm plus(Gemm product, const Part& h, void* workspace) {
  if (!h.data) return product;
  FORGE_CHECK(!product.add, "a product that adds a stream and a bias");
  product.add = true, product.c = h.data, product.c_stride = h.stride, product.workspace = workspace;
  return product;
}

Part added(const Call& c) { return c.op.attributes.accumulate ? whole(c, c.op.in.back()) : Part{}; }

Gemm input_gradient(const Call& c, int64_t rows, const Part& d_x, const Part& d_y, const Weight& weight,
                    bool accumulate) {
  return {.type = c.type(),
          .m = rows,
          .n = d_x.width,
          .k = weight.rows,
          .a = {d_y.data, d_y.stride},
          .b = {weight.data, weight.stride, weight.across},
          .out_type = c.type(),
          .out = d_x.data,
          .out_stride = d_x.stride,
          .add = accumulate};
}

Gemm weight_gradient(const Call& c, int64_t rows, float* gradient, const Part& d_y, const Part& x) {
  return {.type = c.type(),
          .m = d_y.width,
          .n = x.width,
          .k = rows,
          .a = {d_y.data, d_y.stride, /*transposed=*/true},
          .b = {x.data, x.stride},
          .out_type = Element::f32,
          .out = gradient,
          .out_stride = x.width,
          .add = true,
          .workspace = c.workspace};
}

namespace {

// Returns the gradients of all the op's modules if they are consecutive in memory; otherwise null.
float* gradients_together(const Call& c) {
  float *first = c.module().d_weight, *next = first;
  for (size_t i = 0; i < c.op.modules.size(); ++i) {
    if (!next || c.module(i).d_weight != next) return nullptr;
    next += c.use(i).out * c.use(i).in;
  }
  return first;
}

}  // namespace

std::vector<Gemm> linear_weight_gradient(const Call& c) {
  const Part x = whole(c, c.in(1));
  // In 16 bits a CPU's product is rounded in a workspace for one module.
  if (float* all = gradients_together(c); all && c.type() == Element::f32)
    return {weight_gradient(c, c.tokens(), all, whole(c, c.in(0)), x)};
  std::vector<Gemm> products;
  for (size_t i = 0; i < c.op.modules.size(); ++i)
    if (float* gradient = c.module(i).d_weight)
      products.push_back(weight_gradient(c, c.tokens(), gradient, part(c, c.in(0), i), x));
  return products;
}

}  // namespace forge::bind
