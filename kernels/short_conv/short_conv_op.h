#pragma once
// Short causal convolutions of each channel in a list.
#include "core/graph/op_record.h"
#include "core/graph/recorder.h"

namespace forge {

namespace ops {
// x → y.
extern const OpRecord short_conv;
// d y, x → d x, which may lie over x, and into the gradients of filter and bias.
extern const OpRecord short_conv_backward;
}  // namespace ops

// A module of filters, one for each column of x, and what follows them.
struct ShortConv {
  const char* module;
  int64_t width = 0;  // taps
  bool bias = false, silu = false;
};
ValueId short_conv(Recorder& g, ValueId x, const ShortConv& conv);

}  // namespace forge
