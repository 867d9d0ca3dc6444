#pragma once
// The model that a command works with: --model and --adapter, or a run's result, one of its
// checkpoints, or an adapter folder.
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/engine_process.h"
#include "cli/progress.h"
#include "core/job/secrets.h"
#include "core/model/families/model_spec.h"
#include "core/plan/plan.h"
#include "core/run/model_text.h"

namespace forge {

struct ModelChoice {
  std::string model;                   // absolute path of a folder or a .gguf file
  std::string text;                    // where its tokenizer is: the model, but for a checkpoint of full fine-tuning
  std::optional<std::string> family;   // a family file for the model's class; else the model's folder may have one
  std::optional<std::string> adapter;  // absolute path of a PEFT folder
  std::optional<Plan> run;             // the plan of the run it came from
  TemplateChoice chat_template;
  Precision precision = Precision::fp32;
  std::string precision_reason = "the default without a run";
  // Quantization of a run's base as it was trained on. The base that --model names is taken as it
  // is.
  Quantization quantization = Quantization::none;
  bool double_quantization = false;
  std::vector<Secret> secrets;   // of the run; its paths may contain them
  std::optional<Device> device;  // where it is computed; choose_model sets it, others before they compute
};

// Returns the model that a command or an adapter names, as an absolute path: a folder or file, else
// org/name (org/name@revision) in the hub's cache on this machine. Throws Error(environment) for a
// name that is neither.
std::string model_path(const std::string& name);

// Returns the folder of the adapter that an argument names, as an absolute path: the folder itself,
// or a run's result.
std::string adapter_path(const std::string& name);
// Returns the plan of the run whose result or checkpoint this folder is; nothing for any other
// folder.
std::optional<Plan> run_of(const std::string& folder);

// Returns the model as a job names it.
ModelConfig model_of(const ModelChoice& choice);
// Returns the model's path as files that are passed on may name it.
std::string shown_model(const ModelChoice& choice);

// Returns the model with what its adapter adds: a score head, or rows of tokens.
ModelSpec spec_of(const ModelChoice& choice);

// Throws Error(usage) when a run and --model or --adapter are given, and the message `expected`
// when neither a run nor --model is.
void require_run_or_model(const Arguments& args, bool names_run, const std::string& expected,
                          const std::string& hint = "");

// The options that these commands share.
inline constexpr Option kModelOptions[] = {
    {"--model", "PATH",
     "Hugging Face folder, .gguf file, or org/name[@revision] in the hub's cache (see forge "
     "fetch)"},
    {"--adapter", "DIR", "PEFT adapter for the model, or a run that trained one"},
    {"--template", "NAME",
     "chat template: auto (the adapter's or the model's own), a bundled name or a .jinja file"},
    {"--precision", "NAME", "fp32, bf16 or fp16 (default: the run's, or fp32)"},
    {"--threads", "N", "number of threads (default: all cores)"},
    {"--device", "NAME", "auto, cpu or cuda:N"},
};

// Chooses the model from the options, or from what the operand names: a run folder, its adapter/ or
// model/, one of its checkpoints, or an adapter whose adapter_config.json says where its base model
// is. Warns of a base model that changed since the run. Throws Error(usage) when neither or both
// are given, and Error(environment) for what is missing on the disk.
// `run_option` is the option that names the run, if it is not the operand.
ModelChoice choose_model(const Arguments& args, Progress& progress,
                         const std::string& run_option = "");
// Chooses the model from an argument alone, for commands with other options.
ModelChoice choose_named(const std::string& operand, Progress& progress);

// Returns the device that the engine will compute on, by --device. Warns if auto passes a GPU over:
// call it once in a command.
Device chosen_device(const Arguments& args, Progress& progress);

// An engine that fits the device, started with the first request of a conversation.
class ModelEngine {
 public:
  // Keeps references to both.
  ModelEngine(const ModelChoice& choice, const Arguments& args) : choice_(choice), args_(args) {}
  // Calls EngineProcess::turn with `request`, to which the fields of compute() are added. After an
  // engine has ended, the next call starts a new one.
  Json turn(Json request, const EngineProcess::OnEvent& on_event);

 private:
  const ModelChoice& choice_;
  const Arguments& args_;
  std::unique_ptr<EngineProcess> engine_;
};

// Starts the engine that fits the device, and adds to `request` what the commands share: model,
// adapter, precision, quantization, provider, threads, device. Returns the engine's `done` event.
Json compute(Json request, const ModelChoice& choice, const Arguments& args,
             const EngineProcess::OnEvent& on_event);

}  // namespace forge
