#include "core/model/adapter/lora.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <optional>

#include "core/lib/base/error.h"
#include "core/lib/base/random.h"
#include "core/model/adapter/first_values.h"

namespace forge {
namespace {

// Returns A = √(S / scale) Vᵀ and B = U √(S / scale) of the first `rank` singular triples, so that
// scale · B A is the principal part.
std::pair<at::Tensor, at::Tensor> principal_factors(const at::Tensor& weight, const AdapterSite& site) {
  auto [u, s, vt] = at::linalg_svd(weight.to(at::kFloat), /*full_matrices=*/false);
  at::Tensor root = (s.narrow(0, 0, site.rank) / site.scale).sqrt();
  return {(root.unsqueeze(1) * vt.narrow(0, 0, site.rank)).contiguous(),
          (u.narrow(1, 0, site.rank) * root).contiguous()};
}

// Returns the first `rank` rows of R and columns of Q, W = Q R. The scale is not divided out, so
// that scale · B A is subtracted from the base.
std::pair<at::Tensor, at::Tensor> orthogonal_factors(const at::Tensor& weight, const AdapterSite& site) {
  auto [q, r] = at::linalg_qr(weight.to(at::kFloat));
  return {r.narrow(0, 0, site.rank).contiguous(), q.narrow(1, 0, site.rank).contiguous()};
}

// Returns the error of a weight's quantisation: the original minus the dequantised blocks. [out,
// in], fp32
at::Tensor quantisation_error(const LinearSpec& linear, const AdapterSite& site, const TensorFile& original) {
  const int64_t index = original.find(site.module + ".weight");
  FORGE_CHECK(index >= 0 && linear.quantized.defined(), "no quantised weight " << site.module);
  at::Tensor exact = at::empty({site.out_features, site.in_features}, at::kFloat);
  original.read_f32(static_cast<size_t>(index), exact.data_ptr<float>());
  return exact.sub_(base_weight(linear, at::kFloat).to(at::kCPU, at::kFloat));
}

}  // namespace

void attach_adapter(Model& model, TrainableSet& trainables, const std::vector<AdapterSite>& sites,
                    const AdapterConfig& adapter) {
  for (const AdapterSite& site : sites) {
    LinearSpec* linear = find_linear(model, site.module);
    FORGE_CHECK(linear, "no linear layer " << site.module);
    linear->lora_a = trainables.at(site.adapter + ".lora_A.weight").leaf;
    linear->lora_b = trainables.at(site.adapter + ".lora_B.weight").leaf;
    if (adapter.use_dora)
      linear->magnitude = trainables.at(site.adapter + ".lora_magnitude_vector").leaf;
    linear->scale = site.scale;
    linear->dropout = adapter.dropout;
    linear->dropout_stream = stream_of("dropout/" + site.module);
  }
}

ResidualInit initialize_adapter(Model& model, TrainableSet& trainables, const std::vector<AdapterSite>& sites,
                                const AdapterConfig& adapter, int64_t seed, const TensorFile* original) {
  c10::NoGradGuard no_grad;
  ResidualInit residual;
  for (const AdapterSite& site : sites) {
    at::Tensor a = trainables.at(site.adapter + ".lora_A.weight").master,
               b = trainables.at(site.adapter + ".lora_B.weight").master;
    const LinearSpec& linear = *find_linear(model, site.module);
    const std::string stream = "lora_A/" + site.module;
    std::optional<std::pair<at::Tensor, at::Tensor>> factors;  // the first A and B
    switch (adapter.init) {
      case LoraInit::standard:
      case LoraInit::eva:  // until start_from_inputs() has read the layers' inputs
        draw_uniform(a, seed, stream, 1 / std::sqrt(static_cast<double>(site.in_features)));
        break;
      case LoraInit::gaussian:
        draw_normal(a, seed, stream, 1 / static_cast<double>(site.rank));
        break;
      case LoraInit::loftq:
        // One step, as in PEFT's replace_lora_weights_loftq for bitsandbytes. The factors divide by
        // the adapter's scale, which PEFT leaves out: there a scale other than 1 corrects too much
        // or too little.
        factors = principal_factors(quantisation_error(linear, site, *original), site);
        break;
      case LoraInit::pissa:
      case LoraInit::olora:
        FORGE_CHECK(linear.weight.defined(), "a start out of a quantised weight, which the plan refuses: " << site.module);
        factors = adapter.init == LoraInit::pissa ? principal_factors(linear.weight, site)
                                                  : orthogonal_factors(linear.weight, site);
        residual.factors[site.module] = *factors;
        break;
    }
    if (factors) a.copy_(factors->first), b.copy_(factors->second);
    // DoRA's magnitude is the norm of the full weight: with these starts, too, W + scale · B A is
    // the model's original weight.
    if (adapter.use_dora)
      trainables.at(site.adapter + ".lora_magnitude_vector")
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
