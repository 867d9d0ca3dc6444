#include "providers/engine_providers.h"

#include <array>

#include "core/base/error.h"
#include "providers/fused/fused.h"
#include "providers/reference/reference.h"

namespace forge {
namespace {

struct Row {
  const char* name;
  std::unique_ptr<LayerProvider> (*make)(const Model&, TrainableSet&, Checkpointing);
};
constexpr std::array kProviders{Row{"fused", &fused_provider}, Row{"reference", &reference_provider}};

}  // namespace

std::unique_ptr<LayerProvider> make_layer_provider(const std::string& name, const Model& model,
                                                   TrainableSet& trainables, Checkpointing checkpointing) {
  for (const Row& row : kProviders)
    if (name == row.name) return row.make(model, trainables, checkpointing);
  FORGE_CHECK(false, "the plan names the provider " << name << ", which this engine does not have");
}

}  // namespace forge
