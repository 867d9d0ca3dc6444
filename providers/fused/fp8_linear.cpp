#include "providers/fused/fp8_linear.h"

#include "providers/fused/fp8_sizes.h"

namespace forge::fused {
namespace {

Fp8Space space_of(const FusedRun& r) {
  StepSizes sizes = r.m.capacity;
  sizes.tokens = r.m.tokens;
  return fp8_space(r.m.graph, r.op, sizes);
}

char* at(const FusedRun& r, int64_t offset) { return static_cast<char*>(r.workspace) + offset; }

QuantizeRows quantize(const FusedRun& r, const Part& x, const float* factors) {
  const QuantizeRows rows{.type = r.type(),
                          .rows = r.m.tokens,
                          .columns = x.width,
                          .x = x.data,
                          .x_stride = x.stride,
                          .factors = factors,
                          .codes = static_cast<uint8_t*>(r.workspace),
                          .codes_stride = x.width,
                          .scales = reinterpret_cast<float*>(at(r, space_of(r).scales))};
  r.device.run(rows);
  return rows;
}

ScaledProduct product_of(const FusedRun& r, const QuantizeRows& rows, const uint8_t* weight, const float* scales, const Part& out) {
  return {.type = r.type(),
          .m = rows.rows,
          .n = out.width,
          .k = rows.columns,
          .a = rows.codes,
          .a_stride = rows.codes_stride,
          .a_scales = rows.scales,
          .b = weight,
          .b_scales = scales,
          .out = out.data,
          .out_stride = out.stride,
          .workspace = at(r, space_of(r).product)};
}

}  // namespace

Fp8Products::Fp8Products(const FusedRun& r, const Part& x) : r_(r) {
  if (any_fp8(r.m.graph, r.op)) rows_ = quantize(r, x, nullptr);
}

void Fp8Products::product(size_t module, const Part& y, const void* bias) const {
  const DequantizeBlocks& weight = r_.module(module).blocks;
  ScaledProduct args = product_of(r_, rows_, weight.codes, weight.absmax, y);
  args.bias = bias, args.quick_sums = true;
  r_.device.run(args);
}

void fp8_input_gradient(const FusedRun& r, size_t module, const Part& d_x, const Part& d_y, bool accumulate) {
  ScaledProduct args = product_of(r, quantize(r, d_y, r.module(module).blocks.absmax), r.modules.transposed(r.op.modules[module]), r.modules.ones(), d_x);
  args.add = accumulate;
  r.device.run(args);
}

}  // namespace forge::fused
