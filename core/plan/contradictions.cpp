#include "core/plan/contradictions.h"

#include <algorithm>

#include "core/data/prepare.h"
#include "core/job/names.h"
#include "core/learn/objective/objective.h"
#include "core/lib/base/key_error.h"
#include "core/lib/base/text.h"
#include "core/model/families/adapter_sites.h"
#include "core/model/families/modules.h"
#include "core/plan/fit/offload.h"
#include "core/plan/stages/fp8.h"

namespace forge {
namespace {

bool names_a_linear(const std::vector<ModuleUse>& modules, const std::string& name) {
  return std::ranges::any_of(modules, [&](const ModuleUse& module) {
    using enum ModuleKind;
    return (module.kind == linear || module.kind == head || module.kind == embedding) &&
           ends_with("." + module.path, "." + name);
  });
}

// Returns the adapter's sites in the vocabulary's matrices; none if the adapter's settings are
// wrong, which run_parameters() reports.
std::vector<VocabularySite> known_vocabulary_sites(const ModelSpec& model, const AdapterConfig& adapter) {
  try {
    return vocabulary_sites(model, adapter);
  } catch (const KeyError&) {
    return {};
  }
}

// True if adapter.modules_to_save names the module of this weight.
bool saves(const AdapterConfig& adapter, const std::string& weight) {
  return std::ranges::any_of(adapter.modules_to_save, [&](const std::string& name) {
    return ends_with(weight, name + ".weight");
  });
}

// True if an embedding's rows have gradients.
bool trains_embedding(const ModelSpec& model, const AdapterConfig& adapter) {
  const std::vector<VocabularySite> adapted = known_vocabulary_sites(model, adapter);
  return adapter.type == AdapterType::none || saves(adapter, embedding_name(model)) ||
         std::any_of(adapted.begin(), adapted.end(), [](const VocabularySite& site) { return site.embedding; });
}

// Adds the settings that an encoder with a decoder cannot follow, or would ignore.
void add_faults_of_sources(const Job& job, const ModelSpec& model, std::vector<KeyFault>& faults) {
  const std::string what = model.architecture + " is an encoder-decoder";
  if (job.objective.type() != ObjectiveType::sft)
    faults.push_back({"objective.type", what + ", which " + name_of(job.objective.type()) + " does not train; write sft"});
  else if (job.objective.as<LikelihoodConfig>().train_on == TrainOn::all)
    faults.push_back({"objective.train_on", what + ": the encoder's source is read and not predicted; write completion"});
  if (job.model.init == ModelInit::random)
    faults.push_back({"model.init", what + ", whose weights are read from files and not drawn"});
  if (job.data.template_name != "auto") faults.push_back({"data.template", what + ", which reads text as it is; leave it out"});
  if (job.data.overlong == Overlong::split)
    faults.push_back({"data.overlong", "a source and its answer cannot be split into pairs; write truncate, drop or error"});
  if (job.train.neftune_alpha > 0) faults.push_back({"train.neftune_alpha", what + ", and noise is not defined for its two embeddings; write 0"});
  if (saves(job.adapter, embedding_name(model)) ||
      saves(job.adapter, logits_head_name(model)))  // which two stacks read
    faults.push_back({"adapter.modules_to_save", what + " with one shared table of embeddings, which is trained whole only with adapter: none"});
  if (!known_vocabulary_sites(model, job.adapter).empty())
    faults.push_back({"adapter.target_modules", what + " with one shared table of embeddings, which no adapter changes"});
}

// Adds the excluded names that match nothing. They are no faults in a list that comes from
// adapter.init_from: PEFT warns of them.
void add_faults_of_excluded(const Job& job, const ModelSpec& model, std::vector<KeyFault>& faults) {
  const std::vector<ModuleUse> modules = modules_for(model, job.adapter, Experts::in_rows);
  for (const std::string& name : job.adapter.exclude_modules)
    if (!job.adapter.exclude_is_regex && !names_a_linear(modules, name))
      faults.push_back({"adapter.exclude_modules", "\"" + name + "\" matches no linear layer"});
}

void add_faults_of_job(const Job& job, const ModelSpec& model, const Device& device, std::vector<KeyFault>& faults) {
  if (model.reads_source()) add_faults_of_sources(job, model, faults);
  if (job.model.quantization != Quantization::none && job.adapter.type == AdapterType::none)
    faults.push_back({"model.quantization", "quantised weights cannot be trained; add adapter: lora"});
  if (job.model.quantization != Quantization::none && changes_base(job.adapter))
    faults.push_back({"adapter.init",
                      name_of(job.adapter.init) + " subtracts its factors from the base weights, which quantised blocks cannot "
                      "hold; use default, or model.quantization: none"});
  add_fp8_faults(job, model, device, faults);
  const std::vector<VocabularySite> vocabulary = known_vocabulary_sites(model, job.adapter);
  if (job.objective.type() == ObjectiveType::ppo && !vocabulary.empty())
    faults.push_back({"adapter.target_modules", "the value network shares the base's embedding, which an adapter may not change"});
  for (const VocabularySite& site : vocabulary)
    if (site.rank > 0 && !site.embedding && job.adapter.dropout > 0)
      faults.push_back({"adapter.dropout", "has no effect on " + site.module + ", whose adapter is merged into its weights; write 0"});
  const ObjectiveConfig objective = with_defaults(job.objective);
  if (const auto* beside = objective.find<LikelihoodBeside>(); beside && beside->nll_weight == 0.0) {
    if (beside->nll_mean != NllMean::pair) faults.push_back({"objective.nll_mean", "has no effect: objective.nll_weight is 0"});
    if (beside->nll_on != NllOn::completion) faults.push_back({"objective.nll_on", "has no effect: objective.nll_weight is 0"});
  }
  if (job.train.precision == Precision::fp16 && !device.cuda)
    faults.push_back({"train.precision", "fp16 is for GPUs without bf16; a CPU uses bf16 or fp32"});
  if (job.train.precision == Precision::bf16 && device.cuda && device.gpu.compute_capability < 80)
    faults.push_back({"train.precision",
                      device.gpu.name + " has no bf16 (it starts with Ampere); use auto, fp16 or fp32"});
  if (job.train.deterministic && device.cuda && trains_embedding(model, job.adapter))
    faults.push_back({"train.deterministic", "on a GPU the gradients of a trained embedding are added in no fixed order; leave it out, train adapters of "
                                             "the linear layers only, or set hardware.device: cpu"});
  if (const std::string why = activation_offload_refusal(device.cuda); job.train.activation_offloading == Offload::host && !why.empty())
    faults.push_back({"train.activation_offloading", "host: " + why + "; write auto or none"});
  if (const std::string why = offload_refusal(job, device.cuda); job.optimizer.offload == Offload::host && !why.empty())
    faults.push_back({"optimizer.offload", "host: " + why + "; write auto or none"});
}

// Adds a text of which an indexer would choose a part.
void add_fault_of_index(const Setup& plan, std::vector<KeyFault>& faults) {
  const ModelSpec& model = plan.model;
  if (model.index_topk == 0 || plan.train.longest <= model.index_topk) return;
  const std::string most = format_count(model.index_topk);
  faults.push_back({"data.max_length", "an example has " + format_count(plan.train.longest) +
                                           " tokens, and of a text of more than index_topk, " +
                                           most + ", " + model.architecture +
                                           " attends only to those that its indexer chooses, which "
                                           "forge does not compute; set it to " +
                                           std::to_string(model.index_topk) + ", or leave it out"});
}

void add_faults_of_data(const Setup& plan, std::vector<KeyFault>& faults) {
  add_fault_of_index(plan, faults);
  // An encoder-decoder's sources and answers are each held to this limit when they are made.
  if (plan.model.index_topk == 0 && !plan.model.reads_source() &&
      plan.train.longest > plan.model.max_position_embeddings &&
      plan.model.rope.type != RopeType::dynamic)
    faults.push_back({"data.max_length", "an example has " + format_count(plan.train.longest) +
                                             " tokens, the model has " +
                                             format_count(plan.model.max_position_embeddings) +
                                             " positions; set it to that, or leave it out"});
  if (plan.train.examples == 0) faults.push_back({"data.train", "no example is left to train on"});
}

void throw_if_any(std::vector<KeyFault> faults) {
  if (!faults.empty()) throw KeyError(ErrorKind::job, std::move(faults));
}

}  // namespace

void check_job(const Job& job, const ModelSpec& model, const Device& device) {
  std::vector<KeyFault> faults;
  if (!job.adapter.init_from) add_faults_of_excluded(job, model, faults);
  add_faults_of_job(job, model, device, faults);
  throw_if_any(faults);
}

void refuse_contradictions(const Setup& plan) {
  if (plan.model.score_head && !objective_of(plan.job.objective.type()).scores)
    throw KeyError(ErrorKind::job, "model.path",
                   "is a model that gives scores (" + plan.model.architecture + "), which " + name_of(plan.job.objective.type()) +
                       " cannot train",
                   "write objective: reward, or name a language model");
  require_trainable(plan.train, plan.job.objective.type(), "data.train");
  require_trainable(plan.eval, plan.job.objective.type(), "data.eval");
  std::vector<KeyFault> faults;
  const auto origin = plan.origins.find("adapter.exclude_modules");
  if (origin == plan.origins.end() || origin->second.kind != OriginKind::derived)
    add_faults_of_excluded(plan.job, plan.model, faults);
  add_faults_of_job(plan.job, plan.model, plan.device, faults);
  add_faults_of_data(plan, faults);
  throw_if_any(faults);
}

}  // namespace forge
