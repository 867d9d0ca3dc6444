// forge doctor: does this installation work? One line per item, with what to do if it does not.
#include <sys/utsname.h>
#include <unistd.h>

#include <filesystem>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/engine_process.h"
#include "core/base/file.h"
#include "core/base/printable.h"
#include "core/base/text.h"
#include "core/plan/machine/hardware.h"
#include "forge_build.h"

namespace forge {
namespace {

struct Finding {
  std::string what, state, found, remedy;  // state: ok, problem or note
};

Finding check_engine_answer(const EngineSearch& search) {
  if (!search.engine_fault.empty() || !search.torch_fault.empty())
    return {"engine starts", "note", "not tried", ""};
  try {
    Json info;
    EngineProcess engine(search.location, {});
    engine.request({{"command", "info"}}, [&](const Json& event) {
      if (event.value("event", "") == "hello") info = event;
    });
    return {"engine starts", "ok",
            "LibTorch " + info.value("torch", "?") + ", device " + info.value("device", "?") + ", " +
                format_count(info.value("threads", 0)) + " threads",
            ""};
  } catch (const Error& error) {
    return {"engine starts", "problem", error.what(), error.hint()};
  }
}

Finding check_writable(const std::string& folder) {
  if (::access(folder.c_str(), W_OK) == 0) return {"write access", "ok", folder, ""};
  return {"write access", "problem", folder + " cannot be written",
          "work in a folder of your own, or set output_dir"};
}

std::vector<Finding> machine_findings(const Hardware& hardware) {
  const CpuInfo& cpu = hardware.cpu;
  std::vector<Finding> findings{
      {"processor", "ok", cpu.name + ", " + format_count(cpu.cores) + " cores for this process", ""},
      {"memory", "ok", format_bytes(cpu.available_bytes) + " free of " + format_bytes(cpu.memory_bytes), ""}};
  for (const GpuInfo& gpu : hardware.gpus)
    findings.push_back({"GPU", "ok",
                        gpu.name + ", " + format_bytes(gpu.free_bytes) + " free of " + format_bytes(gpu.memory_bytes) +
                            (gpu.driver.empty() ? "" : ", driver " + gpu.driver),
                        ""});
  if (hardware.gpus.empty()) findings.push_back({"GPU", "note", "none: " + hardware.gpu_note, ""});
  return findings;
}

std::vector<Finding> examine() {
  std::vector<Finding> findings;
  utsname system{};
  ::uname(&system);
  findings.push_back({"forge", "ok", std::string(kForgeVersion) + ", built with " + kCompiler, ""});
  findings.push_back(
      {"system", "ok", std::string(system.sysname) + " " + system.release + " " + system.machine, ""});
  for (Finding& finding : machine_findings(probe_hardware())) findings.push_back(std::move(finding));
  EngineSearch search = search_engine();
  findings.push_back(search.engine_fault.empty()
                         ? Finding{"engine", "ok", search.location.program, ""}
                         : Finding{"engine", "problem", search.engine_fault, search.engine_hint});
  findings.push_back(search.torch_fault.empty()
                         ? Finding{"LibTorch", "ok",
                                   search.location.torch_version + " in " + search.location.torch_folder, ""}
                         : Finding{"LibTorch", "problem", search.torch_fault, search.torch_hint});
  findings.push_back(check_engine_answer(search));
  int64_t free = free_disk_bytes(".");
  constexpr int64_t kLittle = int64_t{2} << 30;
  findings.push_back({"disk", free < kLittle ? "problem" : "ok", format_bytes(free) + " free here",
                      free < kLittle ? "checkpoints need room: free some, or set output_dir" : ""});
  findings.push_back(check_writable(std::filesystem::current_path().string()));
  return findings;
}

int run(const Arguments& args) {
  std::vector<Finding> findings = examine();
  bool healthy = true;
  Json list = Json::array();
  std::vector<std::vector<std::string>> rows;
  for (const Finding& finding : findings) {
    healthy &= finding.state != "problem";
    list.push_back({{"what", finding.what},
                    {"state", finding.state},
                    {"found", finding.found},
                    {"remedy", finding.remedy}});
    rows.push_back({finding.state, finding.what, finding.found});
    if (!finding.remedy.empty()) rows.push_back({"", "", "→ " + finding.remedy});
  }
  if (args.json())
    print_json({{"healthy", healthy}, {"findings", list}});
  else
    print(printable(format_table(rows)));
  return healthy ? 0 : exit_code(ErrorKind::environment);
}

}  // namespace

extern const Command kDoctorCommand;
constexpr Command kDoctorCommand{
    "doctor", "", 0, 0, "the installation: what is found, what is wrong, what to do", {}, run};

}  // namespace forge
