#include "core/plan/machine/hardware.h"

#include "core/plan/machine/device.h"
#include "core/plan/machine/gpu_database.h"
#include "tests/test.h"

namespace forge {
namespace {

constexpr int64_t kGib = int64_t{1} << 30;

// A machine with 8 processors and 16 GiB, of which 12 are free.
struct Machine {
  TemporaryFolder folder;
  SystemRoot root{folder.path("proc"), folder.path("cgroup"), 8};
  Machine() {
    folder.write("proc/cpuinfo",
                 "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Test CPU 3000\nflags\t\t: fpu sse2 avx2 fma avx512f "
                 "avx512_bf16 amx_bf16\n\nprocessor\t: 1\nmodel name\t: Other\n");
    folder.write("proc/meminfo",
                 "MemTotal:       16777216 kB\nMemFree:  100 kB\nMemAvailable:   12582912 kB\n");
  }
};

Hardware with_gpus(std::vector<GpuInfo> gpus) {
  Hardware hardware;
  hardware.cpu.name = "cpu";
  hardware.gpus = std::move(gpus);
  hardware.gpu_note = "no driver";
  return hardware;
}

}  // namespace

TEST_CASE("a processor without limits") {
  Machine machine;
  const CpuInfo cpu = probe_cpu(machine.root);
  CHECK(cpu.name == "Test CPU 3000");
  CHECK(cpu.cores == 8);
  CHECK(cpu.memory_bytes == 16 * kGib);
  CHECK(cpu.available_bytes == 12 * kGib);
  CHECK(cpu.isa == std::vector<std::string>{"avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16"});
}

TEST_CASE("pairs of bf16 are fast where Intel has not made the processor") {
  Machine machine;
  const auto flags = [&](const std::string& vendor, const std::string& flags) {
    machine.folder.write("proc/cpuinfo", "vendor_id\t: " + vendor + "\nflags\t\t: fpu " + flags + "\n");
    return probe_cpu(machine.root);
  };
  CHECK(flags("AuthenticAMD", "avx512_bf16").isa == std::vector<std::string>{"avx512_bf16", "fast_avx512_bf16"});
  CHECK(flags("GenuineIntel", "avx512_bf16").isa == std::vector<std::string>{"avx512_bf16"});
  CHECK_FALSE(flags("AuthenticAMD", "avx512f").has("fast_avx512_bf16"));
  CHECK(as_stated(flags("GenuineIntel", "avx512_bf16"), {InstructionSet::avx512_bf16, "FORGE_CPU=avx512_bf16"}).has("fast_avx512_bf16"));
}

TEST_CASE("a processor can be stated, held down or not in this machine") {
  Machine machine;
  const CpuInfo cpu = probe_cpu(machine.root);
  const auto stated = [&](InstructionSet set, const std::string& by) { return as_stated(cpu, {set, by}); };
  const CpuInfo less = stated(InstructionSet::avx512, "ONEDNN_MAX_CPU_ISA=AVX512_CORE");
  CHECK(less.isa == std::vector<std::string>{"avx2", "fma", "avx512f"});
  CHECK(less.stated == "ONEDNN_MAX_CPU_ISA=AVX512_CORE");
  // FORGE_CPU names a whole processor, a library's variable only a limit.
  const CpuInfo more = stated(InstructionSet::amx_bf16, "FORGE_CPU=amx_bf16");
  CHECK(more.has("amx_tile"));
  CHECK(instructions_of(more) == InstructionSet::amx_bf16);
  CHECK(instructions_of(stated(InstructionSet::avx2, "FORGE_CPU=avx2")) == InstructionSet::avx2);
  // Features that only some processors of a set have are not part of it.
  CpuInfo newer = cpu;
  newer.isa.push_back("avx_vnni");
  CHECK(as_stated(newer, {InstructionSet::avx2, "FORGE_CPU=avx2"}).isa == std::vector<std::string>{"avx2", "fma", "f16c"});
  CHECK(instructions_of({}) == InstructionSet::baseline);
}

TEST_CASE("limits of a version 2 control group hold, those of its parents too") {
  Machine machine;
  machine.folder.write("proc/self/cgroup", "0::/pod/box\n");
  machine.folder.write("cgroup/pod/cpu.max", "250000 100000\n");
  machine.folder.write("cgroup/pod/box/cpu.max", "max 100000\n");
  machine.folder.write("cgroup/pod/box/memory.max", "4294967296\n");
  machine.folder.write("cgroup/pod/box/memory.current", "3221225472\n");
  machine.folder.write("cgroup/pod/box/memory.stat", "anon 1\ninactive_file 1073741824\n");
  const CpuInfo cpu = probe_cpu(machine.root);
  CHECK(cpu.cores == 2);
  CHECK(cpu.memory_bytes == 4 * kGib);
  CHECK(cpu.available_bytes == 2 * kGib);  // the page cache is given back
}

TEST_CASE("limits of version 1 control groups, seen from inside a container") {
  Machine machine;
  machine.folder.write("proc/self/cgroup", "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n");
  machine.folder.write("cgroup/cpu/cpu.cfs_quota_us", "50000\n");
  machine.folder.write("cgroup/cpu/cpu.cfs_period_us", "100000\n");
  machine.folder.write("cgroup/memory/memory.limit_in_bytes", "2147483648\n");
  machine.folder.write("cgroup/memory/memory.usage_in_bytes", "1073741824\n");
  const CpuInfo cpu = probe_cpu(machine.root);
  CHECK(cpu.cores == 1);  // half a processor is still one thread
  CHECK(cpu.memory_bytes == 2 * kGib);
  CHECK(cpu.available_bytes == 1 * kGib);
}

TEST_CASE("a machine that says nothing is still described") {
  TemporaryFolder folder;
  const CpuInfo cpu = probe_cpu({folder.path("proc"), folder.path("cgroup"), 1});
  CHECK(cpu.name == "unknown processor");
  CHECK(cpu.cores == 1);
  CHECK(cpu.memory_bytes == 0);
}

TEST_CASE("cards are found however their name is written") {
  for (const char* name : {"RTX 2080 Ti", "rtx2080ti", "NVIDIA GeForce RTX 2080 Ti", "GeForce rtx-2080-ti"})
    CHECK(find_gpu(name).compute_capability == 75);
  CHECK(std::string(find_gpu("A100").name) == "A100 40GB");
  CHECK(find_gpu("NVIDIA A100-SXM4-80GB").memory_gib == 80);
  CHECK(find_gpu("Tesla V100-SXM2-32GB").memory_gib == 32);
  CHECK(find_gpu("NVIDIA H100 80GB HBM3").compute_capability == 90);
  CHECK_THAT(error_of([] { find_gpu("RTX 4091"); }),
             Catch::Contains("unknown GPU \"RTX 4091\" (did you mean \"RTX 409"));
  for (const char* name : {"4090", "1080 ti", "3080ti", "6000 Ada"}) {
    INFO(name);
    CHECK(error_of([&] { find_gpu(name); }) == "no error");
  }
  CHECK(std::string(find_gpu("4090").name) == "RTX 4090");
  CHECK(std::string(find_gpu("1080 Ti").name) == "GTX 1080 Ti");
  CHECK(error_of([] { find_gpu("Voodoo 2"); }) == "unknown GPU \"Voodoo 2\"");
}

TEST_CASE("the table of cards is consistent") {
  CHECK(gpu_cards().size() >= 60);
  for (const GpuCard& card : gpu_cards()) {
    INFO(card.name);
    CHECK(&find_gpu(card.name) == &card);  // no two rows have the same name
    CHECK(card.memory_gib > 0);
    CHECK(card.bandwidth_gbs > 0);
    CHECK((card.bf16_tflops > 0) == (card.compute_capability >= 80));
  }
}

TEST_CASE("a device is chosen by the job or by name") {
  GpuInfo small, large;
  small.name = "small";
  small.free_bytes = 4 * kGib;
  large.name = "large";
  large.free_bytes = 8 * kGib;
  const Hardware two = with_gpus({small, large}), none = with_gpus({});
  CHECK(choose_device(two, {}).index == 1);
  CHECK_FALSE(choose_device(none, {}).cuda);
  HardwareConfig config;
  config.device = "cuda:0";
  CHECK(choose_device(two, config).gpu.name == "small");
  config.device = "cuda:7";
  CHECK_THAT(error_of([&] { choose_device(two, config); }), Catch::Contains("GPUs are 0 to 1"));
  config.device = "cuda";
  CHECK_THAT(error_of([&] { choose_device(none, config); }), Catch::Contains("no GPU here: no driver"));
  CHECK(device_by_name(none, "RTX 4070").gpu.memory_bytes == 12 * kGib);
  CHECK(device_by_name(two, "1").gpu.name == "large");
  CHECK_THAT(error_of([&] { device_by_name(two, "7"); }), Catch::Contains("GPUs are 0 to 1"));
  CHECK(device_by_name(two, "4090").gpu.name == "RTX 4090");
  CHECK_FALSE(device_by_name(two, "cpu").cuda);
}

}  // namespace forge
