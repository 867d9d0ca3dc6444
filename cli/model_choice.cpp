#include "cli/model_choice.h"

#include <algorithm>
#include <filesystem>

#include "cli/line.h"
#include "cli/run_decision.h"
#include "core/job/names.h"
#include "core/lib/base/file.h"
#include "core/lib/base/near_path.h"
#include "core/lib/base/text.h"
#include "core/lib/hub/hub_cache.h"
#include "core/model/families/adapter_folder.h"
#include "core/model/families/described_family.h"
#include "core/plan/machine/profile.h"
#include "core/run/run_folder.h"
#include "providers/providers.h"

namespace forge {
ModelConfig model_of(const ModelChoice& choice) { return {.path = choice.model, .family = choice.family}; }

std::string shown_model(const ModelChoice& choice) { return redacted(choice.model, choice.secrets); }

ModelSpec spec_of(const ModelChoice& choice) {
  const ModelSpec spec = read_model_spec(model_of(choice));
  return choice.adapter ? spec_for(read_adapter_config(*choice.adapter), spec) : spec;
}

namespace {

namespace fs = std::filesystem;

// Returns an absolute path without a trailing slash, so that parent_path() is the containing
// folder.
std::string absolute(const std::string& path) {
  std::string whole = fs::absolute(path).lexically_normal().string();
  if (whole.size() > 1 && whole.back() == '/') whole.pop_back();
  return whole;
}

// Reads "org/name" or "org/name@revision"; returns nothing for what must be a path.
std::optional<HubRepository> repository_of(const std::string& name) {
  const size_t at = std::min(name.find('@'), name.size());
  HubRepository repository{.name = name.substr(0, at)};
  if (at < name.size()) repository.revision = name.substr(at + 1);
  const bool named = repository.name.find('/') != std::string::npos && is_hub_name(repository.name) && is_hub_revision(repository.revision);
  return named ? std::optional(repository) : std::nullopt;
}

std::optional<std::string> found_model(const std::string& name) {
  std::error_code error;
  if (!name.empty() && fs::exists(name, error)) return absolute(name);
  const std::optional<HubRepository> repository = repository_of(name);
  const HubCache cache(process_environment());
  if (!repository || cache.commit(*repository).empty()) return std::nullopt;
  return absolute(cache.snapshot(*repository));
}

bool holds(const fs::path& folder, const char* file) { return file_exists((folder / file).string()); }

// The run and the weights that a command's argument refers to.
struct Named {
  std::string run;      // the run folder; empty for an adapter without one
  std::string weights;  // the adapter or model folder to use; empty for the run's result
};

// Finds a run folder, its result or one of its checkpoints, or an adapter on its own. Otherwise
// returns nothing.
std::optional<Named> find_named(const std::string& name) {
  const std::string folder = absolute(name);
  if (holds(folder, "plan.json")) return Named{folder, ""};
  const bool adapter = holds(folder, "adapter_config.json");
  if (!adapter && !holds(folder, "model.safetensors")) return std::nullopt;
  const fs::path path(folder), parent = path.parent_path();
  const bool result = path.filename() == "adapter" || path.filename() == "model";
  if (result && holds(parent, "plan.json")) return Named{parent.string(), folder};
  if (parent.filename() == "checkpoints" && holds(parent.parent_path(), "plan.json"))
    return Named{parent.parent_path().string(), folder};
  return adapter ? std::optional(Named{"", folder}) : std::nullopt;
}

// Returns what to pass instead of something that is none of these.
std::string run_meant(const std::string& name) {
  const fs::path path = fs::path(name).lexically_normal();
  if (holds(path, "config.json") || ends_with(name, ".gguf")) return "a model is named with --model " + name;
  for (const char* ending : {".yaml", ".yml", ".json"})
    if (ends_with(name, ending))
      return "name the run folder that forge run " + name + " makes, OUTPUT_DIR/NAME: runs/" +
             path.stem().string() + " unless the job says otherwise";
  return "name a folder like runs/NAME, or use --model";
}

// Returns where to get the weights of a run that has no result yet.
std::string way_to_result(const std::string& folder, const RunState& state) {
  const std::string finish = "run its job again to finish it";
  if (!state.last_step) return finish;
  return finish + ", or name its last checkpoint: " + RunPaths{folder}.checkpoint(*state.last_step);
}

Plan plan_of_run(const std::string& folder, RunState& state) {
  if (!state.exists)
    throw Error(ErrorKind::environment, RunPaths{folder}.plan() + ": is incomplete")
        .hint("run its job again: it starts over");
  unseal(state, folder);
  return plan_from_json(state.plan, folder + "/plan.json");
}

// Takes the family file that lies with weights.
void take_family(ModelChoice& choice, const std::string& folder) {
  if (holds(folder, kFamilyFile)) choice.family = folder + "/" + kFamilyFile;
}

// Chooses the run's result, or the weights of one of its checkpoints.
ModelChoice from_run(const std::string& folder, const std::string& weights, const std::string& shown) {
  RunState state = inspect_run(folder);
  ModelChoice choice;
  choice.secrets = sealed_secrets(state.plan, process_environment());
  choice.run = plan_of_run(folder, state);
  const Job& job = choice.run->job;
  const bool full = job.adapter.type == AdapterType::none;
  const std::string result = weights.empty() ? absolute(folder) + (full ? "/model" : "/adapter") : weights;
  if (!is_directory(result))
    throw Error(ErrorKind::environment, shown + ": has no " + (full ? "model" : "adapter") + " yet")
        .hint(way_to_result(shown, state));
  if (full && !holds(result, "config.json"))
    throw Error(ErrorKind::environment, shown + ": holds no config.json; checkpoints of older versions have none")
        .hint("continue the run: its next checkpoint and its result have one");
  choice.model = full ? result : job.model.path;
  take_family(choice, result);
  choice.text = full && !weights.empty() ? job.model.path : choice.model;
  if (!full) {  // the adapter was trained on the base in this quantization
    choice.adapter = result;
    choice.quantization = job.model.quantization;
    choice.double_quantization = job.model.double_quantization;
  }
  choice.chat_template = template_choice(job);
  // The finished adapter's tokenizer has the tokens that were added.
  const std::string finished = absolute(folder) + "/adapter";
  if (!full && !job.model.add_tokens.empty() && file_exists(finished + "/tokenizer.json")) choice.text = finished;
  choice.precision = job.train.precision.value_or(Precision::fp32);
  choice.precision_reason = "as the run was trained";
  return choice;
}

// An adapter was trained on conversations as its own template writes them.
void take_adapter(ModelChoice& choice, const std::string& folder) {
  choice.adapter = folder;
  take_family(choice, folder);
  if (file_exists(folder + "/adapter_config.json") && spec_of(choice).base_vocab_size > 0 && file_exists(folder + "/tokenizer.json"))
    choice.text = folder;
  if (find_chat_template(folder, /*with_tools=*/false)) choice.chat_template.folder = folder;
}

// Chooses the adapter on the base named in its adapter_config.json, if that is on this machine.
ModelChoice from_adapter(const std::string& folder, const std::string& shown) {
  const std::string base = base_model_of(folder);
  const std::optional<std::string> found = found_model(base);
  if (!found)
    throw Error(ErrorKind::environment, shown + ": is an adapter of " + (base.empty() ? "a model that it does not name" : base) +
                                            ", which is not on this machine")
        .hint("name its model: --model MODEL --adapter " + shown);
  ModelChoice choice;
  choice.model = choice.text = *found;
  take_adapter(choice, folder);
  return choice;
}

// Warns if the base has changed: the adapter was trained on the base as it was.
void warn_of_changed_base(const ModelChoice& choice, const std::string& folder, Progress& progress) {
  const bool on_base = choice.adapter && !choice.run->start_files.empty();
  if (!on_base) return;
  std::vector<StartFile> before = choice.run->start_files;
  std::erase_if(before, [](const StartFile& file) { return !is_model_file(file); });
  KnownHashes hashes = known_hashes(fs::path(folder).parent_path().string(), progress);
  const std::vector<StartFile> now = model_files(choice.model, hashes);
  hashes.save();
  progress.clear();
  for (const std::string& name : changed_files(before, now))
    progress.warn(path_of_start_file(choice.run->job, name) +
                  " has changed since the run was trained with it");
}

// Returns the run's own provider; without a run, or on another device, the first provider that can
// compute the model.
std::string provider_of(const ModelChoice& choice, const Device& device) {
  ActivationShape shape;
  shape.precision = choice.precision, shape.quantization = choice.quantization;
  shape.spec = spec_of(choice), shape.cuda = device.cuda, shape.capability = device.gpu.compute_capability;
  std::vector<AdapterSite> sites;
  if (choice.adapter) {
    const AdapterFile file = read_adapter_config(*choice.adapter);
    shape.spec = spec_for(file, shape.spec), shape.adapter = file.config;
    sites = sites_of(file, shape.spec);
  }
  record_modules(shape, sites);
  return able_provider(choice.run ? choice.run->provider : "", shape).name;
}

const Device& device_of(const ModelChoice& choice) {
  FORGE_CHECK(choice.device, "no device was chosen for " << choice.model);
  return *choice.device;
}

int64_t threads_of(const Arguments& args, const Device& device) { return args.integer("--threads", device.cpu.cores, 1, 4096); }

void add_model(Json& request, const ModelChoice& choice, const Arguments& args, const Device& device) {
  request["model"] = choice.model;
  request["family"] = choice.family ? Json(*choice.family) : Json(nullptr);
  request["adapter"] = choice.adapter ? Json(*choice.adapter) : Json(nullptr);
  request["precision"] = name_of(choice.precision);
  request["quantization"] = name_of(choice.quantization);
  request["provider"] = provider_of(choice, device);
  request["double_quantization"] = choice.double_quantization;
  request["threads"] = threads_of(args, device);
  request["device"] = device.cuda ? "cuda:" + std::to_string(device.index) : "cpu";
}

std::unique_ptr<EngineProcess> start_engine(const Arguments& args, const Device& device) {
  return std::make_unique<EngineProcess>(engine_of(device, pick_profile(device, {}).engine.value),
                                         EngineSettings{.threads = threads_of(args, device)});
}

}  // namespace

std::string model_path(const std::string& name) {
  if (holds(name, "plan.json") && !holds(name, "config.json"))
    throw Error(ErrorKind::environment, name + ": is a run, expected a model").hint("name the run by itself, without --model");
  if (std::optional<std::string> found = found_model(name)) return *found;
  if (!repository_of(name)) return absolute(name);  // whoever opens it says what is missing
  throw Error(ErrorKind::environment, name + ": there is no such file or folder, nor is it in the hub's cache")
      .hint(near_path_hint(
          name, "check the path; a model of the hub is downloaded by: forge fetch " + name.substr(0, name.find('@'))));
}

std::string adapter_path(const std::string& name) {
  const std::string folder = absolute(name);
  return !holds(folder, "adapter_config.json") && holds(folder + "/adapter", "adapter_config.json") ? folder + "/adapter" : folder;
}

std::optional<Plan> run_of(const std::string& folder) {
  const std::optional<Named> named = find_named(folder);
  if (!named || named->run.empty()) return std::nullopt;
  RunState state = inspect_run(named->run);
  return plan_of_run(named->run, state);
}

ModelChoice choose_named(const std::string& name, Progress& progress) {
  const std::optional<Named> named = find_named(name);
  if (!named)
    throw Error(ErrorKind::environment,
                name + (fs::exists(name) ? ": is not a run folder: it holds no plan.json" : ": there is no such run folder"))
        .hint(fs::exists(name) ? run_meant(name) : near_path_hint(name, run_meant(name)));
  if (named->run.empty()) return from_adapter(named->weights, name);
  ModelChoice choice = from_run(named->run, named->weights, name);
  progress.hide(choice.secrets);
  warn_of_changed_base(choice, named->run, progress);
  return choice;
}

void require_run_or_model(const Arguments& args, bool names_run, const std::string& expected,
                          const std::string& hint) {
  if (names_run && args.has("--model"))
    throw Error(ErrorKind::usage, "a run and --model are given: expected one of them");
  if (!names_run && !args.has("--model")) throw Error(ErrorKind::usage, expected).hint(hint);
  if (names_run && args.has("--adapter"))
    throw Error(ErrorKind::usage, "--adapter goes with --model, not with a run");
}

ModelChoice choose_model(const Arguments& args, Progress& progress, const std::string& run_option) {
  std::optional<std::string> run;
  if (!run_option.empty()) run = args.text(run_option);
  else if (!args.operands().empty()) run = args.operands()[0];
  require_run_or_model(args, run.has_value(), "expected a run folder or --model",
                       "name a folder like runs/NAME, or a model with --model");
  ModelChoice choice;
  if (run) {
    choice = choose_named(*run, progress);
  } else {
    choice.model = choice.text = model_path(*args.text("--model"));
    if (args.has("--adapter")) take_adapter(choice, adapter_path(*args.text("--adapter")));
  }
  if (std::optional<std::string> name = args.text("--template"))
    choice.chat_template = {ends_with(*name, ".jinja") ? absolute(*name) : *name, {}, choice.chat_template.added_tokens, ""};
  if (std::optional<std::string> name = args.text("--precision")) {
    std::optional<Precision> precision = enum_of<Precision>(*name);
    if (!precision)
      throw Error(ErrorKind::usage, "--precision " + *name + ": expected " + join(names(Precision()), ", "));
    choice.precision = *precision;
    choice.precision_reason = "--precision";
  }
  choice.device = chosen_device(args, progress);
  return choice;
}

Device chosen_device(const Arguments& args, Progress& progress) {
  HardwareConfig hardware;
  hardware.device = args.text("--device").value_or("auto");
  DeviceChoice choice = choose_device(probe_hardware(), hardware, fault_here, "--device");
  if (!choice.warning.empty()) progress.warn(choice.warning);
  return choice.device;
}

Json compute(Json request, const ModelChoice& choice, const Arguments& args, const EngineProcess::OnEvent& on_event) {
  const Device& device = device_of(choice);
  add_model(request, choice, args, device);
  return start_engine(args, device)->request(request, on_event);
}

Json ModelEngine::turn(Json request, const EngineProcess::OnEvent& on_event) {
  const Device& device = device_of(choice_);
  add_model(request, choice_, args_, device);
  request["turns"] = true;
  std::unique_ptr<EngineProcess> engine = engine_ ? std::move(engine_) : start_engine(args_, device);
  Json turn = engine->turn(request, on_event);
  engine_ = std::move(engine);
  return turn;
}

}  // namespace forge
