#include "core/plan/machine/rates.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/graph/op_record.h"
#include "core/job/names.h"
#include "core/lib/base/file.h"
#include "core/lib/base/text.h"
#include "kernels/activation/activation_op.h"
#include "kernels/attention/attention_op.h"
#include "kernels/experts/expert_linear_op.h"
#include "kernels/linear/linear_op.h"
#include "kernels/lm_head/head_op.h"
#include "kernels/lora/lora_op.h"
#include "kernels/swiglu/glu_op.h"

namespace forge {
namespace {

constexpr int64_t kVersion = 3;  // raised where kernels have become so much faster or slower that older rates mislead
constexpr int64_t kLargestFile = int64_t{16} << 20;

// Returns an op's name, with everything else that decides how long its elements take.
std::string kind_of(const Op& op) {
  std::string kind = name_of(op.kind);
  if (op.attributes.softcap > 0) kind += " capped";
  const bool gated = op.kind == &ops::glu || op.kind == &ops::glu_backward;
  if (gated && op.attributes.gate == GateKind::gelu_tanh) kind += " gelu_tanh";
  if (gated && op.attributes.gate == GateKind::clamped) kind += " clamped";
  if (gated && op.attributes.gate == GateKind::sigmoid) kind += " sigmoid";
  if (gated && op.attributes.gate == GateKind::product) kind += " product";
  const bool active = op.kind == &ops::activation || op.kind == &ops::activation_backward;
  if (active && op.attributes.activation == ActivationKind::gelu_tanh) kind += " gelu_tanh";
  return kind;
}

double distance(const Work& a, const Work& b) {
  double sum = 0;
  for (size_t i = 0; i < a.shape.size(); ++i) {
    const double d = std::log2(std::max(a.shape[i], 1.0) / std::max(b.shape[i], 1.0));
    sum += d * d;
  }
  return sum;
}

Json to_json(const RatePoint& point) {
  return {{"precision", name_of(point.precision)}, {"kind", point.work.kind},       {"shape", point.work.shape},
          {"amount", point.work.amount},           {"seconds", point.seconds}};
}

double positive(const Json& json, const char* key) {
  const double value = json.at(key).get<double>();
  if (!std::isfinite(value) || value <= 0) throw Error(ErrorKind::environment, std::string(key) + " is not positive");
  return value;
}

RatePoint point_from_json(const Json& json) {
  RatePoint point;
  const auto precision = enum_of<Precision>(json.at("precision").get<std::string>());
  if (!precision) throw Error(ErrorKind::environment, "unknown precision");
  point.precision = *precision;
  point.work = {json.at("kind"), json.at("shape"), positive(json, "amount")};
  point.seconds = positive(json, "seconds");
  return point;
}

// The work of one op while it is being listed.
struct WorkList {
  const Graph& graph;
  const Op& op;
  double rows = 0;
  std::vector<Work> work = {};

  // Adds the product of all modules together, as they are multiplied if they are adjacent in
  // memory.
  void product(std::string kind, double times, bool trained_only = false) {
    if (op.attributes.softcap > 0) kind += " capped";
    double in = 0, out = 0;
    for (size_t i = 0; i < op.modules.size(); ++i) {
      const ModuleUse& module = graph.module(op, i);
      if (trained_only && !module.trained) continue;
      in = static_cast<double>(module.in), out += static_cast<double>(module.out);
    }
    if (rows * out > 0) work.push_back({kind, {rows, in, out}, times * 2 * rows * in * out});
  }

  void adapters(const char* kind) {
    for (size_t i = 0; i < op.modules.size(); ++i) {
      const ModuleUse& module = graph.module(op, i);
      const auto rank = static_cast<double>(module.rank), width = static_cast<double>(module.in + module.out);
      if (module.rank > 0) work.push_back({kind, {rows, width, rank}, 2 * rows * width * rank});
    }
  }

  // Returns the mean rows of an expert. Experts differ in how many rows they get; their rate is
  // that of the mean.
  double rows_of_expert() const {
    double experts = 0;
    for (size_t i = 0; i < op.modules.size(); ++i) experts += flops::held(graph.module(op, i));
    return rows * static_cast<double>(op.attributes.route.per_token) / experts;
  }

  // Visits the modules of a row with the matrices of each. Rows of an expert are a fraction, and a
  // sum of them is rounded at each module.
  template <class Visit>
  static void each_copy(const ModuleUse& module, Visit visit) {
    const double matrices = flops::held(module) / static_cast<double>(module.copies);
    for (int64_t copy = 0; copy < module.copies; ++copy) visit(matrices);
  }

  void experts(const char* kind, bool trained_only = false) {
    const double each = rows_of_expert();
    double in = 0, out = 0, multiplied = 0;
    for (size_t i = 0; i < op.modules.size(); ++i) {
      const ModuleUse& module = graph.module(op, i);
      if (trained_only && !module.trained) continue;
      in = static_cast<double>(module.in), out = static_cast<double>(module.out);
      each_copy(module, [&](double matrices) { multiplied += each * matrices; });
    }
    work.push_back({kind, {each, in, out}, 2 * multiplied * in * out});
  }

  void expert_adapters(const char* kind) {
    const double each = rows_of_expert();
    double width = 0, rank = 0, amount = 0;
    for (size_t i = 0; i < op.modules.size(); ++i) {
      const ModuleUse& module = graph.module(op, i);
      if (module.rank == 0) continue;
      width = static_cast<double>(module.in + module.out), rank = static_cast<double>(module.rank);
      each_copy(module, [&](double matrices) { amount += 2 * each * matrices * width * rank; });
    }
    work.push_back({kind, {each, width, rank}, amount});
  }
};

void add_head(WorkList& w) {
  const bool trained = w.graph.module(w.op).trained;
  if (w.op.attributes.fused_head)  // without logits, a trained weight takes a second pass
    trained ? w.product("fused trained head", 4) : w.product("fused head", 2);
  else
    trained ? w.product("trained head", 3) : w.product("head", 2);
}

// Ops whose work is products; others are counted by their bytes.
struct WorkRow {
  OpKind kind;
  void (*add)(WorkList& w);
};
constexpr WorkRow kProducts[] = {
    {&ops::linear,
     [](WorkList& w) {
       w.product("linear", 1);
       w.adapters("adapter");
     }},
    {&ops::linear_input_gradient, [](WorkList& w) { w.product("linear d x", 1); }},
    {&ops::linear_weight_gradient, [](WorkList& w) { w.product("linear d W", 1, true); }},
    {&ops::adapter_gradient, [](WorkList& w) { w.adapters("adapter backward"); }},
    {&ops::expert_linear,
     [](WorkList& w) {
       w.experts("expert linear");
       w.expert_adapters("expert adapter");
     }},
    {&ops::expert_input_gradient, [](WorkList& w) { w.experts("experts d x"); }},
    {&ops::expert_weight_gradient, [](WorkList& w) { w.experts("experts d W", true); }},
    {&ops::expert_adapter_gradient, [](WorkList& w) { w.expert_adapters("expert adapter backward"); }},
    {&ops::head, add_head},
    {&ops::evaluate, [](WorkList& w) { w.product("evaluate", 1); }},
};

}  // namespace

std::vector<Work> work_of(const Graph& graph, const Op& op, const StepSizes& sizes, double mean_length) {
  WorkList list{graph, op, static_cast<double>(rows_of(graph, op, sizes))};
  const auto* row = std::find_if(std::begin(kProducts), std::end(kProducts), [&](const WorkRow& of) { return of.kind == op.kind; });
  const Cost cost = cost_of(graph, op, sizes, mean_length);
  if (row != std::end(kProducts))
    row->add(list);
  else if (op.kind == &ops::attention || op.kind == &ops::attention_backward)
    list.work.push_back({kind_of(op), {list.rows, mean_length, static_cast<double>(op.attributes.head_dim)}, cost.flops});
  else
    list.work.push_back({kind_of(op), {cost.bytes, 1, 1}, cost.bytes});
  std::erase_if(list.work, [](const Work& w) { return w.amount <= 0; });
  return std::move(list.work);
}

Work batch_work(const StepSizes& sizes) {
  const auto tokens = static_cast<double>(sizes.tokens);
  return {"batch", {tokens, 1, 1}, tokens};
}

Machine machine_of(const Device& device, int64_t threads) {
  return {device.cpu.name, name_of(instructions_of(device.cpu)), threads};
}

// Interpolates the rates of the nearest shapes, in octaves, weighted by the square of their
// nearness.
std::optional<double> Rates::seconds(const Work& work, Precision precision) const {
  constexpr size_t kNearest = 4;
  std::vector<std::pair<double, double>> near;  // distance², log of amount per second
  for (const RatePoint& point : points)
    if (point.precision == precision && point.work.kind == work.kind)
      near.emplace_back(distance(point.work, work), std::log(point.work.amount / point.seconds));
  if (near.empty()) return std::nullopt;
  const size_t count = std::min(kNearest, near.size());
  std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(count), near.end());
  double weights = 0, sum = 0;
  for (size_t i = 0; i < count; ++i) {
    const double weight = 1 / (near[i].first + 1e-6);
    weights += weight;
    sum += weight * near[i].second;
  }
  return work.amount / std::exp(sum / weights);
}

std::optional<double> Rates::bf16_gain() const {
  std::map<std::array<double, 3>, std::array<double, 2>> products;
  for (const RatePoint& point : points)
    if (point.work.kind == "linear" && point.precision != Precision::fp16)
      products[point.work.shape][point.precision == Precision::bf16] = point.seconds;
  double fp32 = 0, bf16 = 0;
  for (const auto& [shape, seconds] : products)
    if (seconds[0] > 0 && seconds[1] > 0) fp32 += seconds[0], bf16 += seconds[1];
  return bf16 > 0 ? std::optional(fp32 / bf16) : std::nullopt;
}

std::string rates_path(const std::string& output_dir) { return output_dir + "/.cache/rates.json"; }

Json to_json(const Rates& rates) {
  Json points = Json::array();
  for (const RatePoint& point : rates.points) points.push_back(to_json(point));
  return {{"version", kVersion},
          {"machine",
           {{"processor", rates.machine.processor},
            {"instructions", rates.machine.instructions},
            {"threads", rates.machine.threads}}},
          {"date", rates.date},
          {"rates", points}};
}

std::optional<Rates> read_rates(const std::string& path, const Machine& machine, std::string* warning) {
  if (!file_exists(path)) return std::nullopt;
  const auto ignored = [&](const std::string& why) -> std::optional<Rates> {
    *warning = path + ": " + why + ", and is ignored: forge bench JOB --kernels measures again";
    return std::nullopt;
  };
  try {
    const Json json = parse_json(read_file(path, kLargestFile, ErrorKind::environment), path, ErrorKind::environment);
    if (json.at("version") != kVersion) return ignored("is of another version");
    const Json& of = json.at("machine");
    Rates rates{.machine = {of.at("processor"), of.at("instructions"), of.at("threads")}, .date = json.at("date")};
    if (rates.machine != machine)
      return ignored("was measured on " + rates.machine.processor + ", " + rates.machine.instructions + ", " +
                     format_count(rates.machine.threads) + " threads, not on this machine as the job uses it");
    for (const Json& point : json.at("rates")) rates.points.push_back(point_from_json(point));
    return rates;
  } catch (const std::exception&) {
    return ignored("is damaged");
  }
}

}  // namespace forge
