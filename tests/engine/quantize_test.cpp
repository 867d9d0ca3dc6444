// Compares quantised weights with bitsandbytes' own codes and values
// (tests/parity/make_quantize_goldens.py).
#include "kernels/quantize/quantize.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "core/lib/io/safetensors.h"
#include "core/lib/tensor/counting_allocator.h"
#include "core/model/stored/dequantised_file.h"
#include "core/plan/memory/memory.h"
#include "kernels/linear/linear.h"
#include "kernels/quantize/blocks.h"
#include "tests/test.h"

using namespace forge;

namespace {

const std::string kGoldens = std::string(FORGE_SOURCE_DIR) + "/tests/engine/goldens/quantize.safetensors";
const char* const kCases[] = {"normal",        "many_blocks",    "odd_tail",    "short",
                              "tail_of_zeros", "tail_on_limits", "heavy_tails", "hard"};

struct Format {
  const char* name;
  QuantizeOptions options;
};
const Format kFormats[] = {{"nf4", {QuantizedFormat::nf4, false}},
                           {"nf4.nested", {QuantizedFormat::nf4, true}},
                           {"fp4", {QuantizedFormat::fp4, false}},
                           {"fp4.nested", {QuantizedFormat::fp4, true}},
                           {"int8", {QuantizedFormat::int8, false}}};

// Returns the values of a golden as fp32, whatever its type.
at::Tensor golden(const TensorFile& file, const std::string& name) {
  int64_t index = file.find(name);
  INFO(name);
  REQUIRE(index >= 0);
  const TensorInfo& info = file.tensors()[static_cast<size_t>(index)];
  at::Tensor values = at::empty(info.shape, at::kFloat);
  file.read_f32(static_cast<size_t>(index), values.data_ptr<float>());
  return values;
}

bool same(const at::Tensor& a, const at::Tensor& b) { return at::equal(a.to(at::kFloat), b); }

}  // namespace

TEST_CASE("blocks that a file holds are taken code by code, nested or decoded as is asked") {
  const std::string path = std::string(FORGE_SOURCE_DIR) + "/tests/parity/goldens/stored-bnb-4bit";
  const auto file = dequantised(open_safetensors(path + ".safetensors"));
  const auto expected = open_safetensors(path + "-expected.safetensors");
  int kept = 0;
  for (size_t i = 0; i < file->tensors().size(); ++i) {
    const TensorInfo& tensor = file->tensors()[i];
    INFO(tensor.name);
    const std::optional<BookBlocks> blocks = file->book_blocks(i);
    REQUIRE(blocks.has_value() == (tensor.name != "norm.weight"));
    if (!blocks) continue;
    const QuantizedFormat format = blocks->nf4 ? QuantizedFormat::nf4 : QuantizedFormat::fp4;
    const QuantizedFormat other = blocks->nf4 ? QuantizedFormat::fp4 : QuantizedFormat::nf4;
    CHECK_FALSE(taken(*blocks, tensor.shape[0], tensor.shape[1], {other, false}));
    for (const bool nested : {false, true}) {
      const auto weight = taken(*blocks, tensor.shape[0], tensor.shape[1], {format, nested});
      REQUIRE(weight.has_value() == (blocks->block == kQuantizedBlock));
      if (!weight) continue;
      CHECK(weight->nested() == nested);
      const at::Tensor values = dequantize(*weight, tensor.dtype == DType::bf16  ? at::kBFloat16
                                                    : tensor.dtype == DType::f16 ? at::kHalf
                                                                                 : at::kFloat)
                                    .to(at::kFloat);
      const at::Tensor want = golden(*expected, tensor.name);
      if (blocks->nested() || !nested) CHECK(at::equal(values, want));
      if (!blocks->nested() && nested) CHECK(at::allclose(values, want, 0.02, 1e-3));
      kept += blocks->nested() && nested;
    }
  }
  CHECK(kept == 4);
}

TEST_CASE("the code books are bitsandbytes'") {
  auto file = open_safetensors(kGoldens);
  auto check = [&](const char* name, const auto& book) {
    at::Tensor expected = golden(*file, name);
    REQUIRE(expected.numel() == static_cast<int64_t>(book.size()));
    for (size_t i = 0; i < book.size(); ++i)
      CHECK(book[i] == expected[static_cast<int64_t>(i)].item<float>());
  };
  check("book.nf4", nf4_book());
  check("book.fp4", fp4_book());
  check("book.int8", dynamic_book());
}

TEST_CASE("codes, absmax and values are bit-equal to bitsandbytes'") {
  at::set_num_threads(2);
  auto file = open_safetensors(kGoldens);
  for (const char* name : kCases)
    for (const Format& format : kFormats) {
      const std::string prefix = std::string(name) + "." + format.name;
      INFO(prefix);
      QuantizedWeight weight = quantize(golden(*file, std::string(name) + ".input"), format.options);
      CHECK(same(weight.codes, golden(*file, prefix + ".codes")));
      CHECK(same(weight.absmax, golden(*file, prefix + ".absmax")));
      CHECK(weight.nested() == format.options.nested);
      if (weight.nested()) {
        CHECK(same(weight.absmax_scale, golden(*file, prefix + ".scale")));
        CHECK(weight.absmax_mean == golden(*file, prefix + ".mean").item<float>());
      }
      at::Tensor expected = golden(*file, prefix + ".values");
      for (c10::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
        at::Tensor values = dequantize(weight, type);
        CHECK(values.scalar_type() == type);
        CHECK(at::equal(values.narrow(0, 0, expected.size(0)), expected.to(type)));
        CHECK(at::equal(dequantize_composed(weight, type), values));
      }
    }
}

TEST_CASE("codes do not depend on the number of threads") {
  at::manual_seed(4);
  at::Tensor weight = at::randn({700, 300}) * at::rand({700, 1});
  for (const Format& format : kFormats) {
    INFO(format.name);
    at::set_num_threads(1);
    QuantizedWeight one = quantize(weight, format.options);
    at::Tensor values = dequantize(one, at::kBFloat16);
    at::set_num_threads(2);
    QuantizedWeight two = quantize(weight, format.options);
    CHECK(at::equal(one.codes, two.codes));
    CHECK(at::equal(one.absmax, two.absmax));
    CHECK(one.absmax_mean == two.absmax_mean);
    CHECK(at::equal(values, dequantize(two, at::kBFloat16)));
  }
}

TEST_CASE("a weight in fp8 has LibTorch's values times a scale a row") {
  at::manual_seed(6);
  at::Tensor weight = at::randn({96, 160}) * at::exp2(at::randint(-30, 30, {96, 1}).to(at::kFloat));
  weight[5].zero_();
  const at::Tensor largest = weight.abs().amax(1, /*keepdim=*/true), factor = (448 / largest).masked_fill(largest == 0, 0);
  const at::Tensor scale = (largest / 448).masked_fill(largest == 0, 1), values = (weight * factor).to(at::kFloat8_e4m3fn).to(at::kFloat) * scale;
  const QuantizedWeight quantized = quantize(weight, {QuantizedFormat::fp8, false});
  for (const c10::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    CHECK(at::equal(dequantize(quantized, type), values.to(type)));
    CHECK(at::equal(dequantize_composed(quantized, type), values.to(type)));
  }
  at::set_num_threads(1);
  CHECK(at::equal(quantize(weight, {QuantizedFormat::fp8, false}).codes, quantized.codes));
}

TEST_CASE("a quantised weight takes the bytes that the plan counts") {
  install_counting_allocator();
  const std::pair<Quantization, QuantizeOptions> kinds[] = {
      {Quantization::nf4, {QuantizedFormat::nf4, false}},
      {Quantization::nf4, {QuantizedFormat::nf4, true}},
      {Quantization::fp4, {QuantizedFormat::fp4, true}},
      {Quantization::int8, {QuantizedFormat::int8, false}},
      {Quantization::fp8, {QuantizedFormat::fp8, false}}};
  const double bits[] = {4.5, 4.127, 4.127, 8.5, 8.0156};
  at::Tensor weight = at::randn({1024, 2048});
  for (size_t i = 0; i < std::size(kinds); ++i) {
    const auto& [quantization, options] = kinds[i];
    const int64_t before = allocator_stats().live_bytes;
    QuantizedWeight quantized = quantize(weight, options);
    const int64_t bytes = allocator_stats().live_bytes - before;
    // The plan counts the mean of absmax, four bytes that are in the struct.
    CHECK(bytes + (options.nested ? 4 : 0) == quantized_bytes(weight.size(0), weight.numel(), quantization, options.nested));
    CHECK(8.0 * static_cast<double>(bytes) / static_cast<double>(weight.numel()) ==
          Approx(bits[i]).margin(5e-4));
  }
}

TEST_CASE("a weight that is not finite is noticed") {
  at::Tensor weight = at::randn({70, 3000});
  CHECK(all_finite(weight));
  for (double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    at::Tensor broken = weight.clone();
    broken[69][2999] = bad;
    CHECK_FALSE(all_finite(broken));
  }
  weight.fill_(3e38);
  CHECK(all_finite(weight));
}

TEST_CASE("a quantised linear layer is the linear layer of its dequantised weight, gradients included") {
  const c10::ScalarType type = GENERATE(at::kFloat, at::kBFloat16);
  const bool dora = GENERATE(false, true), bias = GENERATE(false, true);
  at::manual_seed(6);
  auto leaf = [&](at::IntArrayRef shape) { return at::randn(shape).to(type).requires_grad_(true); };
  LinearSpec spec{.lora_a = leaf({4, 96}), .lora_b = leaf({80, 4}), .scale = 0.5};
  if (bias) spec.bias = at::randn({80}).to(type);
  if (dora) spec.magnitude = leaf({80});
  LinearSpec plain = spec;
  spec.quantized = quantize(at::randn({80, 96}), {QuantizedFormat::nf4, true});
  plain.weight = dequantize(spec.quantized, type);
  at::Tensor x = leaf({9, 96}), cotangent = at::randn({9, 80}).to(type);
  auto gradients = [&](const LinearSpec& which) {
    std::vector<at::Tensor> inputs{x, which.lora_a, which.lora_b};
    if (dora) inputs.push_back(which.magnitude);
    at::Tensor y = linear(which, x, nullptr);
    std::vector<at::Tensor> results = torch::autograd::grad({y}, inputs, {cotangent});
    results.push_back(y.detach());
    return results;
  };
  std::vector<at::Tensor> quantized = gradients(spec), expected = gradients(plain);
  for (size_t i = 0; i < expected.size(); ++i) CHECK(at::equal(quantized[i], expected[i]));
}

TEST_CASE("the graph of a quantised linear layer does not hold the dequantised weight") {
  install_counting_allocator();
  LinearSpec spec;
  spec.quantized = quantize(at::randn({512, 512}), {QuantizedFormat::nf4, false});
  at::Tensor x = at::randn({4, 512}).requires_grad_(true);
  const int64_t before = allocator_stats().live_bytes;
  at::Tensor y = linear(spec, x, nullptr);
  CHECK(y.requires_grad());
  CHECK(allocator_stats().live_bytes - before == 4 * 512 * 4);
  c10::NoGradGuard no_grad;
  CHECK_FALSE(linear(spec, x, nullptr).requires_grad());
}
