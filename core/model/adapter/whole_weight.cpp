#include "core/model/adapter/whole_weight.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>

#include "core/model/adapter/first_values.h"

namespace forge {
namespace {

// The trained parts of one matrix, [vocabulary, hidden].
struct Parts {
  VocabularySite site;
  at::Tensor base;
  at::Tensor tokens;  // int64, where rows are trained
  Trainable *rows = nullptr, *a = nullptr, *b = nullptr;

  // The low-rank factors in the order of a linear layer: W += s · left · right.
  at::Tensor left() const { return site.embedding ? a->master.t() : b->master; }   // [vocabulary, rank]
  at::Tensor right() const { return site.embedding ? b->master.t() : a->master; }  // [rank, hidden]

  void compose(at::Tensor& whole) const {
    if (rows) {
      whole.index_copy_(0, tokens, rows->master.to(whole.scalar_type()));
      return;
    }
    const at::Tensor l = left().to(at::kFloat), r = right().to(at::kFloat);
    const int64_t rows_at_once = std::max<int64_t>(1, kUpdateChunk / whole.size(1));  // in fp32
    for (int64_t begin = 0; begin < whole.size(0); begin += rows_at_once) {
      const int64_t count = std::min(rows_at_once, whole.size(0) - begin);
      whole.narrow(0, begin, count)
          .copy_(at::addmm(base.narrow(0, begin, count).to(at::kFloat), l.narrow(0, begin, count), r, 1,
                           site.scale));
    }
  }

  void hand_on(const at::Tensor& grad) const {
    if (rows) {
      rows->grad.add_(grad.index_select(0, tokens));
      return;
    }
    const at::Tensor d_left = at::mm(grad, right().to(at::kFloat).t()).mul_(site.scale);
    const at::Tensor d_right = at::mm(left().to(at::kFloat).t(), grad).mul_(site.scale);
    a->grad.add_(site.embedding ? d_left.t() : d_right);
    b->grad.add_(site.embedding ? d_right.t() : d_left);
  }
};

}  // namespace

void attach_vocabulary(Model& model, TrainableSet& trainables, const std::vector<VocabularySite>& sites,
                       bool tied) {
  c10::NoGradGuard no_grad;
  for (const VocabularySite& site : sites) {
    at::Tensor& slot = site.embedding ? model.embedding : model.head;
    Parts parts{.site = site, .base = slot};
    if (!site.tokens.empty()) {
      parts.tokens = at::tensor(site.tokens, at::kLong).to(model.device);
      parts.rows = &trainables.at(site.rows());
      parts.rows->master.copy_(slot.index_select(0, parts.tokens));
    } else {
      parts.a = &trainables.at(site.a());
      parts.b = &trainables.at(site.b());
    }
    Parameter whole{kSavedPrefix + site.module + ".weight", slot.sizes().vec(),
                    site.embedding ? Role::embedding : Role::head};
    // The leaf is a copy of the base, of which only the rows change.
    at::Tensor leaf = slot.to(model.type, /*non_blocking=*/false, /*copy=*/true).requires_grad_(true);
    trainables.add_whole({{std::move(whole), leaf, {}, leaf},
                          [parts, leaf]() mutable { parts.compose(leaf); },
                          [parts](const at::Tensor& grad) { parts.hand_on(grad); }});
    slot = leaf;
    if (tied && site.embedding && parts.rows) model.head = leaf;
  }
}

void initialize_vocabulary(TrainableSet& trainables, const std::vector<VocabularySite>& sites, int64_t seed) {
  c10::NoGradGuard no_grad;
  for (const VocabularySite& site : sites) {
    if (site.rank == 0) continue;
    if (site.embedding)
      draw_normal(trainables.at(site.b()).master, seed, "lora_B/" + site.module, 1);
    else
      draw_uniform(trainables.at(site.a()).master, seed, "lora_A/" + site.module,
                   1 / std::sqrt(static_cast<double>(site.hidden)));
  }
}

}  // namespace forge
