#pragma once
// Products of some rows with a module's weight, which linear layers and experts share.
#include <span>

#include "providers/fused/parts.h"

namespace forge::fused {

// A weight [rows, in] in the compute type; `across`: it lies [in, rows].
struct Weight {
  const void* data = nullptr;
  int64_t rows = 0, stride = 0;
  bool across = false;
  const DequantizeBlocks* blocks = nullptr;  // in the place of data
};

// That of one of the op's modules, or of an expert of its one module. Valid until the next one, where it is converted.
Weight base(const FusedRun& r, size_t module);
// Whether product() multiplies with its blocks: where rows are multiplied one by one.
bool stays_in_blocks(const FusedRun& r, size_t module);
// The same for product(): where rows are multiplied one by one, a weight in blocks stays in them.
Weight multiplied(const FusedRun& r, size_t module);
// y = x Wᵀ + bias, or h + x Wᵀ; `bias` may be null, and `h` without data. In decoding a row does not depend on how many there are: with a library's products it does, and
// they are taken for prompts in 16 bits alone.
void product(const FusedRun& r, int64_t rows, const Part& y, const Part& x, const Weight& weight,
             const void* bias, const Part& h = {}, std::span<const GemmTail> tails = {});
// Whether it takes tails: in training, on tiles of forge's own.
bool takes_tails(const FusedRun& r);
// d x = d y W, or added to it
void input_gradient(const FusedRun& r, int64_t rows, const Part& d_x, const Part& d_y, const Weight& weight,
                    bool accumulate);
// gradient [d_y.width, x.width] += d yᵀ x
void weight_gradient(const FusedRun& r, int64_t rows, float* gradient, const Part& d_y, const Part& x);

// The same, queued behind one another and run as one group.
class ProductGroup {
 public:
  explicit ProductGroup(const FusedRun& r);
  void product(int64_t rows, const Part& y, const Part& x, const Weight& weight, const void* bias);
  void input_gradient(int64_t rows, const Part& d_x, const Part& d_y, const Weight& weight, bool accumulate);
  void weight_gradient(int64_t rows, float* gradient, const Part& d_y, const Part& x);
  void run();

 private:
  void add(const Gemm& product);

  const FusedRun& r_;
  const bool one_by_one_;  // a weight is valid only until the next one
  std::vector<Gemm>& products_;
};

}  // namespace forge::fused
