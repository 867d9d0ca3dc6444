#pragma once
// Holds everything a run computes with, built once from its plan: model, trainable tensors,
// adapter, provider, optimizer.
#include <memory>
#include <string>
#include <vector>

#include "core/model/adapter/lora.h"
#include "core/model/families/adapter_sites.h"
#include "core/plan/plan.h"
#include "core/train/network.h"
#include "core/train/optim/optimizer.h"
#include "core/train/pass.h"
#include "kernels/device/device.h"

namespace forge {

// Events go to the program and to the run folder; see docs/engine-protocol.md.
using EventSink = std::function<void(const Json&)>;

class Reference;
class ValueNetwork;

struct Session {
  explicit Session(const Plan& plan);
  ~Session();

  Plan plan;
  Job job;  // plan.job, here because everything below refers to it
  c10::Device device = c10::DeviceType::CPU;
  World world;  // of one rank
  std::string model_name;  // the base model as result files name it: job.model.path without secrets
  std::vector<AdapterSite> sites;
  ResidualInit residual;
  // Memory that the policy's step and the reference's share in turn.
  std::shared_ptr<DeviceBlock> arena = std::make_shared<DeviceBlock>();
  // The base's own weights, without the adapter, if the reference is computed with them.
  std::optional<Model> base;
  Model model;
  std::unique_ptr<TrainableSet> trainables;
  std::unique_ptr<StepProvider> provider;
  std::unique_ptr<Network> network;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Reference> reference;  // null: the objective compares with none
  std::unique_ptr<ValueNetwork> value;   // null: the objective has none
};

struct SessionStart {
  bool fresh = true;  // the adapter gets its first values (or init_from's); else a checkpoint will be loaded over them
  bool base = false;  // `base` is kept where the job has no use for it, too
};
// Loads the base model and prepares the rest. Throws what reading the files throws.
std::unique_ptr<Session> open_session(const Plan& plan, const SessionStart& begins, const EventSink& emit);
// True if the run reads its base's own weights: the reference differs from the model at the start
// of training.
bool reads_base(const Job& job);

// Returns the weights of a job's model, whose names and shapes were compared with `spec`; with
// init: random, drawn ones.
std::unique_ptr<TensorFile> open_base(const ModelConfig& config, int64_t seed, const ModelSpec& spec);

// Moves the weights that are trained themselves into the trainable buffers, and points the model at
// them. `tied`: the head is the embedding.
void adopt_trained_weights(Model& model, TrainableSet& trainables, bool tied);

// A model alone, with an adapter folder applied, for evaluation and generation. A base that was
// quantised for training is quantised here alike, from path, quantization and double_quantization
// of `model`. Otherwise, if it only `decodes`, it stays in the blocks of its GGUF
// (BaseStorage::stored_blocks).
struct LoadedModel {
  Quantization quantization = Quantization::none;
  AdapterConfig adapter;
  std::vector<AdapterSite> sites;
  Model model;
  std::unique_ptr<TrainableSet> trainables;
};
LoadedModel open_model_with_adapter(const ModelConfig& model, const std::string& adapter_folder,
                                    Precision precision, c10::Device device, bool decodes = false);
// Returns `job` with the model's adapter and quantization. In fp16 the stream is fp32 whatever a
// run's was: a model that was trained with such a stream may pass fp16's range.
Job job_of(const LoadedModel& loaded, Job job = {});

// Writes the result of the run: the adapter folder, or model/ after full fine-tuning, with
// tokenizer and template. It appears at once under run_folder.
std::string export_result(const Session& session, const std::string& run_folder);

}  // namespace forge
