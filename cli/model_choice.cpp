#include "cli/model_choice.h"

#include <filesystem>

#include "cli/console.h"
#include "cli/line.h"
#include "cli/run_decision.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/config/names.h"
#include "core/plan/adapter_folder.h"
#include "core/plan/profile.h"
#include "core/run/run_folder.h"
#include "providers/providers.h"

namespace forge {
namespace {

namespace fs = std::filesystem;

std::string absolute(const std::string& path) { return fs::absolute(path).lexically_normal().string(); }

// What to name instead of something that is no run folder.
std::string run_meant(const std::string& name) {
  const fs::path path = fs::path(name).lexically_normal();
  const auto has = [&](const fs::path& folder, const char* file) {
    return file_exists((folder / file).string());
  };
  if (has(path, "adapter_config.json")) {
    for (fs::path above = path.parent_path(); !above.empty() && above != above.parent_path();
         above = above.parent_path())
      if (has(above, "plan.json"))
        return "name the run, " + above.string() +
               ", or this adapter with its model: --model MODEL --adapter " + name;
    return "an adapter goes with its model: --model MODEL --adapter " + name;
  }
  if (has(path, "config.json") || ends_with(name, ".gguf")) return "a model is named with --model " + name;
  for (const char* ending : {".yaml", ".yml", ".json"})
    if (ends_with(name, ending))
      return "name the run folder that forge run " + name + " makes, OUTPUT_DIR/NAME: runs/" +
             path.stem().string() + " unless the job says otherwise";
  return "name a folder like runs/NAME, or use --model";
}

// Where the weights of a run without a result can be had today.
std::string way_to_result(const std::string& folder, const RunState& state, const ModelChoice& choice,
                          bool full) {
  const std::string finish = "run its job again to finish it";
  if (full || !state.last_step) return finish;
  return finish + ", or use its last checkpoint: --model " + choice.run->job.model.path + " --adapter " +
         RunPaths{folder}.checkpoint(*state.last_step);
}

ModelChoice from_run(const std::string& folder) {
  if (!file_exists(RunPaths{folder}.plan()))
    throw Error(ErrorKind::environment,
                folder + (fs::exists(folder) ? ": is no run folder: it holds no plan.json"
                                             : ": there is no such run folder"))
        .hint(run_meant(folder));
  RunState state = inspect_run(folder);
  if (!state.exists)
    throw Error(ErrorKind::environment, RunPaths{folder}.plan() + ": is not whole")
        .hint("run its job again: it starts over");
  unseal(state, folder);
  ModelChoice choice;
  choice.run = plan_from_json(state.plan, folder + "/plan.json");
  bool full = choice.run->job.adapter.type == AdapterType::none;
  std::string result = absolute(folder) + (full ? "/model" : "/adapter");
  if (!is_directory(result))
    throw Error(ErrorKind::environment, folder + ": has no " + (full ? "model" : "adapter") + " yet")
        .hint(way_to_result(folder, state, choice, full));
  choice.model = full ? result : choice.run->job.model.path;
  if (!full) choice.adapter = result;
  if (!full) {  // the adapter was trained on the base in these blocks
    choice.quantization = choice.run->job.model.quantization;
    choice.double_quantization = choice.run->job.model.double_quantization;
  }
  choice.chat_template = template_choice(choice.run->job);
  choice.precision = choice.run->job.train.precision.value_or(Precision::fp32);
  choice.precision_reason = "as the run was trained";
  return choice;
}

// The adapter was trained on the base as it was.
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

}  // namespace

ModelChoice choose_model(const Arguments& args, Progress& progress) {
  return choose_model(args, args.operands().empty() ? std::nullopt : std::optional(args.operands()[0]), progress);
}

ModelChoice choose_model(const Arguments& args, const std::optional<std::string>& run, Progress& progress) {
  const bool names_run = run.has_value();
  if (names_run == args.has("--model"))
    throw Error(ErrorKind::usage, names_run ? "a run and --model are given: expected one of them"
                                            : "expected a run folder or --model")
        .hint(names_run ? "" : "name a folder like runs/NAME, or a model with --model");
  if (names_run && args.has("--adapter"))
    throw Error(ErrorKind::usage, "--adapter goes with --model, not with a run");
  ModelChoice choice;
  if (names_run) {
    choice = from_run(*run);
    warn_of_changed_base(choice, absolute(*run), progress);
  } else {
    choice.model = absolute(*args.text("--model"));
    if (args.has("--adapter")) choice.adapter = absolute(*args.text("--adapter"));
    // An adapter was trained on conversations as its own template writes them.
    if (choice.adapter && find_chat_template(*choice.adapter, /*with_tools=*/false))
      choice.chat_template.folder = *choice.adapter;
  }
  if (std::optional<std::string> name = args.text("--template"))
    choice.chat_template = {ends_with(*name, ".jinja") ? absolute(*name) : *name, {}, ""};
  if (std::optional<std::string> name = args.text("--precision")) {
    std::optional<Precision> precision = enum_of<Precision>(*name);
    if (!precision)
      throw Error(ErrorKind::usage, "--precision " + *name + ": expected " + join(names(Precision()), ", "));
    choice.precision = *precision;
    choice.precision_reason = "--precision";
  }
  return choice;
}

namespace {

// The run's own; without one, or on another device, who can.
std::string provider_of(const ModelChoice& choice, const Device& device) {
  ActivationShape shape{.spec = read_model_spec(choice.model), .cuda = device.cuda, .capability = device.gpu.compute_capability};
  if (choice.adapter) shape.adapter = read_adapter_config(*choice.adapter).config;
  return able_provider(choice.run ? choice.run->provider : "", shape).name;
}

}  // namespace

Json compute(Json request, const ModelChoice& choice, const Arguments& args,
             const EngineProcess::OnEvent& on_event) {
  HardwareConfig hardware;
  hardware.device = args.text("--device").value_or("auto");
  Device device = choose_device(probe_hardware(), hardware);
  int64_t threads = args.integer("--threads", device.cpu.cores, 1, 4096);
  request["model"] = choice.model;
  request["adapter"] = choice.adapter ? Json(*choice.adapter) : Json(nullptr);
  request["precision"] = name_of(choice.precision);
  request["quantization"] = name_of(choice.quantization);
  request["provider"] = provider_of(choice, device);
  request["double_quantization"] = choice.double_quantization;
  request["threads"] = threads;
  request["device"] = device.cuda ? "cuda:" + std::to_string(device.index) : "cpu";
  std::string engine_name = engine_file(pick_profile(device, hardware).engine.value);
  EngineProcess engine(find_engine(engine_name), {.threads = threads});
  return engine.request(request, on_event);
}

}  // namespace forge
