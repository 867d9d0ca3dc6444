#include "core/model/families/step.h"

#include "core/model/families/expert_rows.h"
#include "core/model/families/family.h"
#include "core/model/families/modules.h"
#include "core/model/graph/backward.h"
#include "core/model/graph/fold_adapters.h"
#include "core/model/graph/fold_gates.h"
#include "core/model/graph/fold_residuals.h"
#include "core/model/graph/offload.h"
#include "kernels/embedding/embedding_op.h"
#include "kernels/lm_head/head_op.h"
#include "kernels/optimizer/update_op.h"
#include "kernels/rows/rows_op.h"

namespace forge {
namespace {

// Records the embedding, layers and final norm of a decoder alone.
ValueId decoder_rows(Recorder& g, const ModelSpec& m, const Family& family) {
  const OuterModules& modules = outer_modules(m);
  ValueId h = embed(g, modules.embedding, m.vocab_size, m.hidden_size, m.embedding_scale, frozen_embedding_row(m));
  if (m.learned_positions)
    h = add(g, h, embed_positions(g, modules.positions, m.max_position_embeddings + m.position_offset, m.hidden_size, m.position_offset));
  if (family.before_layers) family.before_layers(g, m, h);
  for (int64_t layer = 0; layer < m.num_layers; ++layer) {
    g.enter_layer(layer, modules.layers + std::to_string(layer) + ".");
    h = family.layer ? family.layer(g, m, layer, h) : llama_layer(g, m, family, layer, h);
  }
  g.leave_layer();
  return norm(g, m, gather(g, h), modules.final_norm);
}

Graph record(const StepShape& shape, bool training) {
  const ModelSpec& m = shape.spec;
  const Family& family = family_of(m);
  Recorder g(shape.training, shape.residual == Residual::fp32 ? ValueType::fp32 : ValueType::compute);
  ValueId rows = family.stacks ? family.stacks(g, m) : decoder_rows(g, m, family);
  if (m.score_head) {
    head(g, rows, kScoreModule, 1, 0, false, training);
    return g.take();
  }
  if (m.logit_scale != 1) rows = scale(g, rows, m.logit_scale);
  head(g, rows, outer_modules(m).head, m.vocab_size, m.logit_softcap, shape.fused_head, training, m.head_bias);
  return g.take();
}

// Appends the operations after the last micro-batch of a step: the gradient's norm and the update.
void add_update(Graph& step, const TrainedSize& trained) {
  step.micro_batch_ops = step.ops.size();
  if (trained.elements == 0) return;
  for (const OpKind kind : {&ops::gradient_norm, &ops::update}) {
    Op op{.kind = kind};
    op.attributes.elements = trained.elements;
    op.attributes.bytes = kind == &ops::update ? trained.update_bytes : 4 * trained.elements;
    step.ops.push_back(std::move(op));
  }
}

}  // namespace

TrainedSize trained_size(const TrainedLayout& layout, Precision precision) {
  return {layout.elements, layout.update_bytes(precision == Precision::fp32 ? 0 : 2)};
}

// Returns the training of nothing, with experts as the run has them.
static ModuleTraining nothing_trained(const ModelSpec& spec, const AdapterConfig& adapter,
                                      Quantization quantization, Experts experts) {
  ModuleTraining training{.fp8 = quantization == Quantization::fp8, .experts = experts};
  if (experts == Experts::in_rows) training.apart = rows_apart(spec, adapter);
  return training;
}

ModuleTraining base_training(const ModelSpec& spec, const AdapterConfig& adapter,
                             Quantization quantization, Experts experts) {
  ModuleTraining training = nothing_trained(spec, adapter, quantization, experts);
  if (training.fp8)
    for (const ModuleUse& module : saved_modules(spec, adapter, experts))
      training.wide.insert(module.path);
  return training;
}

ModuleTraining module_training(const ModelSpec& spec, const AdapterConfig& adapter,
                               const std::vector<AdapterSite>& sites, Quantization quantization,
                               Experts experts) {
  ModuleTraining training = nothing_trained(spec, adapter, quantization, experts);
  training.all = adapter.type == AdapterType::none;
  training.dora = adapter.use_dora;
  training.dropout = adapter.dropout > 0;
  training.biases = adapter.bias == LoraBias::all         ? TrainedBiases::all
                    : adapter.bias == LoraBias::lora_only ? TrainedBiases::adapted
                                                          : TrainedBiases::none;
  for (const AdapterSite& site : sites) training.adapters[site.module] = {site.rank, site.experts > 0 ? site.adapter : ""};
  if (training.all) return training;
  for (const ModuleUse& module : saved_modules(spec, adapter, experts))
    training.whole.insert(module.path);
  // The gradient of such a site is that of the whole matrix, from which the adapter takes its part.
  for (const VocabularySite& site : vocabulary_sites(spec, adapter)) {
    training.whole.insert(site.module);
    if (site.embedding && !site.tokens.empty() && spec.tie_word_embeddings) training.whole.insert(outer_modules(spec).head);
  }
  return training;
}

Recomputed recomputed_by(const StepShape& shape, Checkpointing policy) {
  return policy == Checkpointing::none ? Recomputed() : recomputed_by(forward_list(shape), policy);
}

Graph training_step(Graph forward, const StepChoice& choice) {
  const KeptValues kept = kept_values(forward, choice.recompute, choice.kept_norms);
  const std::vector<ValueId> inputs = choice.offloaded ? layer_inputs(forward) : std::vector<ValueId>{};
  Graph step = with_backward(std::move(forward), kept);
  if (choice.folded_adapters) fold_adapters(step);
  repeat_in_backward(step);
  if (choice.folded_adapters) fold_gates(step);
  if (choice.folded_residuals) fold_residuals(step);
  fuse_additions(step);
  offload(step, inputs);
  add_update(step, choice.trained);
  return step;
}

Graph training_step(const StepShape& shape) { return training_step(record(shape, true), shape); }

Graph forward_list(const StepShape& shape) { return record(shape, false); }

Graph evaluation_step(const StepShape& shape) {
  Graph list = record(shape, false);
  if (shape.folded_adapters) fold_adapters(list), fold_gates(list);
  if (shape.folded_residuals) fold_residuals(list);
  fuse_additions(list);
  list.micro_batch_ops = list.ops.size();
  return list;
}

template <typename Make>
const Graph& StepLists::made(std::optional<Made>& last, const StepChoice& choice, const Make& make) {
  if (!last || last->choice != choice) {
    static_cast<StepChoice&>(shape_) = choice;
    last = Made{choice, make(shape_)};
  }
  return last->list;
}

const Graph& StepLists::training(const StepChoice& choice) {
  std::optional<Graph>& forward = training_forward_[choice.fused_head];
  return made(training_, choice, [&](const StepShape& shape) {
    // The forward list depends on fused_head alone among the choices.
    if (!forward) forward = record(shape, true);
    return training_step(Graph(*forward), shape);
  });
}

const Graph& StepLists::evaluation(const StepChoice& choice) {
  // An evaluation does not depend on what is computed again or updated.
  return made(evaluation_,
              {.fused_head = choice.fused_head, .folded_adapters = choice.folded_adapters, .folded_residuals = choice.folded_residuals},
              evaluation_step);
}

}  // namespace forge
