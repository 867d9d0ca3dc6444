#pragma once
// Principal directions of the rows that a layer reads, computed batch by batch: incremental PCA
// with a truncated randomised SVD (Ross et al., "Incremental learning for robust visual tracking",
// 2008; Halko et al., "Finding structure with randomness", 2011), like PEFT's EVA (Paischer et al.,
// "Explained variance adaptation", 2024).
//
//   InputSvd svd(rank, seed, "model.layers.0.self_attn.q_proj");
//   while (!svd.settled(0.99)) svd.add(rows);
//   at::Tensor a = svd.directions();
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace forge {

class InputSvd {
 public:
  // Random numbers depend on seed, name and the number of batches before.
  InputSvd(int64_t rank, int64_t seed, std::string name) : rank_(rank), seed_(seed), name_(std::move(name)) {}

  // Adds rows [n, in], of any type. Returns false, and adds none, for fewer than `rank` rows.
  bool add(const at::Tensor& rows);

  // True if each direction has at least this cosine with itself before the latest batch.
  bool settled(double tau) const { return cosine_ >= tau; }
  bool empty() const { return !directions_.defined(); }

  int64_t rank() const { return rank_; }
  at::Tensor directions() const { return directions_; }            // [rank, in], fp32, orthonormal, by falling singular value
  at::Tensor singular_values() const { return singular_values_; }  // [rank], fp32

 private:
  int64_t rank_, seed_;
  std::string name_;
  int64_t batches_ = 0, rows_ = 0;
  double cosine_ = -1;               // the least between a direction and the one before
  at::Tensor mean_;                  // [in], fp64
  at::Tensor directions_, singular_values_;
};

}  // namespace forge
