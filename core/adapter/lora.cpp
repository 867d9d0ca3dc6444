#include "core/adapter/lora.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <cmath>

#include "core/base/error.h"
#include "core/base/random.h"

namespace forge {
namespace {

template <class Draw>
void fill(at::Tensor master, Draw draw) {
  at::Tensor values = at::empty(master.sizes(), at::kFloat);
  float* out = values.data_ptr<float>();
  at::parallel_for(0, values.numel(), 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = static_cast<float>(draw(static_cast<uint64_t>(i)));
  });
  master.copy_(values);
}

// A = √S Vᵀ, B = U √S / scale of the first `rank` singular triples, so that scale · B A is the principal
// part.
std::pair<at::Tensor, at::Tensor> principal_factors(const at::Tensor& weight, const AdapterSite& site) {
  auto [u, s, vt] = at::linalg_svd(weight.to(at::kFloat), /*full_matrices=*/false);
  at::Tensor root = (s.narrow(0, 0, site.rank) / site.scale).sqrt();
  return {(root.unsqueeze(1) * vt.narrow(0, 0, site.rank)).contiguous(),
          (u.narrow(1, 0, site.rank) * root).contiguous()};
}

Trainable& part(TrainableSet& trainables, const AdapterSite& site, const char* suffix) {
  Trainable* item = trainables.find(site.adapter + suffix);
  FORGE_CHECK(item, "the parameter list lacks " << site.adapter << suffix);
  return *item;
}

}  // namespace

void attach_adapter(Model& model, TrainableSet& trainables, const std::vector<AdapterSite>& sites,
                    const AdapterConfig& adapter) {
  for (const AdapterSite& site : sites) {
    LinearSpec* linear = find_linear(model, site.module);
    FORGE_CHECK(linear, "no linear layer " << site.module);
    linear->lora_a = part(trainables, site, ".lora_A.weight").leaf;
    linear->lora_b = part(trainables, site, ".lora_B.weight").leaf;
    if (adapter.use_dora) linear->magnitude = part(trainables, site, ".lora_magnitude_vector").leaf;
    linear->scale = site.scale;
    linear->dropout = adapter.dropout;
    linear->dropout_stream = stream_of("dropout/" + site.module);
  }
}

ResidualInit initialize_adapter(Model& model, TrainableSet& trainables, const std::vector<AdapterSite>& sites,
                                const AdapterConfig& adapter, int64_t seed) {
  c10::NoGradGuard no_grad;
  ResidualInit residual;
  uint64_t key = static_cast<uint64_t>(seed);
  for (const AdapterSite& site : sites) {
    at::Tensor a = part(trainables, site, ".lora_A.weight").master,
               b = part(trainables, site, ".lora_B.weight").master;
    const LinearSpec& linear = *find_linear(model, site.module);
    uint64_t stream = stream_of("lora_A/" + site.module);
    switch (adapter.init) {
      case LoraInit::standard: {
        double bound = 1 / std::sqrt(static_cast<double>(site.in_features));
        fill(a, [&](uint64_t i) { return (2 * uniform(key, stream, i) - 1) * bound; });
        break;
      }
      case LoraInit::gaussian:
        fill(a, [&](uint64_t i) { return normal(key, stream, i) / static_cast<double>(site.rank); });
        break;
      case LoraInit::pissa: {
        FORGE_CHECK(linear.weight.defined(),
                    "pissa on a quantised weight, which the plan refuses: " << site.module);
        auto factors = principal_factors(linear.weight, site);
        a.copy_(factors.first);
        b.copy_(factors.second);
        residual.factors[site.module] = factors;
        break;
      }
    }
    // The norm of the full weight: with PiSSA, too, W + scale · B A is the model's original weight.
    if (adapter.use_dora)
      part(trainables, site, ".lora_magnitude_vector")
          .master.copy_(at::linalg_vector_norm(base_weight(linear, model.type).to(at::kFloat), 2, {1}));
  }
  return residual;
}

void subtract_residual(Model& model, const std::vector<AdapterSite>& sites, const ResidualInit& init) {
  c10::NoGradGuard no_grad;
  for (const AdapterSite& site : sites) {
    auto factors = init.factors.find(site.module);
    if (factors == init.factors.end()) continue;
    at::Tensor& weight = find_linear(model, site.module)->weight;
    at::Tensor principal = at::mm(factors->second.second, factors->second.first).mul_(site.scale);
    weight.copy_(weight.to(at::kFloat) - principal.to(weight.device()));
  }
}

}  // namespace forge
