// Compares 8-bit AdamW with fifty updates of bitsandbytes (tests/parity/make_state_goldens.py).
#include <ATen/ATen.h>

#include "core/lib/io/safetensors.h"
#include "kernels/optimizer/optimizer_args.h"
#include "tests/test.h"

using namespace forge;

namespace {

const std::string kGolden = std::string(FORGE_SOURCE_DIR) + "/tests/kernels/goldens/adamw_8bit.safetensors";

at::Tensor golden(const std::string& name) {
  static const auto file = open_safetensors(kGolden);
  int64_t index = file->find(name);
  INFO(name);
  REQUIRE(index >= 0);
  at::Tensor values = at::empty(file->tensors()[static_cast<size_t>(index)].shape, at::kFloat);
  file->read_f32(static_cast<size_t>(index), values.data_ptr<float>());
  return values;
}

at::Tensor map_tensor(bool with_sign) {
  return at::from_blob(const_cast<float*>(state_map(with_sign)), {256}, at::kFloat);
}

}  // namespace

TEST_CASE("the maps of 8-bit state are bitsandbytes'") {
  CHECK(at::equal(map_tensor(true), golden("map.signed")));
  CHECK(at::equal(map_tensor(false), golden("map.unsigned")));
}

TEST_CASE("8-bit AdamW follows bitsandbytes for fifty updates") {
  const CpuLevel level = GENERATE(from_range(cpu_levels()));
  INFO(name_of(level));
  at::Tensor weight = golden("weight.0").clone(), grads = golden("grads");
  const int64_t count = weight.size(0), blocks = (count + kStateBlock - 1) / kStateBlock;
  at::Tensor mean = at::zeros({count}, at::kByte), square = at::zeros({count}, at::kByte);
  at::Tensor mean_absmax = at::zeros({blocks}), square_absmax = at::zeros({blocks}), verdict = at::ones({3});
  int64_t compared = 0;
  for (int64_t step = 1; step <= grads.size(0); ++step) {
    at::Tensor grad = grads[step - 1].contiguous();
    const UpdateNumbers numbers = update_numbers(1e-2, 0.9, 0.999, step);
    adamw_8bit_cpu({.count = count,
                    .weight = weight.data_ptr<float>(),
                    .grad = grad.data_ptr<float>(),
                    .mean = mean.data_ptr<uint8_t>(),
                    .square = square.data_ptr<uint8_t>(),
                    .mean_absmax = mean_absmax.data_ptr<float>(),
                    .square_absmax = square_absmax.data_ptr<float>(),
                    .signed_map = state_map(true),
                    .unsigned_map = state_map(false),
                    .verdict = verdict.data_ptr<float>(),
                    .numbers = &numbers,
                    .weight_decay = 0.1},
                   level);
    if (step != 1 && step != 10 && step != 50) continue;
    INFO("step " << step);
    std::string suffix = "." + std::to_string(step);
    auto apart = [&](const at::Tensor& codes, const std::string& name) {
      return (codes.to(at::kFloat) - golden(name + suffix)).abs();
    };
    // A value near the middle of two entries may be rounded to either: one code, in fewer than one
    // of two hundred.
    for (const auto& [codes, name] : {std::pair(mean, "mean"), std::pair(square, "square")}) {
      CHECK(apart(codes, name).max().item<float>() <= 1);
      CHECK(apart(codes, name).sum().item<float>() <= 5);
    }
    CHECK(at::allclose(mean_absmax, golden("mean_absmax" + suffix), 1e-5, 0));
    CHECK(at::allclose(square_absmax, golden("square_absmax" + suffix), 1e-5, 0));
    CHECK((weight - golden("weight" + suffix)).abs().max().item<float>() < 1e-5);
    ++compared;
  }
  CHECK(compared == 3);
}
