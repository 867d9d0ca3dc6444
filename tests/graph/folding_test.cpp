// Tests what is folded into the products of a step: adapters, gates and branches of the stream; and
// what the backward writes with them.
#include <algorithm>
#include <numeric>

#include "core/model/families/step.h"
#include "core/model/graph/check.h"
#include "core/model/graph/fold_residuals.h"
#include "core/model/graph/print.h"
#include "kernels/activation/activation_op.h"
#include "kernels/embedding/embedding_op.h"
#include "kernels/layer_norm/layer_norm_op.h"
#include "kernels/linear/linear_op.h"
#include "kernels/lora/folded_op.h"
#include "kernels/lora/gated_op.h"
#include "kernels/lora/lora_op.h"
#include "kernels/rms_norm/norm_op.h"
#include "kernels/rows/rows_op.h"
#include "kernels/swiglu/glu_op.h"
#include "providers/fused/fused_plan.h"
#include "providers/fused/gpu_launches.h"
#include "tests/graph/lists_of.h"
#include "tests/test.h"

namespace forge {

TEST_CASE("adapters are folded where nothing lies between them and their weights") {
  const Graph list = step(lora(), Checkpointing::none, true);
  for (const Op& op : list.ops)
    if (op.kind == &ops::linear || op.kind == &ops::linear_input_gradient) CHECK(op.attributes.folded);
  CHECK(ops_of(list, &ops::adapter_gradient) == 0);
  CHECK(ops_of(list, &ops::adapter_input_gradient) == ops_of(list, &ops::adapter_sums));
  AdapterConfig dropout = lora(), dora = lora();
  dropout.dropout = 0.1, dora.use_dora = true;
  for (const AdapterConfig& other : {dropout, dora}) CHECK(ops_of(step(other, Checkpointing::none, true), &ops::adapter_sums) == 0);
}

TEST_CASE("a gated activation takes the folded adapters beside it along") {
  const auto of = [](const AdapterConfig& adapter) { return step(adapter, Checkpointing::none, true); };
  const auto modules = [](const Graph& list) {  // of the backward, in the second layer
    std::vector<std::string> names;
    for (const Op& op : list.ops)
      if (op.kind == &ops::glu_adapters_backward && op.layer == 1)
        for (size_t i = 0; i < op.modules.size(); ++i) names.push_back(list.module(op, i).path.substr(sizeof "model.layers.1.mlp"));
    return names;
  };
  const Graph all = of(lora());
  const auto layers = static_cast<size_t>(tiny().num_layers);
  CHECK(ops_of(all, &ops::glu_sums) == layers);
  CHECK(ops_of(all, &ops::glu) + ops_of(all, &ops::glu_backward) == 0);
  CHECK(ops_of(all, &ops::adapter_sums) == 3 * layers);  // of q, k and v; o; gate and up
  CHECK(ops_of(all, &ops::adapter_sums_gradient) == 3 * layers);  // of q, k and v; o; down
  CHECK(modules(all) == std::vector<std::string>{"down_proj", "gate_proj", "up_proj"});
  CHECK(modules(of(lora({"down_proj"}))) == std::vector<std::string>{"down_proj"});
  const Graph makers = of(lora({"gate_proj", "up_proj"})), one = of(lora({"up_proj"}));
  CHECK(modules(makers) == std::vector<std::string>{"gate_proj", "up_proj"});
  CHECK(ops_of(makers, &ops::glu_sums) == 0);
  CHECK(modules(one) == modules(makers));  // its neighbour has rank 0
  CHECK(modules(of(lora({"q_proj"}))).empty());
  AdapterConfig wide = lora();
  for (const auto& [rank, sums, gradients] : {std::tuple{32, layers, layers}, {33, layers, size_t{0}}, {64, layers, size_t{0}}, {65, size_t{0}, size_t{0}}}) {
    wide.rank = rank;
    INFO("rank " << rank);
    CHECK(ops_of(of(wide), &ops::glu_sums) == sums);
    CHECK(ops_of(of(wide), &ops::glu_adapters_backward) == gradients);
  }
  CHECK(ops_of(step(lora(), Checkpointing::none), &ops::glu_sums) == 0);  // where adapters are not folded
}

TEST_CASE("what a folded gate has used up may not be read behind it") {
  Graph list = step(lora(), Checkpointing::none, true);
  const auto at = std::find_if(list.ops.begin(), list.ops.end(), [](const Op& op) { return op.kind == &ops::glu_adapters_backward; });
  at[1].in.push_back(at->in[0]);
  REQUIRE(step_faults(list).size() == 1);
  CHECK(step_faults(list)[0].find("is read before it is written") != std::string::npos);
}

namespace {

bool adds_stream(const Op& op) { return op.kind == &ops::linear && op.attributes.accumulate; }

// The numbers of such products in a forward list and in its recomputation.
struct Added {
  int64_t forward = 0, again = 0;
};
Added added(const Graph& list) {
  const auto forward = list.ops.begin() + static_cast<std::ptrdiff_t>(list.forward_ops);
  return {std::count_if(list.ops.begin(), forward, adds_stream), std::count_if(forward, list.ops.end(), adds_stream)};
}

}  // namespace

TEST_CASE("a branch's last product adds the stream") {
  const int64_t layers = tiny().num_layers;
  AdapterConfig dropout = lora(), dora = lora(), query = lora({"q_proj"}), query_dropout = query;
  dropout.dropout = query_dropout.dropout = 0.1, dora.use_dora = true;
  const Graph list = step(lora(), Checkpointing::none, true);
  INFO(print(list, kSizes, 50, nullptr));
  CHECK(added(list).forward == 2 * layers);
  CHECK(ops_of(list, &ops::add) + ops_of(list, &ops::add_norm) == 0);
  const auto first = std::find_if(list.ops.begin(), list.ops.end(), adds_stream);
  CHECK(list.module(*first).path == "model.layers.0.self_attn.o_proj");
  CHECK(list.value(first->in.back()).name == "embedded");
  CHECK(list.value(first->out[0]).name == "layers.0.stream");
  CHECK(first[1].kind == &ops::norm);
  CHECK(first[1].in[0] == first->out[0]);
  CHECK(list.ops[list.forward_ops].kind == &ops::norm_backward);
  // Adapters beside a product add to its result after it; products without an adapter need no
  // folding.
  CHECK(added(step(dropout, Checkpointing::none, true)).forward == 0);
  CHECK(added(step(dora, Checkpointing::none, true)).forward == 0);
  CHECK(added(step(query_dropout, Checkpointing::none, true)).forward == 2 * layers);
  CHECK(added(step(AdapterConfig{}, Checkpointing::none, true)).forward == 2 * layers);
  CHECK(added(step(lora(), Checkpointing::none)).forward == 0);
  CHECK(added(step_of(tiny(), lora(), Checkpointing::none, true, false, Residual::fp32)).forward == 0);
  StepShape evaluated{tiny()};
  CHECK(added(StepLists(evaluated).evaluation({.folded_residuals = true})).forward == 2 * layers);
  CHECK(added(StepLists(evaluated).evaluation({})).forward == 0);
  // A layer's own sum is computed again where everything is. Its last sum is the next layer's
  // input, which is kept.
  CHECK(added(step(lora(), Checkpointing::full, true)).again == layers);
}

TEST_CASE("which families' branches end in a product that adds the stream") {
  const auto of = [](const char* name) { return added(step_of(variant(name), lora(), Checkpointing::none, true)).forward; };
  const auto layers = [](const char* name) { return variant(name).num_layers; };
  for (const char* name : {"qwen3", "phi3", "gemma", "smollm3", "falcon", "cohere"}) CHECK(of(name) == 2 * layers(name));
  for (const char* name : {"gemma2", "olmo2", "granite"}) CHECK(of(name) == 0);  // a norm or a factor lies between
  for (const char* name : {"gpt2", "starcoder2"}) CHECK(of(name) == 0);          // biases
  CHECK(of("qwen3-moe") == layers("qwen3-moe"));                                 // attention's
  // These are attention's, the first layer's own, and the shared expert's addition to the others.
  CHECK(of("deepseek-v3") == 2 * layers("deepseek-v3"));
}

namespace {

// Returns the folded list of a stream, a branch of it, and `rest`, which uses both.
template <class Rest>
Graph branch(bool bias, Rest rest) {
  Recorder g({.all = true});
  const ValueId h = embed(g, "embed", 50, 8), x = norm(g, h, "n", 1e-6), y = linear(g, x, {"w", 8, bias});
  rest(g, h, x, y);
  Graph list = g.take();
  list.forward_ops = list.ops.size();
  fold_residuals(list);
  return list;
}

}  // namespace

TEST_CASE("a branch that anything else reads, or whose stream comes later, is not added by its product") {
  const auto sum = [](Recorder& g, ValueId h, ValueId, ValueId y) { add(g, h, y); };
  const Graph plain = branch(false, sum);
  CHECK(added(plain).forward == 1);
  CHECK(plain.ops.size() == 3);
  CHECK(plain.forward_ops == 3);
  CHECK(step_faults(plain).empty());
  CHECK(added(branch(true, sum)).forward == 0);
  CHECK(added(branch(false, [](Recorder& g, ValueId h, ValueId, ValueId y) { norm(g, y, "m", 1e-6), add(g, h, y); })).forward == 0);
  CHECK(added(branch(false, [](Recorder& g, ValueId, ValueId, ValueId y) { add(g, y, y); })).forward == 0);
  CHECK(added(branch(false, [](Recorder& g, ValueId, ValueId x, ValueId y) { add(g, activation(g, x, ActivationKind::gelu), y); })).forward == 0);
  CHECK(added(branch(false, [](Recorder& g, ValueId h, ValueId, ValueId y) { add(g, y, h); })).forward == 0);
  const auto column = [](Recorder& g, ValueId h, ValueId x, ValueId) { add(g, h, linear(g, x, {{"v", 8}, {"u", 8}})[0]); };
  CHECK(added(branch(false, column)).forward == 0);
  // The product of the second of two branches adds the first sum, which must be complete by then.
  const auto both = [](Recorder& g, ValueId h, ValueId x, ValueId y) { add(g, add(g, h, y), linear(g, x, {"v", 8})); };
  const auto late = [](Recorder& g, ValueId h, ValueId x, ValueId y) {
    const ValueId z = linear(g, x, {"v", 8});
    add(g, add(g, h, z), y);
  };
  const auto inner = [](Recorder& g, ValueId h, ValueId x, ValueId y) { add(g, h, add(g, y, linear(g, x, {"v", 8}))); };
  CHECK(added(branch(false, inner)).forward == 1);  // it cannot add both
  CHECK(added(branch(false, both)).forward == 2);
  CHECK(added(branch(false, late)).forward == 1);
  CHECK(step_faults(branch(false, late)).empty());
}

TEST_CASE("a stream that is overwritten before a product adds it, or is of another type, is a fault") {
  const Graph list = step(lora(), Checkpointing::none, true);
  const auto at = static_cast<size_t>(std::find_if(list.ops.begin(), list.ops.end(), adds_stream) - list.ops.begin());
  Graph typed = list, late = list;
  typed.buffers[static_cast<size_t>(list.value(list.ops[at].in.back()).buffer)].type = ValueType::fp32;
  Graph two = list;
  two.ops[at].in.push_back(two.ops[at].in.back());
  CHECK_THAT(step_faults(two).at(0), Catch::Contains("(linear): no kernel takes"));
  CHECK_THAT(step_faults(typed).at(0), Catch::Contains("(linear): no kernel takes the types"));
  Op over{.kind = &ops::scale, .in = {list.ops[at].in.back()}};
  const Value stream = list.value(over.in[0]);
  over.out = {late.add_value("scaled", stream.buffer, stream.column, stream.width)};
  late.ops.insert(late.ops.begin() + static_cast<std::ptrdiff_t>(at), over);
  CHECK_THAT(step_faults(late).at(0), Catch::Contains("(linear): embedded is overwritten by scaled before it is read"));
  Layout layout = lay_out(list, kSizes, no_workspace);
  layout.offsets[static_cast<size_t>(list.value(list.ops[at].out[0]).buffer)] = layout.offsets[static_cast<size_t>(stream.buffer)];
  CHECK_FALSE(layout_faults(list, layout, kSizes).empty());
}

TEST_CASE("a product that adds the stream reads it") {
  const StepSizes gpu{.tokens = 100, .targets = 60, .compute_bytes = 2, .gpu = true};
  for (const AdapterConfig& adapter : {lora(), AdapterConfig{}, lora({"q_proj"})}) {
    const Graph list = step(adapter, Checkpointing::none, true);
    const Op& product = *std::find_if(list.ops.begin(), list.ops.end(), adds_stream);
    Op alone = product;
    alone.in.pop_back(), alone.attributes.accumulate = false;
    const double stream = 100.0 * 2 * static_cast<double>(tiny().hidden_size);
    for (const GpuStep& held : {GpuStep{}, GpuStep{.in_blocks = true}})
      CHECK(gpu_launches(list, product, gpu, held).back().bytes - gpu_launches(list, alone, gpu, held).back().bytes == stream);
    CHECK(cost_of(list, product, gpu, 50).bytes - cost_of(list, alone, gpu, 50).bytes == stream);
    CHECK(fused_workspace(list, product, gpu) == 4 * static_cast<int64_t>(stream));  // fp32, twice
    CHECK(fused_workspace(list, alone, gpu) == 0);
  }
}

TEST_CASE("products that add the stream need no larger arena on a GPU") {
  const std::string name = GENERATE("llama-3.1-8b", "llama-2-7b", "tinyllama-1.1b");
  const auto policy = GENERATE(Checkpointing::none, Checkpointing::selective, Checkpointing::full);
  const int64_t tokens = GENERATE(200, 1000, 4096);
  const StepSizes gpu{.tokens = tokens, .targets = tokens - 20, .compute_bytes = 2, .gpu = true};
  const ModelSpec spec = read_model_spec(std::string(FORGE_SOURCE_DIR) + "/tests/plan/models/" + name);
  const auto bytes = [&](bool residuals) {
    StepShape shape{spec, module_training(spec, lora(), adapter_sites(spec, lora()))};
    shape.recompute = recomputed_by(shape, policy);
    shape.folded_adapters = true, shape.folded_residuals = residuals;
    return std::pair{lay_out(training_step(shape), gpu, fused_workspace).bytes, lay_out(evaluation_step(shape), gpu, fused_workspace).bytes};
  };
  INFO(name);
  CHECK(bytes(true).first <= bytes(false).first);
  CHECK(bytes(true).second <= bytes(false).second);
}

TEST_CASE("what only gradients of weights read again comes out of the backward") {
  for (const AdapterConfig& adapter : {AdapterConfig{}, lora()}) {
    const Graph list = step(adapter, Checkpointing::none, true);
    const auto repeated = [&](OpKind kind) {
      return std::count_if(list.ops.begin() + static_cast<std::ptrdiff_t>(list.forward_ops), list.ops.end(),
                           [&](const Op& op) { return op.kind == kind; });
    };
    // Below an adapter of the first layer nothing is trained, so its norm has no backward.
    CHECK(repeated(&ops::norm) + repeated(&ops::add_norm) == (adapter.type == AdapterType::lora));
    CHECK(repeated(&ops::glu) + repeated(&ops::glu_sums) == 0);
  }
}

TEST_CASE("norms whose results are kept are not made again") {
  const std::string name = GENERATE("qwen3", "gemma2", "olmo2", "gpt2", "cohere", "falcon", "deepseek-v3");
  const auto policy = GENERATE(Checkpointing::none, Checkpointing::full);
  const Graph list = step_of(variant(name), lora(), policy, true, true), without = step_of(variant(name), lora(), policy, true);
  INFO(name << "\n" << print(list, kSizes, 50, nullptr));
  CHECK(step_faults(list) == std::vector<std::string>{});
  const Layout layout = lay_out(list, kSizes, no_workspace);
  CHECK(layout_faults(list, layout, kSizes) == std::vector<std::string>{});
  CHECK(layout.kept_bytes >= lay_out(without, kSizes, no_workspace).kept_bytes);
  if (policy == Checkpointing::full) return;  // full recomputes them like all other values
  for (size_t i = list.forward_ops; i < list.ops.size(); ++i) {
    const Op& op = list.ops[i];
    CHECK((op.kind != &ops::norm && op.kind != &ops::add_norm && op.kind != &ops::layer_norm));
    if (op.kind == &ops::norm_backward) CHECK(op.out.size() == 1);
  }
}

}  // namespace forge
