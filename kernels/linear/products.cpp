#include "kernels/linear/products.h"

#include <algorithm>

#include "core/lib/base/error.h"
#include "kernels/device/cpu_product.h"
#include "kernels/rows/rows_op.h"

namespace forge {

void row_product(ComputeDevice& device, RowProduct args, std::vector<char>& scratch) {
  const auto bytes = static_cast<size_t>(device.workspace(args));
  if (scratch.size() < bytes) scratch.resize(bytes);
  args.workspace = scratch.data();
  device.run(args);
}

int64_t most_workspace(const std::vector<Gemm>& products) {
  int64_t most = 0;
  for (const Gemm& product : products) most = std::max(most, product_cpu_workspace(product));
  return most;
}

namespace bind {

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

}  // namespace bind

namespace fused {

Weight base(const OpRun& r, size_t i) {
  if (r.use().experts > 0) {
    const ModuleUse& use = r.use();
    return {r.weights.expert_in_compute_type(r.module(), static_cast<int64_t>(i), use.in, use.out), use.out,
            use.out_first ? use.in : use.out, /*across=*/!use.out_first};
  }
  const OpModule& module = r.module(i);
  const int64_t in = r.use(i).in, out = r.use(i).out;
  return {r.weights.in_compute_type(r.op.modules[i]), out, r.weights.converts(module) ? in : module.stride};
}

namespace {

void put_bias(const OpRun& r, int64_t rows, const Part& y, const void* bias) {
  if (bias) r.device.run(bind::copy(r, rows, {const_cast<void*>(bias), 0, y.width}, y));
}

// True if rows are multiplied one by one. In fp32 a text's bits must not depend on its neighbours:
// whole prompts have that property on forge's tiles, not on MKL's.
bool row_by_row(const OpRun& r) {
  const bool whole_prompts = r.type() != Element::f32 || r.device.tiles_work(r.type());
  return r.batch.cache && !(r.batch.cache->begins && whole_prompts);
}

}  // namespace

bool takes_tails(const OpRun& r) { return !r.batch.cache && !r.device.separate() && r.device.tiles_pay(r.type()); }

bool stays_in_blocks(const OpRun& r, size_t i) {
  const OpModule& module = r.module(i);
  return r.use().experts == 0 && !module.weight && row_by_row(r) && rows_are_blocks(module.blocks);
}

Weight multiplied(const OpRun& r, size_t i) {
  if (!stays_in_blocks(r, i)) return base(r, i);
  return {.rows = r.use(i).out, .stride = r.use(i).in, .blocks = &r.module(i).blocks};
}

void product(const OpRun& r, int64_t rows, const Part& y, const Part& x, const Weight& weight,
             const void* bias, const Part& h, std::span<const GemmTail> tails) {
  if (row_by_row(r)) {
    FORGE_CHECK(!h.data, "a product that adds a stream in decoding");
    FORGE_CHECK(weight.stride == (weight.across ? weight.rows : x.width), "decoding with gaps between a weight's rows");
    RowProduct args{r.type(), r.type(), rows, x.width, weight.rows, x.data, x.stride, weight.data, bias};
    args.across = weight.across;
    args.y = y.data, args.y_stride = y.stride;
    if (weight.blocks) args.blocks = *weight.blocks, args.blocks.type = Element::f32, args.blocks.rows = weight.rows;
    return row_product(r.device, args, *r.batch.cache->scratch);
  }
  put_bias(r, rows, y, bias);
  Gemm whole = bind::plus(bind::product(r, rows, y, x, weight, bias != nullptr), h, r.workspace);
  whole.tails = tails.data(), whole.tail_count = static_cast<int64_t>(tails.size());
  r.device.run(whole);
}

ProductGroup::ProductGroup(const OpRun& r)
    : r_(r),
      one_by_one_(std::any_of(r.op.modules.begin(), r.op.modules.end(), [&](auto m) { return r.weights.converts(r.weights[m]); })),
      products_(*r.batch.products) {
  products_.clear();
}

void ProductGroup::product(int64_t rows, const Part& y, const Part& x, const Weight& weight, const void* bias) {
  if (row_by_row(r_)) return fused::product(r_, rows, y, x, weight, bias);
  put_bias(r_, rows, y, bias);
  add(bind::product(r_, rows, y, x, weight, bias != nullptr));
}

void ProductGroup::add(const Gemm& product) {
  products_.push_back(product);
  if (one_by_one_) run();
}

void ProductGroup::run() {
  if (!products_.empty()) r_.device.run(GemmGroup{products_.data(), static_cast<int64_t>(products_.size())});
  products_.clear();
}

}  // namespace fused
}  // namespace forge
