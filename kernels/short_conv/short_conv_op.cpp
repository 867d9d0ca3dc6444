#include "kernels/short_conv/short_conv_op.h"

#include "kernels/call/derive.h"
#include "kernels/call/run.h"
#include "kernels/short_conv/short_conv_args.h"

namespace forge {

ValueId short_conv(Recorder& g, ValueId x, const ShortConv& conv) {
  const int64_t channels = g.graph.value(x).width;
  const int32_t module =
      g.module_at(conv.module, ModuleKind::filter, conv.width, channels, conv.bias);
  ValueId y = g.like(last_part(conv.module), x, channels);
  g.push(&ops::short_conv, {x}, {y}, {module}).attributes.silu = conv.silu;
  return y;
}

namespace {

// Counts a product and a sum for each tap, and silu; the backward makes the sums again, and two
// gradients.
double conv_flops(const Graph& graph, const Op& op, double rows, double) {
  const ModuleUse& module = graph.module(op);
  const double sums = 2 * rows * static_cast<double>(module.in * module.out);
  return (op.kind == &ops::short_conv ? 1 : 3) * sums +
         (op.attributes.silu ? 8 * rows * static_cast<double>(module.out) : 0);
}

ShortConvShape shape_of(const Call& c) {
  return {c.type(),    c.batch.sequences, c.batch.cu_seqlens,
          c.use().out, c.use().in,        c.op.attributes.silu, c.tokens()};
}

template <class Args>
Args args_of(const Call& c, ValueId x) {
  FORGE_CHECK(c.module().held == c.type(),
              c.use().path << " is held in another type than it is computed in");
  Args args;
  args.shape = shape_of(c);
  c.place(x, args.x, args.x_stride);
  args.weight = c.module().weight, args.bias = c.module().bias;
  return args;
}

ShortConvForward forward_args(const Call& c) {
  auto args = args_of<ShortConvForward>(c, c.in(0));
  c.place(c.out(0), args.y, args.y_stride);
  return args;
}

ShortConvBackward backward_args(const Call& c) {
  auto args = args_of<ShortConvBackward>(c, c.in(1));
  c.place(c.in(0), args.d_y, args.d_y_stride);
  c.place(c.out(0), args.d_x, args.d_x_stride);
  args.d_weight = c.module().d_weight, args.d_bias = c.module().d_bias;
  args.workspace = c.workspace;
  return args;
}

int64_t backward_workspace(const Call& c) {
  return c.m.capacity.gpu ? short_conv_backward_cuda_workspace(backward_args(c)) : 0;
}

// In decoding a text goes on from the columns that its slot keeps.
void run_forward(const OpRun& r) {
  ShortConvForward args = forward_args(r);
  std::vector<char*> states;
  if (const StatePlaces* places = r.batch.states) {
    states = places->of_columns(r.op.layer);
    args.states = states.data(), args.begins = places->begins;
  }
  r.device.run(args);
}

}  // namespace

const OpRecord ops::short_conv{.name = "short conv",
                               .flops = conv_flops,
                               .derive = derive::apart<&ops::short_conv_backward, 1>,
                               .run = run_forward};
const OpRecord ops::short_conv_backward{.name = "short conv backward",
                                        .flops = conv_flops,
                                        .run = by<backward_args>,
                                        .workspace = backward_workspace,
                                        .gradient_of = {&ops::short_conv, 1}};

}  // namespace forge
