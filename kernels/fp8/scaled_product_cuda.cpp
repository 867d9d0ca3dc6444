#include "core/lib/base/error.h"
#include "kernels/fp8/fp8_args.h"
#include "kernels/rows/rows_args.h"

namespace forge {

// A library's 8-bit product cannot add to its result, so the product is added in a second launch.
void scaled_product_cuda(const ScaledProduct& args, CudaStream stream) {
  if (args.m == 0 || args.n == 0) return;
  if (!args.add) return device_scaled_product(args, stream);
  FORGE_CHECK(!args.bias, "a product in 8 bits with a bias that is added");
  ScaledProduct alone = args;
  alone.out = args.workspace, alone.out_stride = args.n, alone.add = false;
  device_scaled_product(alone, stream);
  add_rows_cuda({.type = args.type, .rows = args.m, .width = args.n, .x = alone.out, .x_stride = args.n, .y = args.out, .y_stride = args.out_stride},
                stream);
}

}  // namespace forge
