#include "kernels/attention/attention_turns.h"

#include <algorithm>

#include "kernels/common/element.h"

namespace forge {
namespace {

int64_t rounded(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// A backward kernel of CUTLASS as LibTorch 2.11 chooses it by type, head_dim and shared memory.
struct BackwardKernel {
  int64_t rows = 64;      // queries of a block
  bool key_sums = false;  // gradients of a block's keys are added up in memory, in fp32
};

// Keys of a block that has sums; and the most parts into which LibTorch divides the keys of all
// sequences and heads, if these are not more.
constexpr int64_t kSummedKeys = 64, kMostKeyParts = 200;

// True for GPUs with 160 KB of shared memory and more.
bool large_shared_memory(int64_t capability) {
  for (const int64_t large : {80, 87, 90, 100, 103})
    if (capability == large) return true;
  return false;
}

BackwardKernel kernel_of(const AttentionShape& shape, int64_t capability) {
  const int64_t d = padded_head_dim(shape);
  const bool large = large_shared_memory(capability);
  if (d <= 64) return {64, false};
  if (bytes_of(shape.type) == 4) return {large ? 128 : 64, false};
  if (d > 128) return {128, true};
  // Blocks of 128 queries hold their keys' gradients in registers.
  const bool wide = large || capability < 80 || (capability < 100 && d <= 96);
  return wide ? BackwardKernel{128, false} : BackwardKernel{64, true};
}

// Bytes of the sums of d q, in blocks of 64 columns, each with a lock: of a head.
int64_t query_sums(const BackwardKernel& kernel, int64_t rows, int64_t head_dim) {
  return rows / kernel.rows * (rounded(head_dim, 64) / 64) * 4 * (64 * kernel.rows + 4);
}

}  // namespace

int64_t attention_block(const AttentionShape& shape, int64_t capability) { return kernel_of(shape, capability).rows; }

std::vector<AttentionTurn> attention_turns(const std::vector<int32_t>& cu_seqlens, int64_t block, int64_t fewest_rows) {
  std::vector<AttentionTurn> turns;
  if (cu_seqlens.size() < 3) return turns;
  const int64_t most = std::max(fewest_rows, rounded(cu_seqlens.back(), block));
  for (size_t i = 0; i + 1 < cu_seqlens.size(); ++i) {
    const int64_t length = cu_seqlens[i + 1] - cu_seqlens[i];
    const int64_t longest = turns.empty() ? length : std::max(turns.back().longest, length);
    if (turns.empty() || (turns.back().sequences + 1) * rounded(longest, block) > most)
      turns.push_back({.first = static_cast<int64_t>(i), .begin = cu_seqlens[i]});
    AttentionTurn& turn = turns.back();
    turn.sequences += 1, turn.tokens += length, turn.longest = std::max(turn.longest, length);
  }
  if (turns.size() == 1) turns.clear();
  return turns;
}

int64_t padded_head_dim(const AttentionShape& shape) { return rounded(shape.head_dim, 16 / bytes_of(shape.type)); }

int64_t efficient_attention_bytes(const AttentionShape& s, int64_t capability) {
  const BackwardKernel kernel = kernel_of(s, capability);
  const int64_t d = padded_head_dim(s), element = bytes_of(s.type);
  int64_t rows = std::max(kFewestTurnRows, rounded(s.tokens, kernel.rows));
  if (s.sequences < rows) rows = std::min(rows, s.sequences * rounded(s.longest, kernel.rows));
  // Each sequence has a block of queries at least.
  const int64_t parts = std::max(kMostKeyParts, rows / kernel.rows * s.heads);
  const int64_t key_sums = kernel.key_sums ? 2 * 4 * parts * kSummedKeys * rounded(d, kernel.rows) : 0;
  const bool grouped = s.heads != s.kv_heads, padded = d != s.head_dim;
  // Rows of the operands: the gradients, keys and values repeated, and operands with padding.
  const int64_t operands = s.heads * (3 + 2 * grouped + 3 * padded) + 2 * s.kv_heads * padded;
  // Texts that are shorter than a block fill it with less.
  const int64_t at_once = std::min(s.tokens, rows * std::min(s.longest, kernel.rows) / kernel.rows);
  return s.heads * query_sums(kernel, rows, d) + key_sums + at_once * operands * d * element +
         4 * s.heads * (rows + at_once);  // lse and d out · out
}

}  // namespace forge
