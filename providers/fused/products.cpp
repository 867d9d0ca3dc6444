#include "providers/fused/products.h"

#include <algorithm>

#include "core/lib/base/error.h"
#include "providers/fused/ops.h"

namespace forge::fused {

Weight base(const FusedRun& r, size_t i) {
  if (r.use().experts > 0) {
    const ModuleUse& use = r.use();
    return {r.weights.expert_in_compute_type(r.module(), static_cast<int64_t>(i), use.in, use.out), use.out,
            use.out, /*across=*/true};
  }
  const FusedModule& module = r.module(i);
  const int64_t in = r.use(i).in, out = r.use(i).out;
  return {r.weights.in_compute_type(r.op.modules[i]), out, r.weights.converts(module) ? in : module.stride};
}

namespace {

// True if rows are multiplied one by one. In fp32 a text's bits must not depend on its neighbours:
// whole prompts have that property on forge's tiles, not on MKL's.
bool row_by_row(const FusedRun& r) {
  const bool whole_prompts = r.type() != Element::f32 || r.device.tiles_work(r.type());
  return r.batch.cache && !(r.batch.cache->begins && whole_prompts);
}

}  // namespace

bool takes_tails(const FusedRun& r) { return !r.batch.cache && !r.device.separate() && r.device.tiles_pay(r.type()); }

bool stays_in_blocks(const FusedRun& r, size_t i) {
  const FusedModule& module = r.module(i);
  return r.use().experts == 0 && !module.weight && row_by_row(r) && rows_are_blocks(module.blocks);
}

Weight multiplied(const FusedRun& r, size_t i) {
  if (!stays_in_blocks(r, i)) return base(r, i);
  return {.rows = r.use(i).out, .stride = r.use(i).in, .blocks = &r.module(i).blocks};
}

namespace {

void put_bias(const FusedRun& r, int64_t rows, const Part& y, const void* bias) {
  if (bias) r.device.run(bind::copy(r, rows, {const_cast<void*>(bias), 0, y.width}, y));
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
  Gemm whole = bind::plus(bind::product(r, rows, y, x, weight, bias != nullptr), h, r.workspace);
  whole.tails = tails.data(), whole.tail_count = static_cast<int64_t>(tails.size());
  r.device.run(whole);
}

void input_gradient(const FusedRun& r, int64_t rows, const Part& d_x, const Part& d_y, const Weight& weight,
                    bool accumulate) {
  r.device.run(bind::input_gradient(r, rows, d_x, d_y, weight, accumulate));
}

QuantizeRows fp8_rows(const FusedRun& r, const Part& x) {
  if (!bind::any_fp8(r.m.graph, r.op)) return {};
  const QuantizeRows rows = bind::fp8_rows(r, x, nullptr);
  r.device.run(rows);
  return rows;
}

void fp8_product(const FusedRun& r, size_t module, const QuantizeRows& x, const void* bias) {
  ScaledProduct args = bind::fp8_linear(r, module, x);
  args.bias = bias;
  r.device.run(args);
}

void fp8_input_gradient(const FusedRun& r, size_t module) {
  const QuantizeRows d_y = bind::fp8_rows(r, part(r, r.in(0), module), r.module(module).blocks.absmax);
  r.device.run(d_y);
  r.device.run(bind::fp8_input_gradient(r, module, d_y, r.weights.transposed(r.op.modules[module]), r.weights.ones()));
}

ProductGroup::ProductGroup(const FusedRun& r)
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

void ProductGroup::input_gradient(int64_t rows, const Part& d_x, const Part& d_y, const Weight& weight, bool accumulate) {
  add(bind::input_gradient(r_, rows, d_x, d_y, weight, accumulate));
}

void ProductGroup::weight_gradient(int64_t rows, float* gradient, const Part& d_y, const Part& x) {
  add(bind::weight_gradient(r_, rows, gradient, d_y, x));
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
