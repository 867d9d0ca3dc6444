#pragma once
// The attention kernels of a plan. A layer may have another kernel than its neighbour: windows and
// caps need a kernel that supports them.
#include <string>
#include <string_view>
#include <vector>

#include "core/job/names.h"
#include "core/plan/machine/profile.h"

namespace forge {

// Kernels of attention. tiles: forge's own on a CPU. flash, efficient: LibTorch's over packed
// sequences on a GPU; own: forge's own on a GPU. sdpa: LibTorch's scaled_dot_product_attention,
// sequence by sequence; eager: product, softmax, product.
enum class Attention { tiles, flash, efficient, own, sdpa, eager };
constexpr std::string_view spelling(Attention) { return "tiles flash efficient own sdpa eager"; }

struct AttentionUse {
  Attention kernel = Attention::tiles;
  std::string layers;  // "0-3,7"
  std::string reason;
};

// Loss scaling of fp16. dynamic: the loss is multiplied so that small gradients do not vanish, by
// less after each overflow.
enum class LossScaling { none, dynamic };
constexpr std::string_view spelling(LossScaling) { return "none dynamic"; }

struct Compute;
struct Provider;

// Returns the kernels of the layers of the model's list. `micro_batch_tokens` are the most of a
// micro-batch.
std::vector<AttentionUse> attention_of(const Compute& plan, const Provider& provider, int64_t micro_batch_tokens);

}  // namespace forge
