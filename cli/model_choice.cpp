#include "cli/model_choice.h"

#include <filesystem>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/config/names.h"
#include "core/plan/profile.h"
#include "core/run/run_folder.h"

namespace forge {
namespace {

namespace fs = std::filesystem;

std::string absolute(const std::string& path) { return fs::absolute(path).lexically_normal().string(); }

ModelChoice from_run(const std::string& folder) {
  RunState state = inspect_run(folder);
  if (!state.exists)
    throw Error(ErrorKind::environment, folder + ": is no run folder: it holds no plan.json")
        .hint("name a folder like runs/NAME, or use --model");
  ModelChoice choice;
  choice.run = plan_from_json(state.plan, folder + "/plan.json");
  bool full = choice.run->job.adapter.type == AdapterType::none;
  std::string result = absolute(folder) + (full ? "/model" : "/adapter");
  if (!is_directory(result))
    throw Error(ErrorKind::environment, folder + ": has no " + (full ? "model" : "adapter") + " yet")
        .hint("finish the run first: forge run " + folder + "/job.yaml");
  choice.model = full ? result : choice.run->job.model.path;
  if (!full) choice.adapter = result;
  if (!full) {  // the adapter was trained on the base in these blocks
    choice.quantization = choice.run->job.model.quantization;
    choice.double_quantization = choice.run->job.model.double_quantization;
  }
  choice.chat_template = template_choice(choice.run->job);
  choice.precision = choice.run->job.train.precision.value_or(Precision::fp32);
  return choice;
}

}  // namespace

ModelChoice choose_model(const Arguments& args) {
  bool names_run = !args.operands().empty();
  if (names_run == args.has("--model"))
    throw Error(ErrorKind::usage, names_run ? "a run and --model are given: expected one of them"
                                            : "expected a run folder or --model");
  if (names_run && args.has("--adapter"))
    throw Error(ErrorKind::usage, "--adapter goes with --model, not with a run");
  ModelChoice choice;
  if (names_run) {
    choice = from_run(args.operands()[0]);
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
  }
  return choice;
}

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
  request["double_quantization"] = choice.double_quantization;
  request["threads"] = threads;
  request["device"] = device.cuda ? "cuda:" + std::to_string(device.index) : "cpu";
  std::string engine_name = engine_file(pick_profile(device, hardware).engine.value);
  EngineProcess engine(find_engine(engine_name), {.threads = threads});
  return engine.request(request, on_event);
}

}  // namespace forge
