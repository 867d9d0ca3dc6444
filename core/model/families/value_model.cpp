#include "core/model/families/value_model.h"

#include "core/model/families/modules.h"

namespace forge {

ValueModel value_model(const ModelSpec& spec, const Job& job, Experts experts) {
  ValueModel value{.spec = with_score_head(spec), .adapter = job.adapter};
  value.adapter.init = LoraInit::standard;
  value.adapter.init_from.reset();
  value.adapter.modules_to_save.clear();
  value.adapter.trainable_token_indices.clear();
  if (value.adapter.type == AdapterType::lora) {
    value.adapter.modules_to_save = {kScoreModule};
    value.sites = adapter_sites(value.spec, value.adapter, experts);
  }
  value.parameters = run_parameters(value.spec, value.adapter, job.model.quantization, experts);
  value.layout = trained_layout(value.parameters, job.optimizer);
  return value;
}

}  // namespace forge
