#include "providers/fused/products.h"

#include <algorithm>

#include "core/base/error.h"
#include "kernels/product/gemm_tiles.h"
#include "providers/fused/ops.h"

namespace forge::fused {

Weight base(const FusedRun& r, size_t i) {
  if (r.use().experts > 0) {
    const ModuleUse& use = r.use();
    return {r.modules.expert_in_compute_type(r.module(), static_cast<int64_t>(i), use.in, use.out), use.out,
            use.out, /*across=*/true};
  }
  const FusedModule& module = r.module(i);
  const int64_t in = r.use(i).in, out = r.use(i).out;
  return {r.modules.in_compute_type(r.op.modules[i]), out, r.modules.converts(module) ? in : module.stride};
}

namespace {

// True if rows are multiplied one by one. In fp32 a text's bits must not depend on its neighbours:
// whole prompts have that property on forge's tiles, not on MKL's.
bool row_by_row(const FusedRun& r) {
  const bool whole_prompts = r.type() != Element::f32 || gemm_tiles_work(r.type());
  return r.batch.cache && !(r.batch.cache->begins && whole_prompts);
}

}  // namespace

bool takes_tails(const FusedRun& r) { return !r.batch.cache && !r.device.separate() && gemm_tiles_pay(r.type()); }

bool stays_in_blocks(const FusedRun& r, size_t i) {
  const FusedModule& module = r.module(i);
  return r.use().experts == 0 && !module.weight && row_by_row(r) && rows_are_blocks(module.blocks);
}

Weight multiplied(const FusedRun& r, size_t i) {
  if (!stays_in_blocks(r, i)) return base(r, i);
  return {.rows = r.use(i).out, .stride = r.use(i).in, .blocks = &r.module(i).blocks};
}

namespace {

// Adds to y if there is a bias, which has been written to y before.
Gemm product_of(const FusedRun& r, int64_t rows, const Part& y, const Part& x, const Weight& weight, bool biased) {
  return {.type = r.type(),
          .m = rows,
          .n = weight.rows,
          .k = x.width,
          .a = {x.data, x.stride},
          .b = {weight.data, weight.stride, /*transposed=*/!weight.across},
          .out_type = r.type(),
          .out = y.data,
          .out_stride = y.stride,
          .add = biased,
          .apart = r.batch.cache != nullptr};
}

Gemm input_gradient_of(const FusedRun& r, int64_t rows, const Part& d_x, const Part& d_y, const Weight& weight, bool accumulate) {
  return {.type = r.type(),
          .m = rows,
          .n = d_x.width,
          .k = weight.rows,
          .a = {d_y.data, d_y.stride},
          .b = {weight.data, weight.stride, weight.across},
          .out_type = r.type(),
          .out = d_x.data,
          .out_stride = d_x.stride,
          .add = accumulate};
}

Gemm weight_gradient_of(const FusedRun& r, int64_t rows, float* gradient, const Part& d_y, const Part& x) {
  return {.type = r.type(),
          .m = d_y.width,
          .n = x.width,
          .k = rows,
          .a = {d_y.data, d_y.stride, /*transposed=*/true},
          .b = {x.data, x.stride},
          .out_type = Element::f32,
          .out = gradient,
          .out_stride = x.width,
          .add = true,
          .workspace = r.workspace};
}

void put_bias(const FusedRun& r, int64_t rows, const Part& y, const void* bias) {
  if (bias) copy(r, rows, {const_cast<void*>(bias), 0, y.width}, y);
}

}  // namespace

void product(const FusedRun& r, int64_t rows, const Part& y, const Part& x, const Weight& weight,
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
  Gemm whole = plus(product_of(r, rows, y, x, weight, bias != nullptr), h, r.workspace);
  whole.tails = tails.data(), whole.tail_count = static_cast<int64_t>(tails.size());
  r.device.run(whole);
}

void input_gradient(const FusedRun& r, int64_t rows, const Part& d_x, const Part& d_y, const Weight& weight,
                    bool accumulate) {
  r.device.run(input_gradient_of(r, rows, d_x, d_y, weight, accumulate));
}

void weight_gradient(const FusedRun& r, int64_t rows, float* gradient, const Part& d_y, const Part& x) {
  r.device.run(weight_gradient_of(r, rows, gradient, d_y, x));
}

ProductGroup::ProductGroup(const FusedRun& r)
    : r_(r),
      one_by_one_(std::any_of(r.op.modules.begin(), r.op.modules.end(), [&](auto m) { return r.modules.converts(r.modules[m]); })),
      products_(*r.batch.products) {
  products_.clear();
}

void ProductGroup::product(int64_t rows, const Part& y, const Part& x, const Weight& weight, const void* bias) {
  if (row_by_row(r_)) return fused::product(r_, rows, y, x, weight, bias);
  put_bias(r_, rows, y, bias);
  add(product_of(r_, rows, y, x, weight, bias != nullptr));
}

void ProductGroup::input_gradient(int64_t rows, const Part& d_x, const Part& d_y, const Weight& weight, bool accumulate) {
  add(input_gradient_of(r_, rows, d_x, d_y, weight, accumulate));
}

void ProductGroup::weight_gradient(int64_t rows, float* gradient, const Part& d_y, const Part& x) {
  add(weight_gradient_of(r_, rows, gradient, d_y, x));
}

void ProductGroup::add(const Gemm& product) {
  products_.push_back(product);
  if (one_by_one_) run();
}

void ProductGroup::run() {
  if (!products_.empty()) r_.device.run(GemmGroup{products_.data(), static_cast<int64_t>(products_.size())});
  products_.clear();
}

}  // namespace forge::fused
