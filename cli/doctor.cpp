// forge doctor: does this installation work? One line per item, with what to do if it does not.
// Each engine that a plan of this machine can take is started and computes a little on each of its
// devices.
#include <unistd.h>

#include <filesystem>
#include <map>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/engine_process.h"
#include "core/lib/base/file.h"
#include "core/lib/base/printable.h"
#include "core/lib/base/text.h"
#include "core/lib/io/parquet.h"
#include "core/lib/net/http.h"
#include "core/plan/machine/card_fault.h"
#include "core/run/report.h"
#include "forge_build.h"

namespace forge::doctor_command {
namespace {

struct Finding {
  std::string what, state, found;  // state: ok, problem or note
  std::string remedy = {};
};

// A device of the machine, its engine, and why forge cannot compute on it.
struct Usable {
  Device device;
  std::string engine;  // of the plan; empty for a card that no engine computes on
  std::string fault;   // empty: it was computed on
};

std::string name_of_device(const Device& device) {
  return device.cuda ? "cuda:" + std::to_string(device.index) : "cpu";
}

// The outcome of starting an engine.
struct Answer {
  Finding finding;
  std::map<std::string, std::string> devices;  // "cuda:0" → "ok", or what went wrong there
};

Answer ask_engine(const std::string& what, const EngineLocation& location) {
  try {
    Json hello;
    EngineProcess engine(location, {});
    const Json info = engine.request({{"command", "info"}}, [&](const Json& event) {
      if (event.value("event", "") == "hello") hello = event;
    });
    Answer answer;
    std::string said = "LibTorch " + hello.value("torch", "?") + ", " +
                       format_count(hello.value("threads", 0)) + " threads";
    std::vector<std::string> faults;
    for (const Json& check : info.value("checks", Json::array())) {
      const std::string device = check.at("device"), found = check.at("found");
      answer.devices[device] = found;
      if (found == "ok")
        said += ", " + device + " computes";
      else
        faults.push_back(device + ": " + found);
    }
    const std::string collectives = info.value("collectives", "");
    if (collectives == "ok") said += ", NCCL sums over one rank";
    if (!collectives.empty() && collectives != "ok") faults.push_back("NCCL: " + collectives);
    const std::string found = faults.empty() ? said : join(faults, "; ");
    const bool full = found.find("out of memory") != std::string::npos;
    answer.finding = {what, faults.empty() ? "ok" : "problem", found,
                      full ? "nvidia-smi shows what else uses the GPU" : ""};
    return answer;
  } catch (const Error& error) {
    return {{what, "problem", error.what(), error.hint()}, {}};
  }
}

// Looks for an engine and for its libraries, and starts it. The answer's finding is the first
// fault.
Answer examine_engine(const std::string& engine, std::vector<Finding>& findings) {
  const std::string title = engine == "cpu" ? "engine" : "CUDA engine";
  const EngineSearch search = search_engine(engine_file(engine));
  Answer answer;
  if (search.engine_fault) {
    answer.finding = {title, "problem", search.engine_fault.what, search.engine_fault.remedy};
  } else {
    findings.push_back({title, "ok", search.location.program});
    const std::vector<std::string> missing =
        search.torch_fault ? std::vector<std::string>() : missing_libraries(search.location);
    if (search.torch_fault)  // a finding of its own
      answer.finding = {title + " starts", "note", "not tried without LibTorch"};
    else if (!missing.empty())
      answer.finding = {title + "'s libraries", "problem", "not found: " + join(missing, ", "),
                        library_remedy(missing)};
    else
      answer = ask_engine(title + " starts", search.location);
  }
  findings.push_back(answer.finding);
  return answer;
}

Finding check_torch() {
  const EngineSearch search = search_engine();
  if (search.torch_fault)
    return {"LibTorch", "problem", search.torch_fault.what, search.torch_fault.remedy};
  return {"LibTorch", "ok", search.location.torch_version + " in " + search.location.torch_folder};
}

// Looks for a component, without which only the commands that need it fail.
Finding check_component(const std::string& what, void (*require)()) {
  try {
    require();
    return {what, "ok", "its component loads"};
  } catch (const Error& error) {
    return {what, "note", error.what(), error.hint()};
  }
}

Finding check_writable(const std::string& folder) {
  if (::access(folder.c_str(), W_OK) == 0) return {"write access", "ok", folder};
  return {"write access", "problem", folder + " cannot be written",
          "work in a folder of your own, or set output_dir"};
}

Finding check_disk() {
  const int64_t free = free_disk_bytes(".");
  constexpr int64_t kLittle = int64_t{2} << 30;
  return {"disk", free < kLittle ? "problem" : "ok", format_bytes(free) + " free here",
          free < kLittle ? "checkpoints need room: free some, or set output_dir" : ""};
}

// Returns the line for a card with what is known against it. A card that no engine computes on is
// no fault of the installation.
Finding card_finding(const Usable& card, const CardFault& fault) {
  const GpuInfo& gpu = card.device.gpu;
  const std::string found = name_of_device(card.device) + " " + gpu.name + ", " +
                            format_bytes(gpu.free_bytes) + " free of " +
                            format_bytes(gpu.memory_bytes) +
                            (gpu.driver.empty() ? "" : ", driver " + gpu.driver);
  if (!fault) return {"GPU", "ok", found};
  return {"GPU", card.engine.empty() ? "note" : "problem", found + ": " + fault.what,
          fault.remedy + (fault.remedy.empty() ? "" : "; ") +
              "hardware.device: cpu computes without it"};
}

struct Examination {
  std::vector<Finding> findings;
  std::vector<Usable> devices;
  void add(Finding finding) { findings.push_back(std::move(finding)); }
};

// Checks the cards by what can be known of them without an engine.
void examine_cards(const Hardware& hardware, Examination& all) {
  for (size_t index = 0; index < hardware.gpus.size(); ++index) {
    HardwareConfig config;
    config.device = "cuda:" + std::to_string(index);
    Usable card{choose_device(hardware, config).device, "", ""};
    card.engine = engine_for(card.device);
    CardFault fault = card_fault(card.device);
    if (!fault && !engine_stated())
      fault = generation_fault(hardware.gpus[index].compute_capability, kCudaTargets);
    card.fault = fault.what;
    all.add(card_finding(card, fault));
    all.devices.push_back(std::move(card));
  }
  if (hardware.gpus.empty())
    all.add({"GPU", hardware.gpu_fault ? "problem" : "note", "none: " + hardware.gpu_note});
}

// Starts each engine that a plan of this machine can take, and notes the outcome on each of its
// devices.
void examine_engines(Examination& all) {
  std::map<std::string, Answer> answers;
  for (const Usable& device : all.devices)
    if (device.fault.empty() && !answers.contains(device.engine))
      answers[device.engine] = examine_engine(device.engine, all.findings);
  for (Usable& device : all.devices) {
    if (!device.fault.empty()) continue;
    const Answer& answer = answers[device.engine];
    const std::string name = name_of_device(device.device);
    if (const auto found = answer.devices.find(name); found != answer.devices.end()) {
      device.fault = found->second == "ok" ? "" : found->second;
    } else if (answer.finding.state != "ok") {
      device.fault = answer.finding.found;
    } else if (device.device.cuda) {  // an engine with CUDA tries its GPUs alone
      device.fault = "the engine started and does not see it";
      all.add({name, "problem", device.fault,
               "nvidia-smi must list it here: after an update of the driver restart the machine, "
               "and pass the card to a container; hardware.device: cpu computes without it"});
    }
  }
}

Examination examine() {
  Examination all;
  all.add({"forge", "ok", std::string(kForgeVersion) + ", built with " + kCompiler});
  all.add({"system", "ok", environment_of({}, "").at("system")});
  const Hardware hardware = probe_hardware();
  const CpuInfo& cpu = hardware.cpu;
  all.add({"processor", "ok",
           cpu.name + ", " + format_count(cpu.cores) + " cores for this process"});
  all.add({"memory", "ok",
           format_bytes(cpu.available_bytes) + " free of " + format_bytes(cpu.memory_bytes)});
  Usable processor{{}, "cpu", ""};
  processor.device.cpu = cpu;
  all.devices.push_back(processor);
  examine_cards(hardware, all);
  all.add(check_torch());
  examine_engines(all);
  const auto known = [&](const Device& device) {
    return CardFault{all.devices[static_cast<size_t>(device.index) + 1].fault, ""};
  };
  if (std::string idle = choose_device(hardware, {}, known).idle; !idle.empty())
    all.add({"idle GPUs", "note", idle});
  all.add(check_component("HTTP", require_http));
  all.add(check_component("Parquet", require_parquet));
  all.add(check_disk());
  all.add(check_writable(std::filesystem::current_path().string()));
  return all;
}

Json json_of(const std::vector<Usable>& devices) {
  Json list = Json::array();
  for (const Usable& device : devices)
    list.push_back({{"device", name_of_device(device.device)},
                    {"name", device.device.name()},
                    {"engine", device.engine.empty() ? Json() : Json(device.engine)},
                    {"usable", device.fault.empty()},
                    {"fault", device.fault}});
  return list;
}

int run(const Arguments& args) {
  const Examination all = examine();
  bool healthy = true;
  Json list = Json::array();
  std::vector<std::vector<std::string>> rows;
  for (const Finding& finding : all.findings) {
    healthy &= finding.state != "problem";
    list.push_back({{"what", finding.what},
                    {"state", finding.state},
                    {"found", finding.found},
                    {"remedy", finding.remedy}});
    rows.push_back({finding.state, finding.what, finding.found});
    if (!finding.remedy.empty()) rows.push_back({"", "", "→ " + finding.remedy});
  }
  print_either(args.json(), {{"healthy", healthy}, {"devices", json_of(all.devices)}, {"findings", list}},
               printable(format_table(rows)));
  return healthy ? 0 : exit_code(ErrorKind::environment);
}

}  // namespace

constexpr Command kCommand{
    "doctor", "", 0, 0, "check the installation and suggest fixes", {}, run};

}  // namespace forge::doctor_command
