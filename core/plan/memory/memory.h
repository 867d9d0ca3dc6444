#pragma once
// The memory of a run as named lines, each with the formula that gave its bytes.
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/data/batch/text_groups.h"
#include "core/job/job.h"
#include "core/lib/base/instruction_set.h"
#include "core/model/families/adapter_sites.h"
#include "core/model/families/step.h"

namespace forge {

struct MemoryLine {
  std::string name;
  int64_t bytes = 0;
  std::string formula;  // with the numbers put in
  bool held = false;    // from the first step to the last, by training and evaluation in turn
};

int64_t total_bytes(const std::vector<MemoryLine>& lines);
// Returns the lines with `prefix` before their names, without those that are named in `without`.
std::vector<MemoryLine> named(const std::string& prefix, std::vector<MemoryLine> lines,
                              const std::set<std::string>& without = {});
const MemoryLine& largest_line(const std::vector<MemoryLine>& lines);

int64_t bytes_of(Precision precision);

// Returns the bytes of a weight in blocks of 64: 4-bit codes with fp32 absmax are 4.5 bits a
// weight; absmax in 8 bits by blocks of 256 make 4.127 (QLoRA, arXiv 2305.14314); int8 codes with
// fp32 absmax 8.5. fp8 has a scale a row.
int64_t quantized_bytes(int64_t rows, int64_t count, Quantization quantization, bool double_quantization);

// Returns the lines that stay allocated on the device for the whole run: frozen weights, trainable
// weights, gradients, optimizer state. `storage` is the type of frozen weights that are not
// quantised. `tied_head`: the embedding is the head too.
std::vector<MemoryLine> fixed_lines(const std::vector<Parameter>& parameters, const Job& job,
                                    Precision precision, Precision storage, bool tied_head);

// Names of the lines of the host's memory (core/plan/fit/offload.h); the optimizer's also occurs
// with "value: " before it.
constexpr const char *kOptimizerState = "optimizer state", *kLayerInputs = "layer inputs";

// Returns the lines that a GPU's run keeps pinned in the host's memory: optimizer state that is
// offloaded. Empty for most jobs.
std::vector<MemoryLine> host_lines(const std::vector<Parameter>& parameters, const Job& job);

// Returns the lines that exist beside the fixed lines while weights are updated and saved, when
// there are no activations. Empty for most jobs: fp32 masters are updated and saved in place.
std::vector<MemoryLine> update_lines(const std::vector<Parameter>& parameters, const Job& job,
                                     Precision precision, bool tied_head);

// Returns the lines that exist beyond the fixed lines while the model is read, `threads` tensors at
// a time. Empty if the fixed lines have room for them: gradients and optimizer state do not exist
// yet.
std::vector<MemoryLine> loading_lines(const std::vector<Parameter>& parameters, const Job& job,
                                      Precision precision, bool tied_head, int64_t threads);

// The values that decide the memory of one micro-batch.
struct ActivationShape : StepChoice {
  ModelSpec spec;
  AdapterConfig adapter;
  std::shared_ptr<StepLists> lists;  // of `spec` with those adapters; set by record_modules
  Residual residual = Residual::compute;
  Precision precision = Precision::fp32;
  Precision storage = Precision::fp32;
  Quantization quantization = Quantization::none;
  bool cuda = false;
  bool deterministic = false;  // train.deterministic
  int64_t capability = 0;      // of the GPU: 86 is 8.6
  int64_t multiprocessors = StepSizes().multiprocessors;
  InstructionSet instructions = InstructionSet::baseline;  // of the CPU
  bool bf16_tiles = false;  // a CPU's products in bf16 are forge's own tiles (kernels/product/gemm_tiles.h), but for the reference's layers
  int64_t micro_batch_tokens = 0;                          // the most tokens of one micro-batch; of an encoder-decoder, of answers
  int64_t longest_sequence = 0;                            // tokens
  int64_t source_tokens = 0, longest_source = 0;           // the same of what an encoder reads
  GroupSizes groups;                                       // of an encoder-decoder's texts
  int64_t supervised_tokens = 0;                           // the most supervised tokens of one micro-batch
  bool several_sequences = true;                           // a micro-batch may hold more than one example
  int64_t texts = INT64_MAX;  // the most of one micro-batch; INT64_MAX: unknown
  int64_t threads = 1;  // attention's blocks on a CPU are each thread's own
  bool training = true;  // dropout applies
  bool sums_answers = false;  // the objective knows a gradient only after the sums over whole answers
};

// Sets the lists of `shape.spec`, `shape.adapter` and `shape.residual` as they are now. `sites`
// have the same `experts`.
void record_modules(ActivationShape& shape, const std::vector<AdapterSite>& sites,
                    Experts experts = Experts::one_by_one);

// Rows whose gradient is multiplied by its cotangent at once, for objectives that compare answers.
constexpr int64_t kScaledRows = 64;

// Bytes of the workspaces that LibTorch gives cuBLAS and cuBLASLt on a GPU for one thread's stream.
int64_t gpu_product_workspace(const ActivationShape& shape);

// Returns the line of log-probabilities and cotangents of answers, and of rows that are multiplied
// by them; for a score head, of its rows in fp32.
MemoryLine answer_line(const ActivationShape& shape);

// Returns the bytes of the largest conversion: a weight that is not held in the compute type is
// converted for the product that it takes part in, one at a time.
int64_t conversion_bytes(const ActivationShape& shape, const Graph& graph);

}  // namespace forge
