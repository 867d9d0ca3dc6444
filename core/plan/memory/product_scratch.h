#pragma once
// Bytes that LibTorch allocates beside the result of a product in bf16 on a CPU, by the
// instructions that the processor multiplies with.
//
// Below AVX-512 LibTorch multiplies itself and needs no scratch. From there on oneDNN multiplies,
// in LibTorch 2.11 version 3.10.2:
//
//   avx512        gemm_bf16_matmul.cpp: the whole result once more in fp32
//   avx512_bf16   brgemm_matmul: for each thread a block of both factors and one of fp32 sums
//   amx_bf16      the same with tiles and blocks that follow the cache
//
// The first two are exact: tests compare them with the allocator. AMX is a bound from oneDNN's
// source, the largest over the caches of such processors. It was never measured on one, but is
// above what oneDNN chose where cpuid was made to report AMX.
#include <cstdint>
#include <map>
#include <string>

#include "core/job/job.h"
#include "core/lib/base/instruction_set.h"

namespace forge {

// The product [rows, inner] · [inner, columns].
struct Product {
  int64_t rows = 0, inner = 0, columns = 0;
  bool transposed = false;  // the first factor is read across its rows, as for a weight's gradient dYᵀ X

  friend auto operator<=>(const Product&, const Product&) = default;
};

class ProductScratch {
 public:
  ProductScratch(InstructionSet set, int64_t threads) : set_(set), threads_(threads) {}

  int64_t bytes(const Product& product);
  // True if the result of bytes() has been compared with such a processor.
  bool measured() const { return set_ != InstructionSet::amx_bf16; }

 private:
  InstructionSet set_;
  int64_t threads_;
  std::map<Product, int64_t> known_;  // a search over block sizes each, and a step repeats few products
};

// Returns the formula of a memory line: where its bytes come from.
std::string product_formula(Precision precision, InstructionSet set, int64_t threads);

}  // namespace forge
