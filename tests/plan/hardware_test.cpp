#include "core/plan/machine/hardware.h"

#include "core/plan/machine/card_fault.h"
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

TEST_CASE("a card in an older forge's plan says nothing of multiprocessors, and counts as a large one") {
  Device device;
  device.cuda = true, device.gpu = gpu_info(find_gpu("RTX 4070"));
  CHECK(multiprocessors_of(device) == 46);
  Json json;
  to_json(json, device.gpu);
  json.erase("multiprocessors");
  device.gpu = {};
  from_json(json, device.gpu);
  CHECK(device.gpu.compute_capability == 89);
  CHECK(multiprocessors_of(device) == 128);
}

TEST_CASE("the table of cards is consistent") {
  CHECK(gpu_cards().size() >= 60);
  for (const GpuCard& card : gpu_cards()) {
    INFO(card.name);
    CHECK(&find_gpu(card.name) == &card);  // no two rows have the same name
    CHECK(card.memory_gib > 0);
    CHECK(card.bandwidth_gbs > 0);
    CHECK((card.bf16_tflops > 0) == (card.compute_capability >= 80));
    // Two operations a lane and clock: the clock that fp32's rate asks for is one that cards have.
    const bool narrow = card.compute_capability == 60 || card.compute_capability == 70 ||
                        card.compute_capability == 75 || card.compute_capability == 80;
    const auto lanes = static_cast<double>(card.multiprocessors * (narrow ? 64 : 128));
    const double ghz = 1e3 * card.fp32_tflops / (2 * lanes);
    CHECK(ghz > 1);
    CHECK(ghz < 2.7);
  }
}

TEST_CASE("a device is chosen by the job or by name") {
  GpuInfo small, large;
  small.name = "small";
  small.free_bytes = 4 * kGib;
  large.name = "large";
  large.free_bytes = 8 * kGib;
  const Hardware two = with_gpus({small, large}), none = with_gpus({});
  CHECK(choose_device(two, {}).device.index == 1);
  CHECK_FALSE(choose_device(none, {}).device.cuda);
  HardwareConfig config;
  config.device = "cuda:0";
  CHECK(choose_device(two, config).device.gpu.name == "small");
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

TEST_CASE("auto and cuda take the emptiest card without a fault") {
  GpuInfo small, large;
  small.name = "small";
  small.free_bytes = 4 * kGib;
  large.name = "large";
  large.free_bytes = 8 * kGib;
  const Hardware two = with_gpus({small, large});
  const auto not_large = [](const Device& device) {
    return device.gpu.name == "large" ? CardFault{"it is odd", "mend it"} : CardFault();
  };
  const auto none = [](const Device&) { return CardFault{"it is odd", "mend it"}; };
  const DeviceChoice passed = choose_device(two, {}, not_large);
  CHECK(passed.device.gpu.name == "small");
  CHECK(passed.warning.empty());
  CHECK_THAT(passed.idle, Catch::StartsWith("2 GPUs are here and forge uses one, cuda:0 (small)"));
  const DeviceChoice processor = choose_device(two, {}, none);
  CHECK_FALSE(processor.device.cuda);
  CHECK(processor.warning == "the CPU computes, not the large: it is odd; mend it");
  HardwareConfig config;
  config.device = "cuda:1";
  CHECK_THAT(error_of([&] { choose_device(two, config, not_large); }),
             Catch::Contains("cuda:1: large: it is odd"));
  CHECK(choose_device(two, config).idle.empty());
  config.device = "cuda";
  CHECK(choose_device(two, config, not_large).device.gpu.name == "small");
  CHECK_THAT(error_of([&] { choose_device(two, config, none, "--device"); }),
             Catch::StartsWith("--device: cuda: large: it is odd"));
  config.device = "cpu";
  CHECK(choose_device(two, config, none).warning.empty());
}

TEST_CASE("a card's fault is its generation, its driver or what the kernels were compiled for") {
  Device device = device_by_name(with_gpus({}), "GTX 1080 Ti");
  CHECK_THAT(card_fault(device).what, Catch::Contains("not built yet"));
  CHECK(engine_for(device).empty());
  device.gpu.compute_capability = 35;
  CHECK_THAT(card_fault(device).what, Catch::Contains("3.5"));
  device = device_by_name(with_gpus({}), "RTX 4070");
  CHECK_FALSE(card_fault(device));  // no driver is known
  device.gpu.cuda_version = 12090;
  CHECK_THAT(card_fault(device).what,
             Catch::Contains("supports CUDA 12.9, and forge's engine needs CUDA 13.0"));
  for (const int64_t enough : {13000, 13010, 14000}) {
    device.gpu.cuda_version = enough;
    CHECK_FALSE(card_fault(device));
  }
  // Code of 8.0 runs on 8.6 and 8.9, that of 8.6 not on 8.0, and none of it on 9.0.
  CHECK_FALSE(generation_fault(89, "75;80"));
  CHECK_FALSE(generation_fault(90, "90"));
  CHECK_THAT(generation_fault(80, "75;86").what,
             Catch::Contains("8.0, and the CUDA engine was built for 7.5, 8.6"));
  CHECK_THAT(generation_fault(90, "80;89").remedy, Catch::Contains("-DFORGE_CUDA_TARGETS=90"));
}

}  // namespace forge
