#include "core/plan/machine/hardware.h"

#include <sched.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "core/lib/base/text.h"
#include "core/lib/io/members.h"

namespace forge {
namespace {

std::string content(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Reads "name   : value" lines; the first of each name counts.
std::map<std::string, std::string> colon_table(const std::string& text) {
  std::map<std::string, std::string> table;
  for (const std::string& line : split(text, '\n')) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    table.emplace(trim(std::string_view(line).substr(0, colon)),
                  trim(std::string_view(line).substr(colon + 1)));
  }
  return table;
}

// Returns the whole number at the start of the text, or -1 ("max", nothing).
int64_t leading_number(const std::string& text) {
  if (text.empty() || text[0] < '0' || text[0] > '9') return -1;
  return static_cast<int64_t>(std::min(std::stod(text), 9e18));
}

int64_t affinity_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

// Returns the folders of this process's control group, from its own up to the root: limits of all
// of them apply. `controller` is empty for version 2. In a container the path of /proc/self/cgroup
// may be the host's; then only the root exists.
std::vector<std::string> cgroup_folders(const SystemRoot& root, const std::string& controller) {
  std::string path;
  for (const std::string& line : split(content(root.proc + "/self/cgroup"), '\n')) {
    const std::vector<std::string> parts = split(line, ':');
    if (parts.size() < 3) continue;
    const std::vector<std::string> controllers = split(parts[1], ',');
    const bool mine = controller.empty() ? parts[1].empty()
                                         : std::find(controllers.begin(), controllers.end(), controller) !=
                                               controllers.end();
    if (mine) path = parts[2];
  }
  const std::string base = controller.empty() ? root.cgroup : root.cgroup + "/" + controller;
  std::vector<std::string> folders;
  for (; path.size() > 1; path = path.substr(0, path.rfind('/'))) folders.push_back(base + path);
  folders.push_back(base);
  return folders;
}

// Returns the number of processors that the quota allows, or -1 without a quota.
double quota_cores(const SystemRoot& root) {
  double cores = -1;
  const auto limit = [&](int64_t quota, int64_t period) {
    if (quota <= 0 || period <= 0) return;
    const double worth = static_cast<double>(quota) / static_cast<double>(period);
    cores = cores < 0 ? worth : std::min(cores, worth);
  };
  for (const std::string& folder : cgroup_folders(root, "")) {
    const std::vector<std::string> words = split(content(folder + "/cpu.max"), ' ');
    if (words.size() == 2) limit(leading_number(words[0]), leading_number(words[1]));
  }
  for (const std::string& folder : cgroup_folders(root, "cpu"))
    limit(leading_number(content(folder + "/cpu.cfs_quota_us")),
          leading_number(content(folder + "/cpu.cfs_period_us")));
  return cores;
}

int64_t stat_value(const std::string& text, const std::string& name) {
  for (const std::string& line : split(text, '\n'))
    if (starts_with(line, name + " "))
      return std::max<int64_t>(0, leading_number(line.substr(name.size() + 1)));
  return 0;
}

// Lowers memory and available bytes to what the control groups allow. File cache is given back
// under pressure and does not count as used.
void apply_memory_limit(const SystemRoot& root, CpuInfo& cpu) {
  // Files of version 2, and of version 1.
  constexpr const char* kFiles[][4] = {
      {"", "/memory.max", "/memory.current", "inactive_file"},
      {"memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file"}};
  for (const auto& [controller, most_file, used_file, cache_name] : kFiles)
    for (const std::string& folder : cgroup_folders(root, controller)) {
      const int64_t most = leading_number(content(folder + most_file));
      if (most <= 0) continue;
      const int64_t used = leading_number(content(folder + used_file)) - stat_value(content(folder + "/memory.stat"), cache_name);
      cpu.memory_bytes = std::min(cpu.memory_bytes, most);
      cpu.available_bytes = std::min(cpu.available_bytes, std::max<int64_t>(0, most - std::max<int64_t>(0, used)));
    }
}

// Sets the memory if /proc is not mounted. The file cache is unknown here, so this reports less
// memory than is really available.
void ask_for_memory(CpuInfo& cpu) {
  struct sysinfo info{};
  if (::sysinfo(&info) != 0) return;
  cpu.memory_bytes = static_cast<int64_t>(info.totalram) * info.mem_unit;
  cpu.available_bytes = static_cast<int64_t>(info.freeram + info.bufferram) * info.mem_unit;
}

// A name that is no flag of the kernel: products of pairs in bf16 at more than fp32's rate. On an
// Intel Xeon of model 207 without AMX, SmolLM2's head has 155 to 166 GFLOP/s in oneDNN's bf16
// products and 250 to 300 in MKL's fp32 ones, and its LoRA steps have 252 and 422 tokens/s. Other
// processors of that maker are taken to be like it. AMD's Zen 4 is the other way round: 502 and 316
// tokens/s.
constexpr const char* kFastPairs = "fast_avx512_bf16";

// A CPU flag that affects forge's choices, under the kernel's name (x86 `flags`, ARM `Features`),
// with the set it requires, and whether every processor of that set has it.
struct Extension {
  const char* name;
  InstructionSet set;
  bool implied;
};
constexpr Extension kExtensions[] = {{"avx2", InstructionSet::avx2, true},
                                     {"fma", InstructionSet::avx2, true},
                                     {"f16c", InstructionSet::avx2, true},
                                     {"avx512f", InstructionSet::avx512, true},
                                     {"avx512bw", InstructionSet::avx512, true},
                                     {"avx512_vnni", InstructionSet::avx512, false},
                                     {"avx512_bf16", InstructionSet::avx512_bf16, true},
                                     {kFastPairs, InstructionSet::avx512_bf16, true},
                                     {"avx512_fp16", InstructionSet::amx_bf16, false},
                                     {"amx_tile", InstructionSet::amx_bf16, true},
                                     {"amx_bf16", InstructionSet::amx_bf16, true},
                                     {"amx_int8", InstructionSet::amx_bf16, true},
                                     {"avx_vnni", InstructionSet::avx2, false},
                                     {"asimd", InstructionSet::baseline, false},
                                     {"sve", InstructionSet::baseline, false},
                                     {"bf16", InstructionSet::baseline, false},
                                     {"i8mm", InstructionSet::baseline, false}};

std::vector<std::string> known_extensions(const std::string& flags, const std::string& vendor) {
  std::vector<std::string> words = split(flags, ' ');
  const auto has = [&](const char* name) { return std::find(words.begin(), words.end(), name) != words.end(); };
  if (vendor != "GenuineIntel" && has("avx512_bf16")) words.push_back(kFastPairs);
  std::vector<std::string> known;
  for (const Extension& extension : kExtensions)
    if (has(extension.name)) known.push_back(extension.name);
  return known;
}

constexpr auto kCpuMembers = [](auto& cpu, auto&& member) {
  member("name", cpu.name, "the processor's model name");
  member("cores", cpu.cores, "cores that this process may use, within affinity and the control group's quota",
         at_least(1));
  member("memory_bytes", cpu.memory_bytes, "memory of the machine, or the control group's limit if that is lower",
         at_least(0));
  member("available_bytes", cpu.available_bytes, "part of it that is free for a new program", at_least(0));
  member("isa", cpu.isa, "instruction sets that change what forge chooses");
  member("stated", cpu.stated, "the variable that states them; empty if they are the processor's own");
};

constexpr auto kGpuMembers = [](auto& gpu, auto&& member) {
  member("name", gpu.name, "the card's name");
  member("compute_capability", gpu.compute_capability, "86 is 8.6", at_least(0));
  member.later("multiprocessors", gpu.multiprocessors, "number of multiprocessors; 0 when unknown", at_least(0));
  member("memory_bytes", gpu.memory_bytes, "memory of the card", at_least(0));
  member("free_bytes", gpu.free_bytes, "memory that other programs do not use; memory_bytes when unknown", at_least(0));
  member("driver", gpu.driver, "the driver's version, empty when unknown");
  member("cuda_version", gpu.cuda_version, "the newest CUDA that the driver supports: 13000 is 13.0");
  member("uuid", gpu.uuid, "the card's own name, empty when unknown");
  member("pci", gpu.pci, "its place on the bus, empty when unknown");
  member("probed", gpu.probed, "false: planned for a card that is not in this machine");
};

}  // namespace

bool CpuInfo::has(const std::string& extension) const {
  return std::find(isa.begin(), isa.end(), extension) != isa.end();
}

CpuInfo probe_cpu(const SystemRoot& root) {
  CpuInfo cpu;
  const auto info = colon_table(content(root.proc + "/cpuinfo"));
  const auto text = [&](const char* key) { return info.count(key) ? info.at(key) : std::string(); };
  cpu.name = text("model name").empty() ? "unknown processor" : text("model name");
  cpu.isa = known_extensions(text("flags").empty() ? text("Features") : text("flags"), text("vendor_id"));
  cpu.cores = root.affinity > 0 ? root.affinity : affinity_count();
  const double quota = quota_cores(root);
  if (quota > 0) cpu.cores = std::min(cpu.cores, std::max<int64_t>(1, static_cast<int64_t>(quota)));
  const auto memory = colon_table(content(root.proc + "/meminfo"));
  const auto kibibytes = [&](const char* key) {
    return memory.count(key) ? std::max<int64_t>(0, leading_number(memory.at(key))) * 1024 : 0;
  };
  cpu.memory_bytes = kibibytes("MemTotal");
  cpu.available_bytes = std::min(cpu.memory_bytes, kibibytes("MemAvailable"));
  if (memory.empty() && root.proc == SystemRoot().proc) ask_for_memory(cpu);
  apply_memory_limit(root, cpu);
  return cpu;
}

bool fast_pairs(const CpuInfo& cpu) { return cpu.has("amx_bf16") || cpu.has(kFastPairs); }

bool bf16_tiles(const CpuInfo& cpu) { return instructions_of(cpu) >= InstructionSet::avx2 && !fast_pairs(cpu); }

InstructionSet instructions_of(const CpuInfo& cpu) {
  if (cpu.has("amx_bf16")) return InstructionSet::amx_bf16;
  if (cpu.has("avx512_bf16")) return InstructionSet::avx512_bf16;
  if (cpu.has("avx512f") && cpu.has("avx512bw")) return InstructionSet::avx512;
  return cpu.has("avx2") ? InstructionSet::avx2 : InstructionSet::baseline;
}

CpuInfo as_stated(CpuInfo cpu, const StatedInstructions& stated) {
  std::vector<std::string> isa;
  for (const Extension& extension : kExtensions)
    if (extension.set <= stated.set &&
        (states_processor(stated) ? extension.implied : cpu.has(extension.name)))
      isa.push_back(extension.name);
  cpu.isa = isa;
  cpu.stated = stated.by;
  return cpu;
}

Hardware probe_hardware() {
  Hardware hardware;
  hardware.cpu = probe_cpu();
  if (const auto stated = stated_instructions()) hardware.cpu = as_stated(hardware.cpu, *stated);
  probe_gpus(hardware);
  return hardware;
}

void to_json(Json& json, const CpuInfo& cpu) { json = write_members(cpu, kCpuMembers); }
void from_json(const Json& json, CpuInfo& cpu) { read_members(json, cpu, kCpuMembers); }
Json schema_of(const CpuInfo& cpu) { return members_schema(cpu, kCpuMembers); }

void to_json(Json& json, const GpuInfo& gpu) { json = write_members(gpu, kGpuMembers); }
void from_json(const Json& json, GpuInfo& gpu) { read_members(json, gpu, kGpuMembers); }
Json schema_of(const GpuInfo& gpu) { return members_schema(gpu, kGpuMembers); }

}  // namespace forge
