// Tests the lists of a step: they are sound for every policy and adapter, laid out without overlap,
// and faults in them are detected.
#include <algorithm>
#include <numeric>
#include <set>

#include "core/model/graph/backward.h"
#include "core/model/graph/check.h"
#include "core/model/graph/print.h"
#include "core/model/graph/recompute.h"
#include "kernels/attention/attention_op.h"
#include "kernels/embedding/embedding_op.h"
#include "kernels/linear/linear_op.h"
#include "kernels/lm_head/head_op.h"
#include "kernels/lora/lora_op.h"
#include "kernels/offload/offload_op.h"
#include "kernels/rms_norm/norm_op.h"
#include "kernels/rope/rope_op.h"
#include "kernels/rows/rows_op.h"
#include "tests/graph/lists_of.h"
#include "tests/test.h"

namespace forge {

TEST_CASE("a step is sound under every adapter and policy") {
  AdapterConfig upper = lora({"q_proj", "down_proj"});
  upper.layers_to_transform = {1, 2};
  AdapterConfig saved = lora({"v_proj"});
  saved.modules_to_save = {"input_layernorm", "up_proj", "embed_tokens"};
  const auto policy = GENERATE(Checkpointing::none, Checkpointing::selective, Checkpointing::full);
  AdapterConfig dora = lora(), some_dora = upper;
  dora.use_dora = some_dora.use_dora = true;
  const bool folded = GENERATE(false, true);
  ModelSpec spec = tiny();
  // Spare columns, which forward values have and their gradients do not need, are a fifth of 88:
  // more than the order of placing compensates.
  if (folded) spec.intermediate_size = 512;
  for (const AdapterConfig& adapter : {AdapterConfig{}, lora(), upper, saved, dora, some_dora}) {
    const Graph list = step_of(spec, adapter, policy, folded);
    INFO(print(list, kSizes, 50, nullptr));
    CHECK(step_faults(list) == std::vector<std::string>{});
    const Layout layout = lay_out(list, kSizes, no_workspace);
    CHECK(layout_faults(list, layout, kSizes) == std::vector<std::string>{});
    CHECK(layout.bytes >= layout.kept_bytes + layout.working_bytes);
    CHECK(static_cast<double>(layout.bytes) <
          1.02 * static_cast<double>(layout.kept_bytes + layout.working_bytes));
  }
}

TEST_CASE("a step of every family is sound under every policy") {
  const auto policy = GENERATE(Checkpointing::none, Checkpointing::selective, Checkpointing::full);
  const std::string name = GENERATE(
      "qwen3", "phi3", "mistral-window", "ministral3", "llama4", "llama4-interleaved", "qwen2-window", "gemma2", "gemma", "gemma3", "smollm3", "granite",
      "olmo2", "olmo3", "phi4", "glm", "glm4", "cohere", "cohere2", "starcoder2", "gpt-neox",
      "gpt-neox-sequential", "falcon", "falcon-grouped", "falcon-sequential", "stablelm", "stablelm-parallel",
      "gpt2", "gpt2-untied", "mixtral", "qwen2-moe", "qwen3-moe", "qwen3-moe-sparse", "gpt-oss",
      "gpt-oss-balanced", "deepseek-v2", "deepseek-v2-groups", "deepseek-v3", "deepseek-v3-halves",
      "phi", "phi-tied", "seed-oss", "exaone4", "exaone4-window", "ernie", "hunyuan", "arcee", "olmo",
      "nemotron", "granite4", "opt", "gptj", "falcon-apart", "bloom", "gemma4", "gemma4-untied", "gemma4-moe", "gemma4-moe-untied", "gemma4-shared",
      "glm4-moe", "glm4-moe-groups", "olmoe", "granitemoe", "granitemoe-balanced", "granitemoe-shared", "ernie-moe", "ernie-moe-sparse",
      "minimax-m2", "dots1", "dots1-window", "hunyuan-moe", "deepseek-moe", "flex-olmo", "deepseek-v32", "glm-5", "glm-5-pattern", "qwen3-next", "qwen3-next-mixed", "qwen3-5", "qwen3-5-tied", "qwen3-5-moe",
      "qwen3-5-moe-balanced", "granite4-mamba", "falcon-h1", "falcon-h1-normed", "nemotron-h", "nemotron-3", "nemotron-3-latent", "glm4-lite", "mistral4", "mistral4-groups", "llama4-apart", "mpt-bounds", "granite4-experts", "lfm2", "lfm2-older", "lfm2-moe");
  const bool folded = GENERATE(false, true);
  const Residual residual = GENERATE(Residual::compute, Residual::fp32);
  const bool offloaded = GENERATE(false, true);
  const ModelSpec spec = variant(name);
  for (const AdapterConfig& adapter : {AdapterConfig{}, lora()}) {
    const Graph list = step_of(spec, adapter, policy, folded, false, residual, offloaded);
    INFO(name << "\n" << print(list, kSizes, 50, nullptr));
    if (folded) CHECK(ops_of(list, &ops::adapter_gradient) == 0);
    for (const OpKind kind : {&ops::store, &ops::stored, &ops::load, &ops::loaded}) {
      const auto most = static_cast<size_t>(spec.num_layers - 1);
      // Inputs of layers whose keys later ones attend to may be wanted before those of these.
      const auto least = most - (policy == Checkpointing::none || spec.shared_kv_layers == 0 ? 0 : 2);
      CHECK(ops_of(list, kind) <= (offloaded ? most : 0));
      CHECK(ops_of(list, kind) >= (offloaded ? least : 0));
    }
    CHECK(step_faults(list) == std::vector<std::string>{});
    const Layout layout = lay_out(list, kSizes, no_workspace);
    CHECK(layout_faults(list, layout, kSizes) == std::vector<std::string>{});
  }
}

TEST_CASE("inputs of layers that wait on the host leave two places in the arena") {
  const bool folded = GENERATE(false, true);
  // The products of olmo2 read the stream itself; folded, an adapter's sums are stored after it.
  ModelSpec spec = GENERATE(tiny(), variant("olmo2"));
  spec.num_layers = 12;
  const Graph stays = step_of(spec, lora(), Checkpointing::full, folded),
              moves = step_of(spec, lora(), Checkpointing::full, folded, false, Residual::compute, /*offloaded=*/true);
  INFO(print(moves, kSizes, 50, nullptr));
  const int64_t width = spec.hidden_size + (folded && spec.family == "olmo2" ? 16 : 0);  // three adapters of rank 4, and a gap
  const int64_t input = (kSizes.tokens * width * 4 + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
  const Layout before = lay_out(stays, kSizes, no_workspace), behind = lay_out(moves, kSizes, no_workspace);
  CHECK(moves.ops[moves.forward_ops - 1].kind == &ops::head);
  CHECK(before.host_bytes == 0);
  CHECK(behind.host_bytes == 11 * input);
  CHECK(host_bytes(moves, kSizes) == behind.host_bytes);
  for (size_t slot = 0; slot < 11; ++slot) CHECK(behind.host_offsets[slot] == static_cast<int64_t>(slot) * input);
  // The last layer's input stays; where the backward of one layer is fullest, one more is on its
  // way.
  CHECK(before.kept_bytes - behind.kept_bytes >= 9 * input);
  CHECK(before.bytes - behind.bytes >= 9 * input);
  // Each copy begins a layer before it is waited for.
  const auto at = [&](OpKind kind, int64_t slot) {
    return std::find_if(moves.ops.begin(), moves.ops.end(), [&](const Op& op) { return op.kind == kind && op.attributes.slot == slot; }) - moves.ops.begin();
  };
  const auto layers_between = [&](auto first, auto second) {
    std::set<int64_t> layers;
    for (auto i = first + 1; i < second; ++i) layers.insert(moves.ops[static_cast<size_t>(i)].layer);
    return layers.size();
  };
  for (int64_t slot = 0; slot < 11; ++slot) {
    CHECK(at(&ops::store, slot) < at(&ops::stored, slot));
    CHECK(at(&ops::stored, slot) < static_cast<std::ptrdiff_t>(moves.forward_ops) - 1);
    CHECK(at(&ops::load, slot) >= static_cast<std::ptrdiff_t>(moves.forward_ops));
    CHECK(layers_between(at(&ops::store, slot), at(&ops::stored, slot)) >= 1);
    CHECK(layers_between(at(&ops::load, slot), at(&ops::loaded, slot)) >= 1);
    CHECK(at(&ops::loaded, slot) - at(&ops::load, slot) > 20);
    if (slot > 0) CHECK(at(&ops::load, slot) < at(&ops::load, slot - 1));
  }
}

TEST_CASE("a stream in fp32 is so from the embedding to the final norm and back, and nothing else is") {
  const std::string name = GENERATE("qwen3", "gemma2", "granite", "olmo2", "cohere", "starcoder2", "gpt-neox", "falcon", "gpt2",
                                    "qwen2-moe", "deepseek-v3", "qwen3-next", "qwen3-5", "gemma4");
  const Graph list = step_of(variant(name), AdapterConfig{}, Checkpointing::full, false, false, Residual::fp32);
  INFO(name << "\n" << print(list, kSizes, 50, nullptr));
  const auto is_fp32 = [&](ValueId id) { return list.buffer_of(id).type == ValueType::fp32; };
  size_t additions = 0;
  for (const Op& op : list.ops) {
    if (op.kind == &ops::embed) CHECK(is_fp32(op.out[0]));
    if (op.kind == &ops::embed_backward) CHECK(is_fp32(op.in[0]));
    if (op.kind == &ops::gather || op.kind == &ops::scatter) CHECK((is_fp32(op.in[0]) && is_fp32(op.out[0])));
    if (op.kind == &ops::linear || op.kind == &ops::linear_input_gradient) CHECK_FALSE((is_fp32(op.in[0]) || is_fp32(op.out[0])));
    if (op.kind == &ops::add || op.kind == &ops::add_norm) additions += is_fp32(op.out[0]) && op.layer >= 0;
  }
  // There are two a layer in the forward, and those inside a layer once more where all is computed
  // again.
  CHECK(additions >= static_cast<size_t>(2 * variant(name).num_layers));
}

TEST_CASE("types that no kernel takes are faults") {
  Graph list = step_of(tiny(), AdapterConfig{}, Checkpointing::none, false, false, Residual::fp32);
  REQUIRE(step_faults(list).empty());
  for (const OpKind kind : {&ops::add_norm, &ops::gather, &ops::scatter, &ops::cast, &ops::norm_backward}) {
    Graph broken = list;
    const Op& op = *std::find_if(broken.ops.begin(), broken.ops.end(), [&](const Op& o) { return o.kind == kind; });
    broken.buffers[static_cast<size_t>(broken.value(op.out[0]).buffer)].type = kind == &ops::cast ? ValueType::fp32 : ValueType::compute;
    INFO(name_of(kind));
    REQUIRE_FALSE(step_faults(broken).empty());
    CHECK_THAT(step_faults(broken)[0], Catch::Contains("no kernel takes the types"));
  }
}

TEST_CASE("a sum apart from what it adds to leaves the same to compute again") {
  for (const auto* name : {"qwen3", "gemma2", "granite", "gpt-neox", "starcoder2"}) {
    StepShape narrow{variant(name)}, wide{variant(name), {}, {}, Residual::fp32};
    const auto groups = [](const StepShape& shape) {
      std::map<std::string, std::set<int64_t>> found = recomputed_by(shape, Checkpointing::full).layers;
      return found;
    };
    INFO(name);
    CHECK(groups(wide) == groups(narrow));
    const auto units = recompute_units(forward_list(wide), kSizes, 50);
    CHECK(units.size() == recompute_units(forward_list(narrow), kSizes, 50).size());
  }
}

TEST_CASE("a window takes from attention's cost what it hides") {
  const auto flops = [](int64_t window, double length) {
    Recorder g;
    const Heads heads{2, 2, 8};
    ValueId h = embed(g, "embed", 50, 16);
    attention(g, h, h, h, heads, {.window = window});
    const Graph list = g.take();
    return cost_of(list, list.ops.back(), kSizes, length).flops;
  };
  // The first 10 of 100 tokens attend to 1 … 10 tokens, the others to 10 each.
  CHECK(flops(10, 100) == Approx(flops(0, 100) * (100 * 10 - 10 * 10 / 2) / (100 * 100 / 2)));
  CHECK(flops(100, 100) == flops(0, 100));
  CHECK(flops(500, 100) == flops(0, 100));
}

TEST_CASE("more recomputation takes less memory and more ops") {
  const Graph none = step(lora(), Checkpointing::none), some = step(lora(), Checkpointing::selective),
              full = step(lora(), Checkpointing::full);
  CHECK(none.ops.size() < some.ops.size());
  CHECK(some.ops.size() < full.ops.size());
  const auto bytes = [](const Graph& list) { return lay_out(list, kSizes, no_workspace).bytes; };
  CHECK(bytes(none) > bytes(some));
  CHECK(bytes(some) > bytes(full));
}

TEST_CASE("values are given up one by one: always sound, with ever less memory") {
  AdapterConfig upper = lora({"q_proj", "down_proj"});
  upper.layers_to_transform = {1, 2};
  AdapterConfig dora = lora();
  dora.use_dora = true;
  for (const AdapterConfig& adapter : {AdapterConfig{}, lora(), upper, dora}) {
    const auto sites =
        adapter.type == AdapterType::none ? std::vector<AdapterSite>{} : adapter_sites(tiny(), adapter);
    StepShape shape{tiny(), module_training(tiny(), adapter, sites)};
    const auto units = recompute_units(forward_list(shape), kSizes, 50);
    REQUIRE(units.size() >= 4 * 2);
    StepShape full = shape;
    full.recompute = recomputed_by(shape, Checkpointing::full);
    // The backward of one layer needs this much memory whatever is recomputed.
    const int64_t least = lay_out(training_step(full), kSizes, no_workspace).bytes;
    int64_t last = lay_out(training_step(shape), kSizes, no_workspace).bytes;
    for (const RecomputeUnit& unit : units) {
      shape.recompute.add(unit);
      const Graph list = training_step(shape);
      INFO(describe(shape.recompute));
      CHECK(step_faults(list) == std::vector<std::string>{});
      const Layout layout = lay_out(list, kSizes, no_workspace);
      CHECK(layout_faults(list, layout, kSizes) == std::vector<std::string>{});
      // Recomputing the highest layer saves nothing, since its backward comes at once.
      if (unit.layer + 1 < tiny().num_layers)
        CHECK(static_cast<double>(layout.bytes) <= 1.02 * static_cast<double>(std::max(last, least)));
      last = layout.bytes;
    }
    CHECK(last == least);
  }
}

namespace {

// Returns the bytes of lay_out()'s placement when each buffer is compared with all before it.
int64_t bytes_compared_with_all(const Graph& graph, const StepSizes& sizes, const Layout& layout) {
  struct Item {
    int64_t bytes = 0, first = INT64_MAX, last = -1, offset = -1;
  };
  std::vector<Item> items(graph.buffers.size());
  for (size_t i = 0; i < items.size(); ++i) {
    const Buffer& b = graph.buffers[i];
    items[i].bytes = (sizes.rows(b.rows) * b.width * sizes.element(b.type) + 63) / 64 * 64;
  }
  for (size_t t = 0; t < graph.ops.size(); ++t)
    for (const auto* values : {&graph.ops[t].in, &graph.ops[t].out})
      for (ValueId value : *values) {
        Item& item = items[static_cast<size_t>(graph.value(value).buffer)];
        item.first = std::min(item.first, static_cast<int64_t>(t)), item.last = static_cast<int64_t>(t);
      }
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return items[a].bytes > items[b].bytes; });
  std::vector<const Item*> placed;
  int64_t bytes = 0;
  for (size_t index : order) {
    Item& item = items[index];
    if (item.last < 0 || item.bytes == 0) continue;
    std::sort(placed.begin(), placed.end(), [](const Item* a, const Item* b) { return a->offset < b->offset; });
    int64_t offset = 0;
    for (const Item* other : placed) {
      if (other->first > item.last || item.first > other->last) continue;
      if (offset + item.bytes <= other->offset) break;
      offset = std::max(offset, other->offset + other->bytes);
    }
    item.offset = offset;
    CHECK(layout.offsets[index] == offset);
    bytes = std::max(bytes, offset + item.bytes);
    placed.push_back(&item);
  }
  return bytes;
}

}  // namespace

TEST_CASE("a buffer lies at the lowest place where nothing lives with it, in a step of some hundred ops") {
  ModelSpec deep = tiny();
  deep.num_layers = 12;
  for (const Checkpointing policy : {Checkpointing::none, Checkpointing::full}) {
    const Graph graph = step_of(deep, lora(), policy);
    REQUIRE(graph.ops.size() > 4 * 64);
    const Layout layout = lay_out(graph, kSizes, [](const Graph&, const Op&, const StepSizes&) -> int64_t { return 0; });
    CHECK(layout.bytes == bytes_compared_with_all(graph, kSizes, layout));
  }
}

TEST_CASE("a step is printed with layers that are alike once") {
  const Graph list = step(lora(), Checkpointing::none);
  const Layout layout = lay_out(list, kSizes, no_workspace);
  const std::string text = print(list, kSizes, 50, &layout);
  INFO(text);
  for (const char* line : {"\nlayer 0\n", "\nlayer 1\n", "\nlayers 2 to 1, each like the first, backward\n",
                           "q_proj, k_proj → q_turned [tokens, ", "norm.inverse [targets, 1] fp32"})
    CHECK(text.find(line) != std::string::npos);
  CHECK(text.find("layers.1.") == std::string::npos);  // names are those of the layer at hand
  CHECK(std::count(text.begin(), text.end(), '\n') < static_cast<int64_t>(list.ops.size()));
}

TEST_CASE("layers are written as ranges") {
  CHECK(layer_ranges({2, 3, 4, 7}) == "2-4,7");
  CHECK(layers_of("2-4,7") == std::set<int64_t>{2, 3, 4, 7});
  CHECK(describe({{{"mixed", {0, 1}}, {"up", {3}}}}) == "mixed in layers 0-1, up in layer 3");
  for (const char* wrong : {"", "-", "1-", "-1", "3-2", "1,", "1;2", "0-99999999999", "x"})
    CHECK_FALSE(layers_of(wrong));
}

TEST_CASE("every op of a step is needed where it stands") {
  const Graph sound = step(lora(), Checkpointing::full);
  int64_t found = 0, moved = 0;
  for (size_t i = 0; i + 1 < sound.ops.size(); ++i) {
    Graph without = sound;
    without.ops.erase(without.ops.begin() + static_cast<std::ptrdiff_t>(i));
    const bool missed = !step_faults(without).empty();
    // Values that no op reads: gradients that go to weights, the head's row count, the lowest
    // layer's gradient.
    const OpKind kind = sound.ops[i].kind;
    const bool writes_weights = kind == &ops::embed_backward || kind == &ops::linear_weight_gradient;
    const bool accumulates =
        kind == &ops::adapter_gradient || kind == &ops::norm_backward || kind == &ops::rope_backward;
    INFO(i << " " << name_of(kind));
    if (!writes_weights && !accumulates) CHECK(missed);
    found += missed;
    Graph swapped = sound;
    std::swap(swapped.ops[i], swapped.ops[i + 1]);
    moved += !step_faults(swapped).empty();
  }
  CHECK(found > 40);
  CHECK(moved > 40);
}

TEST_CASE("a value written over before its last reader, and memory given twice, are found") {
  Graph list = step(lora(), Checkpointing::none);
  size_t rope = 0;
  while (list.ops[rope].kind != &ops::rope) ++rope;
  Graph late = list;  // reads q as it was before it was turned
  late.ops[rope + 1].in[0] = list.ops[rope].in[0];
  CHECK_FALSE(step_faults(late).empty());
  CHECK(step_faults(late)[0] ==
        "op " + std::to_string(rope + 1) +
            " (attention): layers.0.q_proj is overwritten by layers.0.q_turned before it is read");
  Layout layout = lay_out(list, kSizes, no_workspace);
  layout.offsets[static_cast<size_t>(list.value(list.ops[rope].out[0]).buffer)] =
      layout.offsets[static_cast<size_t>(list.value(list.ops[0].out[0]).buffer)];
  CHECK_FALSE(layout_faults(list, layout, kSizes).empty());
}

TEST_CASE("a stream that two branches read gets the sum of their gradients") {
  // h + f(norm(h)) + g(norm(h)): both additions pass the same gradient on, which the first branch
  // may not add into.
  Recorder g({.whole = {"embed", "a", "b"}});
  ValueId h = embed(g, "embed", 50, 8);
  ValueId one = linear(g, norm(g, h, "n", 1e-6), {"a", 8}), two = linear(g, norm(g, h, "n", 1e-6), {"b", 8});
  h = add(g, add(g, h, one), two);
  head(g, gather(g, h), "head", 50, 0, false, true);
  Graph forward = g.take();
  Graph list = with_backward(forward, kept_values(forward, {}));
  INFO(print(list, kSizes, 50, nullptr));
  CHECK(step_faults(list) == std::vector<std::string>{});
  const auto count = [&](OpKind kind) {
    return std::count_if(list.ops.begin(), list.ops.end(), [&](const Op& op) { return op.kind == kind; });
  };
  CHECK(count(&ops::norm_backward) == 2);
  CHECK(count(&ops::add_gradient) + std::count_if(list.ops.begin(), list.ops.end(),
                                                    [](const Op& op) {
                                                      return op.kind == &ops::norm_backward &&
                                                             op.attributes.accumulate;
                                                    }) ==
        2);
}

}  // namespace forge
