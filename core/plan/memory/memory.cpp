#include "core/plan/memory/memory.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "core/job/names.h"
#include "core/lib/base/ceil_div.h"
#include "core/lib/base/error.h"
#include "core/lib/base/text.h"
#include "core/model/families/trained_layout.h"

namespace forge {
namespace {

constexpr int64_t kBlock = 64;        // weights that share one absmax
constexpr int64_t kOuterBlock = 256;  // absmax values that share one fp32 scale in double quantisation


struct Counts {
  int64_t frozen = 0, quantized = 0, quantized_bytes = 0;
  int64_t factors = 0;  // of adapters
  int64_t whole = 0;    // of the vocabulary's matrices, where an adapter changes a part
  int64_t part = 0;     // the largest of those parts
  bool adapted = false;
};

bool is_adapter(const Parameter& p) { return base_name(p) != p.name; }

// True for a factor of a linear layer, whose matrix is among the parameters.
bool of_linear(const Parameter& factor, const std::vector<Parameter>& parameters) {
  const std::string weight = factor.name.substr(0, factor.name.find(".lora_")) + ".weight";
  return std::ranges::any_of(parameters, [&](const Parameter& p) {
    return p.role == Role::linear && p.name == weight;
  });
}

bool is_vocabulary_part(const Parameter& p, const std::vector<Parameter>& parameters) {
  if (p.layer >= 0) return false;
  if (p.role == Role::token_rows) return true;
  return (p.role == Role::lora_a || p.role == Role::lora_b) && !of_linear(p, parameters);
}

// Returns the number of values of the vocabulary's matrix of which `p` is a trained part: its rows,
// or its factor B; else 0.
int64_t whole_matrix_of(const Parameter& p, const std::vector<Parameter>& parameters) {
  return is_vocabulary_part(p, parameters) && p.role != Role::lora_a ? parameters.front().count() : 0;  // the embedding; a head is as large
}

Counts count(const std::vector<Parameter>& parameters, const ModelConfig& model, bool tied_head) {
  Counts counts;
  for (const Parameter& p : parameters) {
    if (p.trainable) {
      counts.adapted |= is_adapter(p);
      if (p.role == Role::lora_a || p.role == Role::lora_b) counts.factors += p.total();
      counts.whole += whole_matrix_of(p, parameters);
      if (is_vocabulary_part(p, parameters)) counts.part = std::max(counts.part, p.count());
    } else if (p.replaced && !(tied_head && &p == &parameters.front())) {
      continue;  // the engine frees it; a tied embedding comes first, and the head reads it
    } else if (p.quantized) {
      counts.quantized += p.total();
      counts.quantized_bytes +=
          p.copies *
          quantized_bytes(p.shape[0], p.count(), model.quantization, model.double_quantization);
    } else {
      counts.frozen += p.total();
    }
  }
  return counts;
}

std::string times(int64_t count, int64_t bytes) {
  return format_count(count) + " × " + std::to_string(bytes) + " B";
}

void add(std::vector<MemoryLine>& lines, std::string name, int64_t bytes, std::string formula) {
  if (bytes > 0) lines.push_back({std::move(name), bytes, std::move(formula)});
}

std::string quantized_formula(const Counts& counts, const ModelConfig& model) {
  const double bits =
      8.0 * static_cast<double>(counts.quantized_bytes) / static_cast<double>(counts.quantized);
  return format_count(counts.quantized) + " weights in " + name_of(model.quantization) +
         (model.double_quantization ? " with double quantisation" : "") + ", " +
         format_number(static_cast<double>(static_cast<int64_t>(bits * 1000 + 0.5)) / 1000) + " bits each";
}

// Returns "exp_avg 4,884,480 × 4 B, exp_avg_8bit …".
std::string state_formula(const TrainedLayout& layout) {
  std::vector<std::string> parts;
  for (const StatePart& part : layout.state)
    parts.push_back(part.name + " " + times(part.values, part.bytes_only ? 1 : 4));
  return join(parts, ", ");
}

}  // namespace

int64_t total_bytes(const std::vector<MemoryLine>& lines) {
  int64_t total = 0;
  for (const MemoryLine& line : lines) total += line.bytes;
  return total;
}

std::vector<MemoryLine> named(const std::string& prefix, std::vector<MemoryLine> lines,
                              const std::set<std::string>& without) {
  std::erase_if(lines, [&](const MemoryLine& line) { return without.contains(line.name); });
  for (MemoryLine& line : lines) line.name = prefix + line.name;
  return lines;
}

const MemoryLine& largest_line(const std::vector<MemoryLine>& lines) {
  FORGE_CHECK(!lines.empty(), "a plan without memory lines");
  return *std::ranges::max_element(lines, {}, &MemoryLine::bytes);
}

int64_t bytes_of(Precision precision) { return precision == Precision::fp32 ? 4 : 2; }

int64_t quantized_bytes(int64_t rows, int64_t count, Quantization quantization, bool double_quantization) {
  if (quantization == Quantization::fp8) return count + 4 * rows;
  const int64_t codes = quantization == Quantization::int8 ? count : ceil_div(count, 2);
  const int64_t blocks = ceil_div(count, kBlock);
  // Nested absmax: one byte a block, one fp32 for 256 of them, and their fp32 mean.
  return codes + (double_quantization ? blocks + 4 * ceil_div(blocks, kOuterBlock) + 4 : 4 * blocks);
}

std::vector<MemoryLine> fixed_lines(const std::vector<Parameter>& parameters, const Job& job,
                                    Precision precision, Precision storage, bool tied_head) {
  const Counts counts = count(parameters, job.model, tied_head);
  const TrainedLayout layout = trained_layout(parameters, job.optimizer);
  const int64_t trained = layout.elements, wide = 4, narrow = bytes_of(precision);
  const bool master = job.train.master_weights || precision == Precision::fp32;
  std::vector<MemoryLine> lines;
  if (counts.quantized > 0)
    add(lines, "quantised weights", counts.quantized_bytes, quantized_formula(counts, job.model));
  add(lines, "frozen weights", counts.frozen * bytes_of(storage),
      times(counts.frozen, bytes_of(storage)) + " (" + name_of(storage) + ")");
  add(lines, counts.adapted ? "adapter weights" : "trained weights", trained * (master ? wide : narrow),
      times(trained, master ? wide : narrow) +
          (master ? " (fp32 masters)" : " (" + name_of(precision) + ", no masters)"));
  if (master && precision != Precision::fp32)
    add(lines, "trained weights, cast", trained * narrow,
        times(trained, narrow) + " (" + name_of(precision) + " copy for the layers)");
  add(lines, "gradients", trained * wide, times(trained, wide) + " (fp32)");
  add(lines, "vocabulary with its adapter", counts.whole * (narrow + wide),
      format_count(counts.whole) + " × " + std::to_string(narrow + wide) + " B (the matrix computed from its parts, and its gradient)");
  if (job.optimizer.offload != Offload::host) add(lines, kOptimizerState, layout.state_bytes(), state_formula(layout));
  if (changes_base(job.adapter))
    add(lines, "the adapter's start", counts.factors * wide,
        times(counts.factors, wide) + " (the first A and B, which the saved adapter subtracts)");
  return lines;
}

std::vector<MemoryLine> host_lines(const std::vector<Parameter>& parameters, const Job& job) {
  std::vector<MemoryLine> lines;
  if (job.optimizer.offload != Offload::host) return lines;
  const TrainedLayout layout = trained_layout(parameters, job.optimizer);
  add(lines, kOptimizerState, layout.state_bytes(), state_formula(layout));
  return lines;
}

std::vector<MemoryLine> update_lines(const std::vector<Parameter>& parameters, const Job& job,
                                     Precision precision, bool tied_head) {
  const Counts counts = count(parameters, job.model, tied_head);
  const TrainedLayout layout = trained_layout(parameters, job.optimizer);
  const int64_t trained = layout.elements;
  std::vector<MemoryLine> lines;
  add(lines, "working memory of " + name_of(job.optimizer.type), layout.working_bytes, "of the largest matrix, while it is updated");
  if (counts.whole > 0)
    add(lines, "working memory of the vocabulary's adapter", 4 * (counts.part + 2 * kUpdateChunk),
        "the gradient of its largest part, and " + format_count(2 * kUpdateChunk) + " values of a matrix while it is computed");
  if (!job.train.master_weights && precision != Precision::fp32)
    add(lines, "trained weights in fp32", trained * 4,
        times(trained, 4) + ", while they are updated and saved");
  if (changes_base(job.adapter))
    add(lines, "adapter being saved", counts.factors * 8,
        times(counts.factors, 8) + ": A and B, and those that they started from");
  return lines;
}

std::vector<MemoryLine> loading_lines(const std::vector<Parameter>& parameters, const Job& job,
                                      Precision precision, bool tied_head, int64_t threads) {
  // Tensors not held in fp32 are first read in fp32.
  std::vector<int64_t> read_wide;
  int64_t held = 0;
  for (const Parameter& p : parameters) {
    if (is_adapter(p)) continue;
    held += p.copies * (p.quantized ? quantized_bytes(p.shape[0], p.count(), job.model.quantization,
                                                      job.model.double_quantization)
                                    : p.count() * bytes_of(precision));
    // No more of a row than are read at a time.
    const int64_t at_once = std::min(p.copies, std::max<int64_t>(threads, 1));
    if (p.quantized || precision != Precision::fp32)
      read_wide.insert(read_wide.end(), static_cast<size_t>(at_once), p.count() * 4);
  }
  std::sort(read_wide.rbegin(), read_wide.rend());
  read_wide.resize(std::min(read_wide.size(), static_cast<size_t>(std::max<int64_t>(threads, 1))));
  const int64_t reading = std::accumulate(read_wide.begin(), read_wide.end(), int64_t{0});
  std::vector<MemoryLine> lines;
  const int64_t fixed = total_bytes(fixed_lines(parameters, job, precision, precision, tied_head));
  add(lines, "reading the model", held + reading - fixed,
      std::to_string(read_wide.size()) + " largest tensors in fp32 while they are converted");
  return lines;
}

void record_modules(ActivationShape& shape, const std::vector<AdapterSite>& sites,
                    Experts experts) {
  const ModuleTraining training =
      module_training(shape.spec, shape.adapter, sites, shape.quantization, experts);
  shape.lists = std::make_shared<StepLists>(StepShape{shape.spec, training, {}, shape.residual});
}

// From ATen's CublasHandlePool.cpp and CUDABlas.cpp. cli/engine_location.cpp asks for eight buffers
// of 4 MiB if results must be the same each time.
int64_t gpu_product_workspace(const ActivationShape& shape) {
  constexpr int64_t kKib = 1024, kHopper = 8 * 4096 * kKib, kOther = 2 * 4096 * kKib + 8 * 16 * kKib, kLt = 1024 * kKib;
  return (shape.capability / 10 == 9 || shape.deterministic ? kHopper : kOther) + kLt;
}

MemoryLine answer_line(const ActivationShape& shape) {
  const int64_t positions = shape.supervised_tokens, hidden = shape.spec.hidden_size;
  if (!shape.sums_answers || !shape.training) return {"answers", 0, ""};
  if (shape.spec.score_head)
    return {"answers", 12 * positions * hidden, format_count(positions) + " texts' last rows in fp32, and their gradient"};
  const int64_t rows = shape.precision == Precision::fp32 ? 0 : 8 * std::min(kScaledRows, positions) * hidden;
  return {"answers", 24 * positions + rows,
          "log-probabilities and cotangents of " + format_count(positions) +
              " positions, whose gradients wait for them in their own place"};
}

int64_t conversion_bytes(const ActivationShape& shape, const Graph& graph) {
  const bool in_blocks = shape.quantization != Quantization::none && shape.quantization != Quantization::fp8;
  int64_t largest = 0;
  for (const ModuleUse& module : graph.modules) {
    const int64_t count = module.in * module.out;
    if (module.fp8) largest = std::max(largest, count);  // transposed
    const bool quantized = module.kind == ModuleKind::linear && in_blocks;
    const bool stored = module.kind != ModuleKind::norm && !module.fp8 && shape.storage != shape.precision;
    if (quantized || stored) largest = std::max(largest, count * bytes_of(shape.precision));
  }
  return largest;
}

}  // namespace forge
