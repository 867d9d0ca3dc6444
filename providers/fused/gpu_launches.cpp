#include "providers/fused/gpu_launches.h"

#include <algorithm>

#include "core/model/graph/fold_adapters.h"
#include "core/model/graph/fold_gates.h"
#include "kernels/attention/attention_choice.h"
#include "kernels/attention/attention_flash.h"
#include "kernels/lora/gated_space.h"
#include "providers/fused/bind.h"
#include "providers/fused/planned_call.h"

namespace forge {
namespace {

class Lister {
 public:
  Lister(const Graph& graph, const Op& op, const StepSizes& sizes, const GpuStep& step)
      : graph_(graph),
        op_(op),
        sizes_(sizes),
        step_(step),
        call_(graph, op, sizes),
        e_(static_cast<double>(sizes.compute_bytes)),
        rows_(static_cast<double>(sizes.tokens)) {}

  std::vector<GpuLaunch> list() {
    switch (op_.kind) {
      case OpKind::embed:
        return one("embedding_forward");
      case OpKind::gather:
        return add("copy_rows", 2 * bytes(op_.out[0]));
      case OpKind::add:
      case OpKind::add_gradient:
        return one("add_rows");
      case OpKind::cast:
      case OpKind::cast_backward:
        return one("scale_rows");
      case OpKind::scale:
      case OpKind::scale_backward:
        return one("scale_rows");
      case OpKind::norm:
      case OpKind::add_norm:
        return one("rms_norm_forward");
      case OpKind::layer_norm:
        return one("layer_norm_forward");
      case OpKind::norm_backward:
        return norm_backward("rms_norm");
      case OpKind::layer_norm_backward:
        return norm_backward("layer_norm");
      case OpKind::linear:
        return linear();
      case OpKind::adapter_sums:
        return adapter_sums();
      case OpKind::adapter_sums_gradient:
        return adapter_sums_gradient();
      case OpKind::adapter_input_gradient:
        return product(ranks(), rows_, width(op_.in[1]), true, 4, false, true);
      case OpKind::linear_input_gradient:
        return input_gradient();
      case OpKind::linear_weight_gradient:
        return weight_gradient();
      case OpKind::adapter_gradient:
        return adapter_gradient();
      case OpKind::rope:
      case OpKind::rope_backward:
        return rope();
      case OpKind::attention:
        return attention();
      case OpKind::attention_backward:
        return attention_backward();
      case OpKind::regroup:
      case OpKind::regroup_backward:
        return one("regroup_heads");
      case OpKind::latent_heads:
        return one("latent_heads");
      case OpKind::latent_heads_backward:
        one("latent_heads_back");
        return add("latent_key_back", bytes(op_.out[2]) * static_cast<double>(1 + op_.attributes.heads));
      case OpKind::trim_heads:
      case OpKind::trim_heads_backward:
        return one("trim_heads");
      case OpKind::glu:
        return one(op_.attributes.gate == GateKind::clamped ? "clamped_glu_forward" : "swiglu_forward");
      case OpKind::glu_backward:
        return one(op_.attributes.gate == GateKind::clamped ? "clamped_glu_backward" : "swiglu_backward");
      case OpKind::glu_sums:
        return gated("gated_sums", bind::glu_sums(call_));
      case OpKind::glu_adapters_backward:
        return gated("gated_gradients", bind::glu_adapters_backward(call_));
      case OpKind::activation:
        return one("activation_forward");
      case OpKind::activation_backward:
        return one("activation_backward");
      case OpKind::scatter:
        add("clear", bytes(op_.out[0]));
        return add("copy_rows", 2 * bytes(op_.in[0]));
      case OpKind::embed_backward:
        return add("embedding_atomic", bytes(op_.in[0]));
      case OpKind::store:
        return add("copy from the device", bytes(op_.in[0]));
      case OpKind::load:
        return add("copy to the device", bytes(op_.out[0]));
      case OpKind::gate_rows:
        return one("gate_rows");
      case OpKind::gate_rows_backward:
        return one("gate_rows_backward");
      case OpKind::route:
        return route();
      case OpKind::route_backward:
        return one("expert_route_backward");
      case OpKind::dispatch:
      case OpKind::dispatch_backward:
        return one("expert_rows");
      case OpKind::combine:
        return one("expert_combine");
      case OpKind::combine_backward:
        return one("expert_combine_backward");
      case OpKind::expert_linear:
      case OpKind::expert_input_gradient:
      case OpKind::expert_weight_gradient:
      case OpKind::expert_adapter_gradient:
      case OpKind::dora_ratio:
      case OpKind::dora:
      case OpKind::dora_backward:
      case OpKind::head:
      case OpKind::evaluate:
      case OpKind::gradient_norm:
      case OpKind::update:
        break;
    }
    return {};
  }

 private:
  double width(ValueId id) const { return static_cast<double>(graph_.value(id).width); }
  double elements(ValueId id) const {
    return static_cast<double>(sizes_.rows(graph_.buffer_of(id).rows)) * width(id);
  }
  double bytes(ValueId id) const {
    return elements(id) * static_cast<double>(sizes_.element(graph_.buffer_of(id).type));
  }

  std::vector<GpuLaunch>& add(const char* name, double bytes, double weight_bytes = 0, int64_t launches = 1) {
    list_.push_back({name, bytes + weight_bytes, weight_bytes, launches});
    return list_;
  }
  // Adds a launch that moves all values of the op once.
  std::vector<GpuLaunch>& one(const char* name) {
    double all = 0;
    for (ValueId id : op_.in) all += bytes(id);
    for (ValueId id : op_.out) all += bytes(id);
    return add(name, all);
  }
  // Adds a product a [m, k] b [k, n]; the flags say which matrices are weights.
  std::vector<GpuLaunch>& product(double m, double k, double n, bool accumulate, double out_bytes, bool b_is_weight,
               bool out_is_weight = false) {
    const double a = e_ * m * k, b = e_ * k * n, out = out_bytes * m * n * (accumulate ? 2 : 1);
    add("product", a + (b_is_weight ? 0 : b) + (out_is_weight ? 0 : out),
        (b_is_weight ? b : 0) + (out_is_weight ? out : 0));
    return list_;
  }
  double ranks() const { return static_cast<double>(ranks_of(graph_, op_)); }
  bool held_otherwise(const ModuleUse& module) const {
    return module.kind == ModuleKind::linear && !module.trained && (step_.in_blocks || step_.converted);
  }
  // Adds the conversion of a weight to the compute type before its product.
  void convert(const ModuleUse& module) {
    const double count = static_cast<double>(module.in * module.out);
    if (held_otherwise(module))
      add(step_.in_blocks ? "dequantize" : "convert", 0, count * (e_ + (step_.in_blocks ? 0.56 : 4)));
  }
  // Adds the quantisation of rows to 8 bits: once from memory, and once more out of a cache.
  void quantize_rows(double columns) { add("quantize_rows", rows_ * (columns * (e_ + 1) + 4)); }
  // Adds a product with a weight in 8 bits, with a scale a row and a column of the result; an
  // addition writes and reads the product apart.
  void scaled_product(double k, double n, bool accumulate) {
    add("scaled_product", rows_ * (k + 4 + e_ * n), n * (k + 4));
    if (accumulate) add("add_rows", 3 * e_ * rows_ * n);
  }
  // True if the weights of one product are side by side: they are unless they are decoded or have
  // scales.
  bool merged() const {
    for (size_t i = 0; i < op_.modules.size(); ++i)
      if (held_otherwise(graph_.module(op_, i)) || graph_.module(op_, i).fp8) return false;
    return true;
  }

  std::vector<GpuLaunch>& norm_backward(const std::string& name) {
    if (graph_.module(op_).trained || graph_.module(op_).bias_trained) {
      const double read = bytes(op_.in[0]) + bytes(op_.in[1]);
      add((name + "_weight").c_str(), read);
      add((name + "_weight_total").c_str(), 0, 8 * width(op_.in[0]));
    }
    return one((name + "_backward").c_str());
  }

  std::vector<GpuLaunch>& linear() {
    const double in = width(op_.in[0]);
    bool biased = false;
    for (size_t i = 0; i < op_.modules.size(); ++i)
      biased |= graph_.module(op_, i).bias && !op_.attributes.unscaled;
    if (op_.attributes.folded) {
      for (size_t i = 0; biased && i < op_.modules.size(); ++i)
        add("copy_rows", e_ * rows_ * static_cast<double>(graph_.module(op_, i).out));
      return product(rows_, in + ranks(), width(op_.out[0]), biased || op_.attributes.accumulate, e_, true);
    }
    if (merged() && !biased) {
      product(rows_, in, width(op_.out[0]), op_.attributes.accumulate, e_, true);
    } else {
      if (bind::any_fp8(graph_, op_)) quantize_rows(in);
      for (size_t i = 0; i < op_.modules.size(); ++i) {
        const ModuleUse& module = graph_.module(op_, i);
        const auto out = static_cast<double>(module.out);
        if (module.fp8) {
          scaled_product(in, out, false);
          continue;
        }
        convert(module);
        const bool bias = module.bias && !op_.attributes.unscaled;
        if (bias) add("copy_rows", e_ * rows_ * out);
        product(rows_, in, out, bias || op_.attributes.accumulate, e_, true);
      }
    }
    for (size_t i = 0; i < op_.modules.size(); ++i) {
      const ModuleUse& module = graph_.module(op_, i);
      if (module.rank == 0) continue;
      const auto rank = static_cast<double>(module.rank), out = static_cast<double>(module.out);
      dropout(module, in);
      product(rows_, in, rank, false, e_, true);
      product(rows_, rank, out, true, e_, true);
    }
    return list_;
  }
  void dropout(const ModuleUse& module, double in) {
    if (module.dropout) add("dropout", 2 * e_ * rows_ * in);
  }

  // Adds one kernel with the partial sums that its blocks write and read. Returns false if there is
  // no such kernel.
  template <class Args>
  bool thin(const char* name, const Args& args) {
    if (*thin_refusal(args)) return false;
    double all = 8 * static_cast<double>(thin_cut(args).numbers), weights = 0;
    for (ValueId id : op_.in) all += bytes(id);
    for (ValueId id : op_.out) all += bytes(id);
    if constexpr (requires { args.width; })
      weights = e_ * ranks() * width(op_.in[0]);
    else
      for (int64_t i = 0; i < args.members; ++i) weights += (e_ + 8) * static_cast<double>(args.member[i].out * args.member[i].rank);
    add(name, all, weights);
    return true;
  }

  // Adds one kernel with its partial sums, or the ops that it stands for.
  template <class Args>
  std::vector<GpuLaunch>& gated(const char* name, const Args& args) {
    if (*gated_refusal(args)) {
      for (const Op& part : gate_parts(op_))
        for (const GpuLaunch& launch : Lister(graph_, part, sizes_, step_).list()) list_.push_back(launch);
      return list_;
    }
    one(name);
    const auto rank = static_cast<double>(args.rank), columns = static_cast<double>(args.width);
    double weights = e_ * rank * columns;  // A
    if constexpr (requires { args.side; }) weights = columns * (8 * rank + (e_ + 8) * static_cast<double>(args.side[0].rank + args.side[1].rank));
    list_.back().bytes += 8 * static_cast<double>(gated_numbers(args)) + weights, list_.back().weight_bytes = weights;
    return list_;
  }

  // Counts as if all modules had one scale; each other scale takes a product of its own.
  std::vector<GpuLaunch>& adapter_sums() {
    if (thin("adapter_sums", bind::adapter_sums(call_))) return list_;
    product(rows_, width(op_.in[0]), ranks(), false, e_, true);
    if (op_.out.size() > 1) add("copy_rows", 2 * e_ * rows_ * ranks());
    return list_;
  }
  std::vector<GpuLaunch>& adapter_sums_gradient() {
    if (thin("adapter_sums_gradient", bind::adapter_sums_gradient(call_))) return list_;
    double reached = 0;  // rows of W from the first adapted module to the last
    size_t first = op_.modules.size(), last = 0;
    for (size_t i = 0; i < op_.modules.size(); ++i)
      if (graph_.module(op_, i).rank > 0) first = std::min(first, i), last = i;
    for (size_t i = first; i <= last; ++i) reached += static_cast<double>(graph_.module(op_, i).out);
    product(rows_, reached, ranks(), false, e_, true);
    // Neighbours of one shape are one launch.
    for (size_t i = first; i <= last; ++i) {
      const ModuleUse& module = graph_.module(op_, i);
      const auto equal = [&](size_t other) {
        return graph_.module(op_, other).rank == module.rank && graph_.module(op_, other).out == module.out;
      };
      if (module.rank == 0 || (i > first && equal(i - 1))) continue;
      double members = 1;
      while (i + static_cast<size_t>(members) <= last && equal(i + static_cast<size_t>(members))) ++members;
      product(members * static_cast<double>(module.out), rows_, static_cast<double>(module.rank), true, 4, false, true);
      list_.back().bytes += e_ * rows_ * static_cast<double>(module.rank) * (members - 1);  // each reads its own s
    }
    return list_;
  }

  std::vector<GpuLaunch>& input_gradient() {
    const double in = width(op_.out[0]);
    if (op_.attributes.folded)
      return product(rows_, width(op_.in[0]) + ranks(), in, op_.attributes.accumulate, e_, true);
    if (merged()) {
      product(rows_, width(op_.in[0]), in, op_.attributes.accumulate, e_, true);
      return list_;
    }
    for (size_t i = 0; i < op_.modules.size(); ++i) {
      const ModuleUse& module = graph_.module(op_, i);
      const bool accumulate = op_.attributes.accumulate || i > 0;
      if (module.fp8) {
        quantize_rows(static_cast<double>(module.out));
        add("transpose_bytes", 0, 2 * static_cast<double>(module.in * module.out));
        scaled_product(static_cast<double>(module.out), in, accumulate);
        continue;
      }
      convert(module);
      product(rows_, static_cast<double>(module.out), in, accumulate, e_, true);
    }
    return list_;
  }

  std::vector<GpuLaunch>& weight_gradient() {
    for (size_t i = 0; i < op_.modules.size(); ++i)
      if (const ModuleUse& module = graph_.module(op_, i); module.bias && (module.trained || module.bias_trained))
        add("sum_columns", e_ * rows_ * static_cast<double>(module.out));
    double outs = 0;
    size_t trained = 0;
    for (size_t i = 0; i < op_.modules.size(); ++i)
      if (const ModuleUse& module = graph_.module(op_, i); module.trained)
        outs += static_cast<double>(module.out), ++trained;
    const double in = width(op_.in[1]);
    // In fp32, consecutive gradients are one product; biases between them prevent that.
    bool biased = false;
    for (size_t i = 0; i < op_.modules.size(); ++i) biased |= graph_.module(op_, i).bias;
    if (sizes_.compute_bytes == 4 && trained == op_.modules.size() && (!biased || trained == 1)) {
      product(outs, rows_, in, true, 4, false, true);
      return list_;
    }
    for (size_t i = 0; i < op_.modules.size(); ++i)
      if (const ModuleUse& module = graph_.module(op_, i); module.trained)
        product(static_cast<double>(module.out), rows_, in, true, 4, false, true);
    return list_;
  }

  std::vector<GpuLaunch>& adapter_gradient() {
    const double in = width(op_.in[1]);
    for (size_t i = 0; i < op_.modules.size(); ++i) {
      const ModuleUse& module = graph_.module(op_, i);
      if (module.rank == 0) continue;
      const auto rank = static_cast<double>(module.rank), out = static_cast<double>(module.out);
      dropout(module, in);
      product(rows_, out, rank, false, e_, true);       // d S
      product(out, rows_, rank, true, 4, false, true);  // d B
      product(rank, rows_, in, true, 4, false, true);   // d A
      if (op_.out.empty()) continue;
      product(rows_, rank, in, !module.dropout, e_, true);  // d x
      if (module.dropout) add("dropout", 3 * e_ * rows_ * in);
    }
    return list_;
  }

  std::vector<GpuLaunch>& rope() {
    const char* name = op_.attributes.interleaved ? "rope_interleaved" : "rope_half";
    if (op_.out.size() > 1) {
      const Value &q = graph_.value(op_.out[0]), &k = graph_.value(op_.out[1]);
      if (q.buffer != k.buffer || q.column + q.width != k.column)
        add(name, 2 * bytes(op_.out[0])), add(name, 2 * bytes(op_.out[1]));
      else
        add(name, 2 * (bytes(op_.out[0]) + bytes(op_.out[1])));
      return list_;
    }
    return add(name, 2 * bytes(op_.out[0]));
  }

  std::vector<GpuLaunch>& route() {
    one("expert_choose");
    if (op_.out.size() > 3) add("expert_probability", 2 * bytes(op_.in[0]));
    return add("expert_sort", 3 * bytes(op_.out[1]));
  }

  bool own_attention() const {
    return op_.attributes.softcap != 0 || op_.attributes.window > 0 || !op_.modules.empty();
  }
  bool flash_attention() const {
    const Element narrow = sizes_.capability < 80 ? Element::f16 : Element::bf16;
    const AttentionProblem problem{.capability = sizes_.capability,
                                   .type = sizes_.compute_bytes == 2 ? narrow : Element::f32,
                                   .head_dim = op_.attributes.head_dim,
                                   .heads = op_.attributes.heads,
                                   .sequences = 1,
                                   .tokens = sizes_.tokens};
    return choose_attention(problem, /*backward=*/true).kernel == AttentionKernel::flash;
  }
  // Launches of LibTorch around its efficient kernels (attention_torch.cpp), as the hollow GPU
  // counts them: kLseIndex to find each token's lse (arange, searchsorted, a gather and three sums
  // and products), kRepeats for keys and values of each query head.
  static constexpr int64_t kLseIndex = 6, kRepeats = 2;
  bool grouped() const { return op_.attributes.heads != op_.attributes.kv_heads; }
  // Adds LibTorch's flash kernel, or its efficient one, whose result and lse are copied to their
  // places.
  std::vector<GpuLaunch>& attention() {
    if (own_attention()) return one("attention");
    if (flash_attention()) return one("flash_forward");
    one("attention");
    list_.back().bytes += 2 * bytes(op_.out[0]) + 2 * bytes(op_.out[1]);
    // The launches are the kernel, a copy of its result, and lse: its rows made one array, gathered
    // and copied.
    list_.back().launches = 1 + 1 + kLseIndex + 3 + (grouped() ? kRepeats : 0);
    return list_;
  }
  std::vector<GpuLaunch>& attention_backward() {
    if (own_attention()) {
      one("attention_d_q");
      one("attention_d_kv");
      if (!op_.modules.empty() && graph_.module(op_).trained) add("attention_d_sinks", 2 * bytes(op_.in[4]));
      return list_;
    }
    return flash_attention() ? flash_backward() : efficient_backward();
  }
  // Adds the launches of flash attention's backward, if a micro-batch's sequences are one turn
  // (attention_flash.h). Sums of d q are cleared, added to, and read; in a deterministic backward
  // these are the sums of every split, as if the batch were one sequence.
  std::vector<GpuLaunch>& flash_backward() {
    const Attributes& a = op_.attributes;
    const double inputs = bytes(op_.in[0]) + bytes(op_.in[1]) + bytes(op_.in[2]), out = bytes(op_.in[3]), lse = bytes(op_.in[4]),
                 d_out = bytes(op_.in[5]), d_kv = bytes(op_.out[1]) + bytes(op_.out[2]), of_all_heads = 2 * bytes(op_.out[0]);
    AttentionShape shape{.heads = a.heads, .head_dim = a.head_dim, .tokens = sizes_.tokens};
    shape.deterministic = sizes_.deterministic, shape.multiprocessors = sizes_.multiprocessors;
    const auto splits = static_cast<double>(flash_sums(shape, 1).splits);
    const double sums = 4 * rows_ * static_cast<double>(a.heads * flash_head_dim(a.head_dim)), dots = lse;
    if (sizes_.deterministic) add("clear", splits * sums);
    add("flash_dots", out + d_out + dots + (sizes_.deterministic ? 0 : sums));
    add("flash_gradients", inputs + d_out + lse + dots + 2 * sums + (grouped() ? of_all_heads : d_kv));
    add("flash_d_q", splits * sums + bytes(op_.out[0]));
    if (grouped()) add("group_sums", of_all_heads + d_kv);
    return list_;
  }
  // Adds d out · out, the gradients, d q from its fp32 sums, keys' and values' gradients summed
  // over groups, and three copies (attention_torch.cpp).
  std::vector<GpuLaunch>& efficient_backward() {
    one("attention backward");
    double copies =
        2 * bytes(op_.out[0]) + 2 * (bytes(op_.out[1]) + bytes(op_.out[2]));
    copies += 2 * 4 * elements(op_.out[0]) + bytes(op_.in[3]) +
              bytes(op_.in[5]);  // fp32 sums of d q; out and d out once more
    if (grouped()) copies += 2 * 2 * bytes(op_.out[0]);
    list_.back().bytes += copies;
    // The launches are the kernel and its seed; lse, filled, put in its places and transposed;
    // three copies. In fp32 d out · out is computed before: a product, a sum, a copy. A result
    // whose rows have gaps between them is copied.
    const bool spaced = graph_.buffer_of(op_.in[3]).width != graph_.value(op_.in[3]).width;
    list_.back().launches = 2 + kLseIndex + 3 + 3 + (sizes_.compute_bytes == 4 ? 3 : 0) + spaced + (grouped() ? 2 * kRepeats : 0);
    return list_;
  }

  const Graph& graph_;
  const Op& op_;
  const StepSizes& sizes_;
  const GpuStep& step_;
  const PlannedCall call_;
  const double e_, rows_;
  std::vector<GpuLaunch> list_;
};

}  // namespace

std::vector<GpuLaunch> gpu_launches(const Graph& graph, const Op& op, const StepSizes& sizes,
                                    const GpuStep& step) {
  return Lister(graph, op, sizes, step).list();
}

LayerLaunches layer_launches(const Graph& graph, int64_t layer, const StepSizes& sizes, const GpuStep& step) {
  LayerLaunches all;
  for (const Op& op : graph.ops)
    if (op.layer == layer)
      for (const GpuLaunch& launch : gpu_launches(graph, op, sizes, step))
        all.launches += launch.launches, all.bytes += launch.bytes, all.weight_bytes += launch.weight_bytes;
  return all;
}

}  // namespace forge
