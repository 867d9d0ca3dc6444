#include "kernels/lora/lora_op.h"

#include <algorithm>

#include "kernels/call/run.h"
#include "kernels/lora/lora_cuda_space.h"
#include "kernels/lora/lora_space.h"

namespace forge {

double flops::adapters(const Graph& graph, const Op& op, double rows, double) {
  return 4 * rows * factors(graph, op);
}

int64_t lora_workspace(const Call& c, const LoraGroup& group, bool backward) {
  return c.m.capacity.gpu ? lora_cuda_space(group, backward, nullptr).bytes
                          : lora_space(group, backward, nullptr, c.m.capacity.threads).bytes;
}

int64_t adapters_workspace(const Call& c) {
  int64_t most = 0;
  if (!c.op.attributes.folded)
    bind::each_adapter(c, [&](size_t i, size_t adapter) {
      most = std::max(most, c.op.kind == &ops::adapter_gradient
                                ? lora_workspace(c, bind::lora_backward(c, i, adapter).group, true)
                                : lora_workspace(c, bind::lora_forward(c, i, adapter).group, false));
    });
  return most;
}

namespace bind {
namespace {

LoraGroup adapter_of(const Call& c, size_t module, ValueId x, const Part& y, ValueId s) {
  const OpModule& m = c.module(module);
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

LoraDropout dropout_of(const Call& c, const OpModule& m, const int64_t* example, const int32_t* position) {
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
  if (!c.op.out.empty()) c.place(c.out(0), args.d_x, args.d_x_stride);
  args.workspace = c.workspace;
  return args;
}

}  // namespace bind

namespace {

void run_adapter_gradient(const OpRun& r) {
  bind::each_adapter(r, [&](size_t i, size_t adapter) { r.device.run(bind::lora_backward(r, i, adapter)); });
}

}  // namespace

const OpRecord ops::adapter_gradient{.name = "adapter backward",
                                     .flops = flops::adapters,
                                     .bulk = Bulk::products,
                                     .run = run_adapter_gradient,
                                     .workspace = adapters_workspace,
                                     .copies = {.results = 4,
                                     .operands = 3}};

}  // namespace forge
