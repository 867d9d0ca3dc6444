#pragma once
// Products of some rows with a module's weight, which linear layers and experts share.
#include <span>
#include <vector>

#include "kernels/call/run.h"
#include "kernels/device/gemm.h"
#include "kernels/product/product_args.h"
#include "kernels/quantize/quantize_args.h"

namespace forge {

// Runs a product with kernels/product's workspace in `scratch`, a buffer that grows. CPU.
void row_product(ComputeDevice& device, RowProduct args, std::vector<char>& scratch);

// Returns the workspace of the largest of a CPU's products.
int64_t most_workspace(const std::vector<Gemm>& products);

namespace bind {

// A weight [rows, in] in the compute type; `across`: it is [in, rows].
struct Weight {
  const void* data = nullptr;
  int64_t rows = 0, stride = 0;
  bool across = false;
  const DequantizeBlocks* blocks = nullptr;  // in the place of data
};

// Returns y = x Wᵀ; y += x Wᵀ if there is a bias, which has been written to y before.
Gemm product(const Call& c, int64_t rows, const Part& y, const Part& x, const Weight& weight, bool biased);
// Returns the product that also adds a stream, if `h` has data.
Gemm plus(Gemm product, const Part& h, void* workspace);
// Returns the value that the op's product adds to its result: the op's last input, if it adds one.
Part added(const Call& c);
// Returns d x = d y W, or adds it.
Gemm input_gradient(const Call& c, int64_t rows, const Part& d_x, const Part& d_y, const Weight& weight,
                    bool accumulate);
// Returns gradient [d_y.width, x.width] += d yᵀ x.
Gemm weight_gradient(const Call& c, int64_t rows, float* gradient, const Part& d_y, const Part& x);

}  // namespace bind

namespace fused {

using bind::Weight;

// Returns the weight of one of the op's modules, or of an expert of its one module. A converted
// weight is valid until the next one is asked for.
Weight base(const OpRun& r, size_t module);
// True if product() multiplies with the weight's blocks: if rows are multiplied one by one.
bool stays_in_blocks(const OpRun& r, size_t module);
// Like base(), for product(): a weight in blocks stays in blocks if rows are multiplied one by one.
Weight multiplied(const OpRun& r, size_t module);
// Computes y = x Wᵀ + bias, or h + x Wᵀ; `bias` may be null, and `h` without data. In decoding a
// row does not depend on the number of rows. With a library's products it would, so these are used
// for prompts in 16 bits alone.
void product(const OpRun& r, int64_t rows, const Part& y, const Part& x, const Weight& weight,
             const void* bias, const Part& h = {}, std::span<const GemmTail> tails = {});
// True if product() takes tails: in training, on forge's own tiles.
bool takes_tails(const OpRun& r);

// Products like those above, collected one after the other and run as one group.
class ProductGroup {
 public:
  explicit ProductGroup(const OpRun& r);
  void product(int64_t rows, const Part& y, const Part& x, const Weight& weight, const void* bias);
  void add(const Gemm& product);
  void run();

 private:
  const OpRun& r_;
  const bool one_by_one_;  // a weight is valid only until the next one
  std::vector<Gemm>& products_;
};

}  // namespace fused
}  // namespace forge
