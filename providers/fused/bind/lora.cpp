#include "providers/fused/bind.h"

namespace forge::bind {
namespace {

LoraGroup adapter_of(const Call& c, size_t module, ValueId x, const Part& y, ValueId s) {
  const FusedModule& m = c.module(module);
  LoraGroup g{.type = c.type(),
              .tokens = c.tokens(),
              .width = c.use(module).in,
              .rank = c.use(module).rank,
              .members = 1,
              .scale = m.scale,
              .x = c.m.data(x),
              .x_stride = c.m.stride(x),
              .a = m.a,
              .s = c.m.data(s),
              .s_type = c.m.capacity.gpu ? c.type() : Element::f32};
  g.member[0] = {.out = y.width, .b = m.b, .y = y.data, .y_stride = y.stride};
  if (c.batch.dropout && m.dropout > 0) g.dropout = dropout_of(c, m, c.rows().example, c.rows().position);
  return g;
}

}  // namespace

LoraDropout dropout_of(const Call& c, const FusedModule& m, const int64_t* example, const int32_t* position) {
  return {.probability = m.dropout,
          .seed = c.batch.seed,
          .stream = m.dropout_stream,
          .step = c.batch.step,
          .example = example,
          .position = position};
}

LoraForward lora_forward(const Call& c, size_t module, size_t adapter) {
  return {adapter_of(c, module, c.in(0), part(c, c.out(0), module), c.out(1 + adapter)), c.workspace};
}

LoraBackward lora_backward(const Call& c, size_t module, size_t adapter) {
  LoraBackward args{adapter_of(c, module, c.in(1), part(c, c.in(0), module), c.in(2 + adapter))};
  args.group.member[0].d_b = c.module(module).d_b;
  args.d_a = c.module(module).d_a;
  if (!c.op.out.empty()) args.d_x = c.m.data(c.out(0)), args.d_x_stride = c.m.stride(c.out(0));
  args.workspace = c.workspace;
  return args;
}

DoraRatio dora_ratio(const Call& c, size_t module, const void* weight, float* ratio, float* inverse) {
  const ModuleUse& use = c.use(module);
  const FusedModule& m = c.module(module);
  return {c.type(), use.out, use.in,      use.rank, m.scale, weight,
          m.a,      m.b,     m.magnitude, ratio,    inverse, c.workspace};
}

}  // namespace forge::bind
