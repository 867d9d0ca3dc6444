#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "core/lib/base/error.h"
#include "core/lib/base/random.h"
#include "tests/kernels/case.h"

namespace forge::kernel_test {
namespace {

template <class Function>
at::Tensor filled(at::IntArrayRef shape, Function function) {
  at::Tensor values = at::empty(shape, at::kDouble);
  double* out = values.data_ptr<double>();
  for (int64_t i = 0; i < values.numel(); ++i) out[i] = function(static_cast<uint64_t>(i));
  return values;
}

double dot(const Tensors& a, const Tensors& b) {
  double total = 0;
  for (const auto& [name, value] : a) total += (value * b.at(name)).sum().item<double>();
  return total;
}

double step_difference(const Forward& forward, Tensors inputs, const Tensors& directions,
                       const Tensors& cotangents, double step) {
  for (const auto& [name, direction] : directions) inputs[name] = inputs[name] + direction * step;
  Tensors outputs = forward(inputs);
  double total = 0;
  for (const auto& [name, cotangent] : cotangents)
    total += (outputs.at(name) * cotangent).sum().item<double>();
  return total;
}

void check_differences(const Forward& forward, const Tensors& inputs, const Tensors& grads,
                       const Tensors& cotangents) {
  Tensors directions;
  for (const auto& [name, grad] : grads)
    directions[name] = normal(grad.sizes(), 77) * inputs.at(name).abs().clamp_min(0.1);
  const double step = 1e-6;
  double expected = dot(directions, grads);
  double found = (step_difference(forward, inputs, directions, cotangents, step) -
                  step_difference(forward, inputs, directions, cotangents, -step)) /
                 (2 * step);
  // Rounding of the difference (1e-16 of the summed outputs over the step) and its third-order
  // term.
  double size = 0;
  Tensors outputs = forward(inputs);
  for (const auto& [name, cotangent] : cotangents)
    size += (outputs.at(name) * cotangent).abs().sum().item<double>();
  for (const auto& [name, direction] : directions)
    size += (direction * grads.at(name)).abs().sum().item<double>();
  if (std::abs(expected - found) > 1e-6 * size + 1e-12)
    throw Error(ErrorKind::internal, "the oracle's gradient is not its finite difference: " +
                                         std::to_string(expected) + " against " + std::to_string(found));
}

}  // namespace

at::Tensor normal(at::IntArrayRef shape, uint64_t seed, double scale) {
  // Cases share their seeds, so each number is drawn only once: drawing took a quarter of the
  // suite's time.
  static std::map<uint64_t, std::vector<double>> drawn;
  std::vector<double>& numbers = drawn[seed];
  const size_t count = static_cast<size_t>(c10::multiply_integers(shape));
  while (numbers.size() < count) numbers.push_back(forge::normal(seed, 1, numbers.size()));
  return filled(shape, [&](uint64_t i) { return scale * numbers[i]; });
}

at::Tensor uniform_values(at::IntArrayRef shape, uint64_t seed, double low, double high) {
  return filled(shape, [&](uint64_t i) { return low + (high - low) * forge::uniform(seed, 2, i); });
}

at::Tensor extreme(at::IntArrayRef shape, uint64_t seed) {
  const double kinds[] = {3e4, 1e-4, 1, 0, -200, 1e-7};
  uint64_t width = static_cast<uint64_t>(std::max<int64_t>(1, shape.empty() ? 1 : shape.back()));
  return filled(shape, [&](uint64_t i) {
    uint64_t kind = i / width % 6;
    return kind == 2 ? (i % 2 ? 1.0 : -1.0) : kinds[kind] * (0.5 + 0.5 * forge::uniform(seed, 3, i));
  });
}

Tensors gradients(const Forward& forward, const Tensors& inputs, const std::vector<std::string>& names,
                  const Tensors& cotangents) {
  Tensors leaves = inputs;
  std::vector<at::Tensor> wanted, outputs, seeds;
  for (const std::string& name : names) {
    leaves[name] = inputs.at(name).detach().clone().requires_grad_(true);
    wanted.push_back(leaves[name]);
  }
  Tensors results = forward(leaves);
  for (const auto& [name, cotangent] : cotangents) {
    outputs.push_back(results.at(name));
    seeds.push_back(cotangent);
  }
  auto found = torch::autograd::grad(outputs, wanted, seeds, /*retain_graph=*/false, /*create_graph=*/false,
                                     /*allow_unused=*/true);
  Tensors grads;
  bool finite = true;
  for (size_t i = 0; i < names.size(); ++i) {
    grads[names[i]] = found[i].defined() ? found[i] : at::zeros_like(wanted[i]);
    finite = finite && at::isfinite(grads[names[i]]).all().item<bool>();
  }
  if (finite && wanted[0].numel() > 0) check_differences(forward, inputs, grads, cotangents);
  return grads;
}

}  // namespace forge::kernel_test
