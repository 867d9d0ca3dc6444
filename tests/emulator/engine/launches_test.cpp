// Checks that the device is given exactly the launches that a plan lists for a GPU: op by op, by
// name, in the engine's own provider. Also checks their number and bytes in a layer of a real
// model.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/graph/op_record.h"
#include "core/job/names.h"
#include "core/lib/base/file.h"
#include "core/lib/base/text.h"
#include "core/lib/io/model_file.h"
#include "core/lib/tensor/device.h"
#include "core/model/adapter/lora.h"
#include "core/model/families/adapter_sites.h"
#include "core/model/families/config_spec.h"
#include "core/model/families/drawn_weights.h"
#include "core/train/network.h"
#include "core/train/optim/optimizer.h"
#include "core/train/step_shares.h"
#include "kernels/device/device_of.h"
#include "kernels/linear/linear_op.h"
#include "providers/engine_providers.h"
#include "providers/fused/gpu_launches.h"
#include "tests/emulator/engine/recording.h"
#include "tests/emulator/grid.h"
#include "tests/emulator/memory.h"
#include "tests/engine/batch_of.h"
#include "tests/test.h"

using namespace forge;

namespace {

const std::string kFixtures = std::string(FORGE_SOURCE_DIR) + "/tests/fixtures/";

AdapterConfig lora(int64_t rank, double dropout = 0) {
  AdapterConfig adapter;
  adapter.type = AdapterType::lora;
  adapter.rank = rank;
  adapter.dropout = dropout;
  return adapter;
}

// Returns a spec with sides that are multiples of 32, which products in 8 bits need.
ModelSpec wide() {
  Json config = parse_json(read_file(kFixtures + "tiny-llama/config.json", 1 << 20, ErrorKind::environment), "config.json", ErrorKind::environment);
  config.update({{"hidden_size", 64}, {"num_attention_heads", 4}, {"num_key_value_heads", 2}, {"head_dim", 16}, {"intermediate_size", 96}, {"initializer_range", 0.2}});
  return model_spec_from_config(config, "wide");
}
ModelSpec spec_of(Quantization quantization) { return quantization == Quantization::fp8 ? wide() : read_model_spec(kFixtures + "tiny-llama"); }
std::unique_ptr<TensorFile> weights_of(const ModelSpec& spec, Quantization quantization) {
  return quantization == Quantization::fp8 ? drawn_weights(spec, 1) : open_model(kFixtures + "tiny-llama");
}

// A tiny Llama with its provider on the emulated GPU, and a micro-batch.
struct Run {
  ModelSpec spec;
  c10::Device gpu = cuda::tensor_device(0);
  Model model;
  TrainableSet trainables;
  std::unique_ptr<StepProvider> provider;
  BatchTensors batch;

  Run(const AdapterConfig& adapter, Checkpointing checkpointing, c10::ScalarType type, const Job& job, bool folded,
      Quantization quantization = Quantization::none, bool kept_norms = false, bool offloaded = false)
      : spec(spec_of(quantization)),
        model(load_model(spec, *weights_of(spec, quantization), type, gpu, storage_of(adapter, folded, quantization))),
        trainables(trained_layout(run_parameters(spec, adapter, quantization)), type, gpu, true) {
    const auto sites = adapter_sites(spec, adapter);
    for (Trainable& item : trainables.items())
      if (at::Tensor* slot = find_weight(model, base_name(item.parameter))) {
        item.master.copy_(*slot);
        *slot = item.leaf;
      }
    if (adapter.type == AdapterType::lora) {
      attach_adapter(model, trainables, sites, adapter);
      initialize_adapter(model, trainables, sites, adapter, 1);
    }
    trainables.publish();
    trainables.zero_grad();
    StepOptions options = step_options(spec, job, sites, checkpointing);
    options.shape.fused_head = true;
    options.shape.folded_adapters = folded;
    options.shape.kept_norms = kept_norms;
    options.shape.offloaded = offloaded;
    batch = to_tensors(batch_of(2, 9, spec.vocab_size), spec, type, gpu);
    batch.training = true;
    options.training = {batch.tokens, batch.loss_positions.size(0)};
    provider = make_step_provider("fused", model, trainables, options);
  }
  BaseStorage storage_of(const AdapterConfig& adapter, bool folded, Quantization quantization) const {
    BaseStorage storage;
    storage.quantization = quantization;
    if (quantization != Quantization::none) storage.parameters = run_parameters(spec, adapter, quantization);
    if (folded) storage.folded = module_training(spec, adapter, adapter_sites(spec, adapter));
    return storage;
  }
};

StepSizes sizes_of(const StepSpan& span, int64_t compute_bytes) {
  return {.tokens = span.tokens,
          .targets = span.targets,
          .compute_bytes = compute_bytes,
          .gpu = true,
          .multiprocessors = emulator::multiprocessors(),
          .deterministic = at::globalContext().deterministicAlgorithms()};
}

// Returns the ops whose launches are not the listed ones: "op: given …; listed …".
std::vector<std::string> differences(const AdapterConfig& adapter, Checkpointing checkpointing,
                                     c10::ScalarType type, bool folded, bool kept_norms = false, bool offloaded = false) {
  c10::NoGradGuard no_grad;
  Job job;
  job.adapter = adapter;
  if (type == at::kHalf) job.train.residual = Residual::fp32;
  Run run(adapter, checkpointing, type, job, folded, Quantization::none, kept_norms, offloaded);
  std::vector<std::string> faults;
  size_t seen = 0, ops = 0;
  run.provider->watch([&](const StepSpan& span) {
    std::vector<std::string> given = emulator::works_from(seen);
    seen = emulator::works(), ++ops;
    if (ops == 1)  // the batch is brought in front of the first op
      given.erase(given.begin(), std::find_if(given.begin(), given.end(), [](const std::string& name) {
                    return name.starts_with("embed");
                  }));
    const StepSizes sizes = sizes_of(span, static_cast<int64_t>(c10::elementSize(type)));
    std::vector<std::string> listed;
    for (const GpuLaunch& launch : gpu_launches(*span.graph, *span.op, sizes)) listed.push_back(launch.name);
    if (given != listed)
      faults.push_back(std::string(span.name) + ": given " + join(given, ", ") + "; listed " +
                       join(listed, ", "));
  });
  seen = emulator::works();
  const HeadRows head = run.provider->forward(run.batch, true);
  device_of(run.gpu).clear(head.d_rows.data_ptr(), static_cast<int64_t>(head.d_rows.nbytes()));
  seen = emulator::works();
  run.provider->backward(head.d_rows, run.batch);
  CHECK(ops > 30);
  return faults;
}

std::string said(const std::vector<std::string>& faults) { return join(faults, "\n"); }

}  // namespace

TEST_CASE("the device is given what is listed, op by op") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  const auto checkpointing = GENERATE(Checkpointing::none, Checkpointing::full);
  for (const AdapterConfig& adapter : {AdapterConfig{}, lora(4), lora(4, 0.1)})
    for (const bool folded : {false, true}) {
      INFO("rank " << adapter.rank << ", dropout " << adapter.dropout << (folded ? ", folded" : ""));
      CHECK(said(differences(adapter, checkpointing, type, folded)) == "");
      CHECK(said(differences(adapter, checkpointing, type, folded, false, /*offloaded=*/true)) == "");
      if (folded) CHECK(said(differences(adapter, checkpointing, type, folded, /*kept_norms=*/true)) == "");
    }
}

TEST_CASE("the device is given what is listed for a deterministic step, which clears its sums of d q") {
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  const std::string faults = said(differences(lora(4), Checkpointing::none, at::kBFloat16, true));
  at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false);
  CHECK(faults == "");
}

// Weights are transposed ahead, so that an op's launches are those of the whole list.
TEST_CASE("the device is given what is listed for a base in fp8") {
  c10::NoGradGuard no_grad;
  Job job;
  job.model.quantization = Quantization::fp8;
  for (const std::vector<std::string>& targets : {std::vector<std::string>{"all-linear"}, {"q_proj", "down_proj"}}) {
    job.adapter = lora(4);
    job.adapter.target_modules = targets;
    Run run(job.adapter, Checkpointing::none, at::kBFloat16, job, false, Quantization::fp8);
    std::map<std::string, int64_t> given, listed;
    int64_t products = 0;
    run.provider->watch([&](const StepSpan& span) {
      for (const GpuLaunch& launch : gpu_launches(*span.graph, *span.op, sizes_of(span, 2))) ++listed[launch.name];
      products += span.op->kind == &ops::linear || span.op->kind == &ops::linear_input_gradient;
    });
    const size_t begin = emulator::works();
    const HeadRows head = run.provider->forward(run.batch, true);
    device_of(run.gpu).clear(head.d_rows.data_ptr(), static_cast<int64_t>(head.d_rows.nbytes()));
    run.provider->backward(head.d_rows, run.batch);
    for (const std::string& name : emulator::works_from(begin)) ++given[name];
    CHECK(products > 12);
    for (const char* name : {"quantize_rows", "scaled_product", "transpose_bytes", "add_rows", "product", "dequantize"}) {
      INFO(name);
      CHECK(given[name] == listed[name]);
    }
    CHECK(given["dequantize"] == 0);
    // Rows of q, k and v are quantised once.
    CHECK(given["scaled_product"] > given["quantize_rows"]);
  }
}

TEST_CASE("each op of a watched step lies between two events of its own, in order, and shares add up to the step") {
  c10::NoGradGuard no_grad;
  Job job;
  job.adapter = lora(4);
  Run run(job.adapter, Checkpointing::none, at::kBFloat16, job, true);
  Network network(run.model, run.trainables, *run.provider, job);
  Optimizer optimizer(job.optimizer, 1, run.trainables);
  ComputeDevice& device = device_of(run.gpu);
  std::vector<StepSpan> spans;
  network.watch([&](const StepSpan& span) { spans.push_back(span); });
  device.forget_moments();
  const size_t first = emulator::works_at_moments().size();
  const Moment begin = device.mark();
  network.forward_backward(run.batch, {30, 1});
  network.measure(optimizer, 1, 1);
  network.update(optimizer, 1e-3, 1);
  const Moment end = device.mark();

  const std::vector<size_t> marks(emulator::works_at_moments().begin() + static_cast<std::ptrdiff_t>(first), emulator::works_at_moments().end());
  REQUIRE(spans.size() > 40);
  REQUIRE(marks.size() == 2 * spans.size() + 2);
  StepShares shares(Precision::bf16, device_of(run.gpu));
  double before = 0;
  for (size_t i = 0; i < spans.size(); ++i) {
    const StepSpan& span = spans[i];
    INFO("op " << i << ", " << span.name);
    CHECK(span.begin.number == static_cast<int64_t>(2 * i + 1));
    CHECK(span.end.number == static_cast<int64_t>(2 * i + 2));
    std::vector<std::string> given = emulator::works_from(marks[2 * i + 1]);
    given.resize(marks[2 * i + 2] - marks[2 * i + 1]);
    const bool in_list = span.tokens > 0 && std::string(span.name) != "head";
    std::vector<std::string> listed;
    if (in_list)
      for (const GpuLaunch& launch : gpu_launches(*span.graph, *span.op, sizes_of(span, 2))) listed.push_back(launch.name);
    CHECK((in_list ? given == listed : !given.empty()));
    const double since = device.seconds(begin, span.begin), seconds = device.seconds(span.begin, span.end);
    CHECK(seconds >= 0);
    CHECK(since >= before);
    before = since + seconds - 1e-9;
    shares.add(span, seconds);
  }
  const double step = device.seconds(begin, end);
  double sum = 0, bytes = 0, listed_bytes = 0;
  const Json event = shares.event(step, 1);
  for (const Json& op : event.at("ops")) sum += op.at("seconds").get<double>(), bytes += op.at("bytes").get<double>();
  for (const StepSpan& span : spans)
    for (const GpuLaunch& launch : gpu_launches(*span.graph, *span.op, sizes_of(span, 2))) listed_bytes += launch.bytes;
  CHECK(bytes == listed_bytes);
  CHECK(event.at("ops").back().at("name") == "between ops");
  CHECK(std::abs(sum / step - 1) < 1e-9);
}

// Counts waits for work that the host does not know to be done, from the first micro-batch to the
// update.
TEST_CASE("the host waits once in a step") {
  c10::NoGradGuard no_grad;
  Job job;
  job.adapter = lora(4, 0.1);
  job.train.precision = Precision::bf16;
  Run run(job.adapter, Checkpointing::none, at::kBFloat16, job, false);
  Network network(run.model, run.trainables, *run.provider, job);
  Optimizer optimizer(job.optimizer, 1, run.trainables);
  const auto step = [&](int64_t number) {
    run.trainables.zero_grad();
    std::vector<BatchLoss> losses;
    for (int i = 0; i < 3; ++i) losses.push_back(network.forward_backward(run.batch, {30, 1}));
    const bool finite = network.measure(optimizer, 1, 1).finite();
    double sum = 0;
    for (const BatchLoss& loss : losses) sum += loss.loss + loss.later();
    network.update(optimizer, 1e-3, number);
    CHECK(finite);
    return sum;
  };
  const double before = step(1);
  for (int64_t number = 2; number < 4; ++number) {
    const size_t begin = emulator::works();
    const double now = step(number);
    const std::vector<std::string> given = emulator::works_from(begin);
    CHECK(std::count(given.begin(), given.end(), "the host waits") == 1);
    CHECK(now < before);
  }
}

// Results are equal bit for bit, also where updates replay. states() waits for the kernel: without
// that the emulator throws.
TEST_CASE("an optimizer whose state lies in the host's memory updates as one on the card") {
  c10::NoGradGuard no_grad;
  cuda::tensor_device(0);
  const std::vector<Parameter> parameters{
      {.name = "w", .shape = {4'500}, .role = Role::linear, .trainable = true, .weight_decay = true},
      {.name = "n", .shape = {40}, .role = Role::norm, .trainable = true}};
  for (const OptimizerType type : {OptimizerType::adamw, OptimizerType::adamw_8bit, OptimizerType::lion}) {
    CAPTURE(name_of(type));
    std::vector<at::Tensor> results;
    for (const Offload offload : {Offload::none, Offload::host}) {
      const OptimizerConfig config{.type = type, .weight_decay = 0.1, .offload = offload};
      TrainableSet set(trained_layout(parameters, config), at::kBFloat16, cuda::tensor_device(0), true);
      Optimizer optimizer(config, 1, set);
      set.zero_grad();
      const at::Tensor workspace = at::empty({optimizer.norm_workspace()}, at::kByte);
      for (int64_t number = 1; number <= 4; ++number) {
        at::manual_seed(static_cast<uint64_t>(number));
        set.grad().copy_(at::randn(set.grad().sizes()));
        optimizer.measure(1, 1, workspace.data_ptr());
        optimizer.update(1e-2, number);
      }
      device_of(set.master().device()).synchronize(Stream::compute);
      results.push_back(set.master().clone());
      results.push_back(set.copy().clone());
      for (const at::Tensor& state : optimizer.states()) {
        if (state.numel() == 0) continue;
        results.push_back(state.clone());
        CHECK((emulator::find_allocation(state.data_ptr())->name == "optimizer state") == (offload == Offload::host));
      }
    }
    const size_t half = results.size() / 2;
    for (size_t i = 0; i < half; ++i) CHECK(at::equal(results[i], results[half + i]));
  }
}

namespace {

// Runs two micro-batches of QLoRA forward and backward, the second one with a stream that does not
// wait.
void quantized_pass(size_t deaf, std::vector<std::string>* names = nullptr) {
  c10::NoGradGuard no_grad;
  Job job;
  job.adapter = lora(4);
  Run run(job.adapter, Checkpointing::none, at::kBFloat16, job, false, Quantization::nf4);
  const auto micro_batch = [&] {
    const HeadRows head = run.provider->forward(run.batch, true);
    device_of(run.gpu).clear(head.d_rows.data_ptr(), static_cast<int64_t>(head.d_rows.nbytes()));
    run.provider->backward(head.d_rows, run.batch);
  };
  micro_batch();
  const size_t begin = emulator::works();
  emulator::deaf_stream() = deaf;
  try {
    micro_batch();
  } catch (...) {
    emulator::deaf_stream() = 0;
    for (Stream stream : {Stream::compute, Stream::weights, Stream::copy}) device_of(run.gpu).synchronize(stream);
    device_of(run.gpu).take_sayings();  // a capture was refused for the same reason
    throw;
  }
  emulator::deaf_stream() = 0;
  if (names) *names = emulator::works_from(begin);
}

}  // namespace

TEST_CASE("weights are decoded ahead of their products, and what does not wait for them is named") {
  std::vector<std::string> names;
  quantized_pass(0, &names);
  // Seven weights of two layers, forward and for d x, except for d x of the first layer's q, k and
  // v. Each is decoded after the product before the last.
  CHECK(std::count(names.begin(), names.end(), "dequantize") > 20);
  const auto product = std::find(names.begin(), names.end(), "product");
  CHECK(std::count(names.begin(), product, "dequantize") == 2);
  CHECK_THROWS_WITH(quantized_pass(1), Catch::Contains("what dequantize writes"));
  CHECK_THROWS_WITH(quantized_pass(2), Catch::Contains("dequantize") && Catch::Contains("reads, and no wait orders them"));
}

namespace {

// A micro-batch of one shape: the rows that the head reads, the gradients that follow, and the
// number of replayed graphs.
struct Pass {
  at::Tensor rows;
  std::vector<at::Tensor> gradients;
  int64_t replays = 0;
};
Pass pass_of(Run& run, const BatchTensors& batch) {
  const size_t begin = emulator::works();
  run.trainables.zero_grad();
  const HeadRows head = run.provider->forward(batch, true);
  Pass pass{.rows = head.rows.clone()};
  const at::Tensor d_rows = head.rows.mul(0.01);
  device_of(run.gpu).write(head.d_rows.data_ptr(), d_rows.data_ptr(), static_cast<int64_t>(d_rows.nbytes()));
  run.provider->backward(head.d_rows, batch);
  for (Trainable& item : run.trainables.items()) pass.gradients.push_back(item.grad.clone());
  const std::vector<std::string> names = emulator::works_from(begin);
  pass.replays = std::count(names.begin(), names.end(), "a graph is replayed");
  return pass;
}
bool equal(const Pass& a, const Pass& b) {
  bool same = a.rows.equal(b.rows);
  for (size_t i = 0; i < a.gradients.size(); ++i) same &= a.gradients[i].equal(b.gradients[i]);
  return same;
}

}  // namespace

TEST_CASE("micro-batches of one shape replay as graphs, which see other ids, weights and gradients") {
  c10::NoGradGuard no_grad;
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const bool folded = GENERATE(false, true);
  Job job;
  job.adapter = lora(4);
  Run run(job.adapter, Checkpointing::none, type, job, folded);
  const auto other_ids = [&] {
    BatchTensors other = run.batch;
    other.token_ids = other.token_ids.flip(0).contiguous();
    return other;
  };
  const Pass first = pass_of(run, run.batch), captured = pass_of(run, other_ids()), replayed = pass_of(run, run.batch);
  CHECK(first.replays == 0);
  CHECK(captured.replays == 2);
  CHECK(replayed.replays == 2);
  CHECK(equal(replayed, first));
  CHECK_FALSE(equal(captured, first));
  for (Trainable& item : run.trainables.items()) item.master.add_(0.05);
  run.trainables.publish();
  const Pass updated = pass_of(run, run.batch);
  CHECK(updated.replays == 2 + folded);  // the adapters' new places, too
  CHECK_FALSE(equal(updated, first));
  run.provider->watch([](const StepSpan&) {});  // op by op
  const Pass queued = pass_of(run, run.batch);
  CHECK(queued.replays == 0);
  CHECK(equal(updated, queued));
}

TEST_CASE("a replayed dropout drops by its own step's number") {
  c10::NoGradGuard no_grad;
  Job job;
  job.adapter = lora(4, 0.3);
  Run run(job.adapter, Checkpointing::none, at::kFloat, job, false);
  const auto of_step = [&](int64_t step) {
    BatchTensors batch = run.batch;
    batch.rows.step = step;
    return pass_of(run, batch);
  };
  const Pass first = of_step(1), again = of_step(1), next = of_step(2);
  CHECK(again.replays == 2);
  CHECK(equal(first, again));
  CHECK(next.replays == 2);
  CHECK_FALSE(equal(first, next));
  run.provider->watch([](const StepSpan&) {});  // op by op
  CHECK(equal(next, of_step(2)));
}

TEST_CASE("weights that are decoded ahead on another stream are decoded in the graphs, too") {
  c10::NoGradGuard no_grad;
  Job job;
  job.adapter = lora(4);
  Run run(job.adapter, Checkpointing::none, at::kBFloat16, job, false, Quantization::nf4);
  const Pass first = pass_of(run, run.batch), captured = pass_of(run, run.batch), replayed = pass_of(run, run.batch);
  CHECK(first.replays == 0);
  CHECK(captured.replays == 2);
  CHECK(replayed.replays == 2);
  CHECK(equal(first, captured));
  CHECK(equal(first, replayed));
  CHECK(device_of(run.gpu).take_sayings().empty());
}

namespace {

// Runs steps of two micro-batches of one shape, each with its own rate, loss scale and divisor.
// Returns the weights after each.
std::vector<at::Tensor> steps(OptimizerType optimizer, bool graphs, int64_t* queued_apart = nullptr) {
  Job job;
  job.adapter = lora(4, 0.2);
  job.optimizer.type = optimizer;
  Run run(job.adapter, Checkpointing::none, at::kFloat, job, false);
  Network network(run.model, run.trainables, *run.provider, job);
  Optimizer rule(job.optimizer, 4, run.trainables);
  if (!graphs) emulator::refuses_captures() = true;
  std::vector<at::Tensor> weights;
  for (int64_t number = 1; number <= 4; ++number) {
    const size_t begin = emulator::works();
    const double scale = std::ldexp(1.0, static_cast<int>(number)), tokens = 20 + 5.0 * static_cast<double>(number);
    run.batch.rows.step = number;
    run.trainables.zero_grad();
    for (int i = 0; i < 2; ++i) network.forward_backward(run.batch, {tokens, scale});
    network.measure(rule, 1 / scale, 0.02);
    network.update(rule, 1e-2 / static_cast<double>(number), number);
    weights.push_back(run.trainables.master().clone());
    const std::vector<std::string> given = emulator::works_from(begin);
    if (queued_apart && number == 4) *queued_apart = std::count(given.begin(), given.end(), "a graph is replayed");
  }
  emulator::refuses_captures() = false;
  const std::vector<std::string> said = device_of(run.gpu).take_sayings();
  if (graphs) CHECK(said.empty());
  return weights;
}

}  // namespace

TEST_CASE("the head, the norm and the update are replayed with each step's own numbers") {
  c10::NoGradGuard no_grad;
  const auto type = GENERATE(OptimizerType::adamw, OptimizerType::adamw_8bit, OptimizerType::lion);
  int64_t replays = 0;
  const std::vector<at::Tensor> replayed = steps(type, true, &replays), queued = steps(type, false);
  CHECK(replays == 2 * 3 + 2);  // forward, head and backward of each micro-batch; norm and update
  for (size_t i = 0; i < queued.size(); ++i) {
    INFO("step " << i + 1);
    CHECK(replayed[i].equal(queued[i]));
    if (i > 0) CHECK_FALSE(replayed[i].equal(replayed[i - 1]));
  }
}

namespace {

// A layer of Llama 3.1 8B with LoRA in 16 bits, forward and backward; prints each op.
struct LayerCost {
  int64_t launches = 0;
  double weight_bytes = 0, kilobytes = 0, beside = 0;  // the last two a token; beside the frozen products: what the wanted 700 KB count (docs/gpu-backlog.md)
};
LayerCost layer_cost(Residual residual, bool kept_norms) {
  const ModelSpec spec = read_model_spec(std::string(FORGE_SOURCE_DIR) + "/tests/plan/models/llama-3.1-8b");
  const AdapterConfig adapter = lora(16);
  StepShape shape{spec, module_training(spec, adapter, adapter_sites(spec, adapter)), {}, residual};
  shape.recompute = recomputed_by(shape, Checkpointing::none);
  shape.folded_adapters = shape.folded_residuals = true;
  shape.kept_norms = kept_norms;
  const StepSizes sizes{4096, 4096, 2, 1, true};
  const Graph step = training_step(shape);
  LayerCost cost;
  for (const Op& op : step.ops) {
    if (op.layer != 5) continue;
    int64_t launches = 0;
    double kilobytes = 0;
    for (const GpuLaunch& launch : gpu_launches(step, op, sizes)) {
      launches += launch.launches, kilobytes += (launch.bytes - launch.weight_bytes) / 4096 / 1000;
      cost.weight_bytes += launch.weight_bytes;
    }
    std::string modules;
    for (size_t i = 0; i < op.modules.size(); ++i) modules += " " + step.module(op, i).path.substr(sizeof "model.layers.5");
    std::printf("%3lld launches %6.1f KB  %s%s\n", static_cast<long long>(launches), kilobytes, name_of(op.kind), modules.c_str());
    cost.launches += launches, cost.kilobytes += kilobytes;
    if (op.kind != &ops::linear && op.kind != &ops::linear_input_gradient) cost.beside += kilobytes;
  }
  std::printf(
      "a layer forward and backward%s: %lld launches, %.0f KB a token and %.0f MB of weights and their "
      "gradients; beside the frozen products %.0f KB a token\n",
      kept_norms ? ", norms kept" : "", static_cast<long long>(cost.launches), cost.kilobytes, cost.weight_bytes / 1e6, cost.beside);
  return cost;
}

}  // namespace

TEST_CASE("launches and bytes of a layer of Llama 3.1 8B, LoRA in bf16") {
  const bool kept_norms = GENERATE(false, true);
  const LayerCost layer = layer_cost(Residual::compute, kept_norms);
  // The goal is 40 launches and 700 KB beside the products. The numbers may only fall.
  CHECK(layer.launches <= 30);
  CHECK(layer.kilobytes <= (kept_norms ? 944.5 : 961));
  CHECK(layer.beside <= (kept_norms ? 649 : 665.5));
}

// No product adds an fp32 stream to its result. In the narrow case two products read the stream.
TEST_CASE("an fp32 stream beside fp16 costs a layer two casts and the wider passes") {
  const bool kept_norms = GENERATE(false, true);
  const LayerCost narrow = layer_cost(Residual::compute, kept_norms), wide = layer_cost(Residual::fp32, kept_norms);
  CHECK(wide.launches == narrow.launches + 2);
  const double stream = 4096 * 2 / 1000.0;
  CHECK(wide.beside - narrow.beside == Approx(wide.kilobytes - narrow.kilobytes + 2 * stream));
  CHECK(wide.kilobytes <= narrow.kilobytes + 140 + stream);
}
