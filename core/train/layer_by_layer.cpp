#include "core/train/layer_by_layer.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <set>
#include <string>

#include "core/model/families/modules.h"
#include "core/model/families/step.h"
#include "core/model/forward.h"
#include "kernels/lm_head/lm_head.h"

namespace forge {
namespace {

// Returns the tensors of a range of ops.
std::vector<Parameter> tensors_of(const Graph& list, size_t begin, size_t end, const std::vector<Parameter>& all) {
  std::set<std::string> names;
  for (size_t i = begin; i < end; ++i)
    for (size_t m = 0; m < list.ops[i].modules.size(); ++m) {
      const ModuleUse& module = list.module(list.ops[i], m);
      names.insert(weight_name(module));
      names.insert(bias_name(module));
    }
  std::vector<Parameter> found;
  for (const Parameter& parameter : all)
    if (names.count(parameter.name)) found.push_back(parameter);
  return found;
}

// Returns, by value, the last op that reads it.
std::vector<size_t> last_readers(const Graph& list) {
  std::vector<size_t> last(list.values.size(), 0);
  for (size_t i = 0; i < list.ops.size(); ++i)
    for (ValueId in : list.ops[i].in) last[static_cast<size_t>(in)] = i;
  return last;
}

class Pass {
 public:
  Pass(const TensorFile& file, Model& model, Residual residual, const std::vector<BatchTensors>& batches)
      : file_(file),
        model_(model),
        all_(base_parameters(model.spec)),
        list_(forward_list({model.spec, {}, {}, residual})),
        modules_(bind_modules(list_.modules, model, nullptr)),
        last_(last_readers(list_)) {
    for (const BatchTensors& batch : batches) runs_.push_back({list_, model_, modules_, batch, packed_attend(batch)});
  }

  // Computes everything before the head.
  void layers(const StopFlag& stop) {
    const size_t head = list_.ops.size() - 1;
    for (size_t begin = 0, end = 0; begin < head; begin = end) {
      stop.interrupt_if_requested();
      while (end < head && list_.ops[end].layer == list_.ops[begin].layer) ++end;
      const std::vector<Parameter> parameters = tensors_of(list_, begin, end, all_);
      load_weights(model_, file_, parameters);
      for (ForwardRun& run : runs_) pass(run, begin, end);
      for (const Parameter& parameter : parameters) *find_weight(model_, parameter.name) = at::Tensor();
    }
  }

  std::vector<at::Tensor> head() {
    const std::string name = model_.spec.tie_word_embeddings ? embedding_name(model_.spec) : head_name(model_.spec);
    for (const Parameter& parameter : all_)
      if (parameter.name == name || (model_.spec.head_bias && parameter.name == head_bias_name(model_.spec)))
        load_weights(model_, file_, {parameter});
    const at::Tensor weight = *find_weight(model_, name);
    std::vector<at::Tensor> logps;
    for (ForwardRun& run : runs_) {
      const at::Tensor rows = run.values[static_cast<size_t>(list_.ops.back().in[0])];
      logps.push_back(head_forward(rows, weight, run.batch.loss_targets, {.logp = true}, {.softcap = model_.spec.logit_softcap, .bias = model_.head_bias}).logp.cpu());
    }
    return logps;
  }

 private:
  void pass(ForwardRun& run, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      run_ops(run, {i});
      for (ValueId in : list_.ops[i].in)
        if (last_[static_cast<size_t>(in)] == i) run.values[static_cast<size_t>(in)] = at::Tensor();
    }
  }

  const TensorFile& file_;
  Model& model_;
  const std::vector<Parameter> all_;
  const Graph list_;
  const std::vector<BoundModule> modules_;  // by place in the model: what is loaded there is bound
  const std::vector<size_t> last_;
  std::vector<ForwardRun> runs_;
};

}  // namespace

std::vector<at::Tensor> logps_layer_by_layer(const TensorFile& file, const ModelSpec& spec, Residual residual, c10::ScalarType type, c10::Device device,
                                             const std::vector<BatchTensors>& batches, const StopFlag& stop) {
  c10::NoGradGuard no_grad;
  Model model = empty_model(spec, type, device);
  Pass pass(file, model, residual, batches);
  pass.layers(stop);
  return pass.head();
}

}  // namespace forge
