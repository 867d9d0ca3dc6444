// Runs a target where there is no libFuzzer: mutations of seeds for some seconds, guided by
// coverage. All seconds are processor time, so that a busy machine causes no false hangs.
//
//   [FORGE_FUZZ_SEED=N] fuzz_csv SECONDS FINDINGS SEED…
//
// A seed is a file or a folder of files. g++ calls __sanitizer_cov_trace_pc at every basic block of
// the code under test (-fsanitize-coverage=trace-pc); an input that reaches a block, or reaches it
// clearly more often than any before, joins the corpus. The same seeds and N (default 1) give the
// same inputs in the same order. The input that crashes, hangs or makes a sanitizer report is left
// in the folder FINDINGS. Ctrl-C ends a run early, with its counts.
#include <sanitizer/common_interface_defs.h>
#include <sys/time.h>
#include <csignal>
#include <ctime>

#include <algorithm>
#include <array>
#include <bit>
#include <filesystem>

#include "core/lib/base/file.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/target.h"

namespace {

using namespace forge;

constexpr size_t kBlocks = 1 << 16;
constexpr int kHangSeconds = 20;  // for one input

std::array<uint8_t, kBlocks> hits;  // of the current input, by hash of the block's address
std::array<uint8_t, kBlocks> seen;  // the classes of counts seen for each block: 1, 2-3, 4-7 … one bit each
std::string input, finding;         // the current input, and where to save it if it is a finding

void save_finding() {
  std::ofstream(finding, std::ios::binary) << input;
  std::fprintf(stderr, "the input is in %s\n", finding.c_str());
}

volatile std::sig_atomic_t interrupted = 0;
void on_interrupt(int) { interrupted = 1; }

void on_signal(int signal) {
  std::fprintf(stderr, signal == SIGPROF ? "one input took %d s\n" : "aborted\n", kHangSeconds);
  save_finding();
  std::_Exit(1);
}

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

bool found_something() {
  bool news = false;
  for (size_t k = 0; k < kBlocks; ++k) {
    if (hits[k] == 0) continue;
    const auto bit = static_cast<uint8_t>(1 << (std::bit_width(hits[k]) - 1));
    news = news || (seen[k] & bit) == 0;
    seen[k] |= bit;
    hits[k] = 0;
  }
  return news;
}

bool run_input() {
  const itimerval limit{{0, 0}, {kHangSeconds, 0}}, none{};
  setitimer(ITIMER_PROF, &limit, nullptr);
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  setitimer(ITIMER_PROF, &none, nullptr);
  return found_something();
}

std::vector<std::string> read_seeds(char** begin, char** end) {
  std::vector<std::string> paths, seeds;
  for (char** path = begin; path != end; ++path) {
    if (!is_directory(*path)) {
      paths.push_back(*path);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(*path)) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) seeds.push_back(read_file(path, kLongestInput, ErrorKind::usage));
  return seeds;
}

}  // namespace

// Called by the code under test. Counts stop at 255.
extern "C" void __sanitizer_cov_trace_pc() {
  const auto address = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  uint8_t& count = hits[(address * 0x9E3779B97F4A7C15u) >> 48];
  count = static_cast<uint8_t>(count + (count != 255));
}

// A reader must not allocate far more memory than its input has bytes.
extern "C" const char* __asan_default_options() {
  return "max_allocation_size_mb=512:hard_rss_limit_mb=2048";
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const std::string name = std::filesystem::path(argv[0]).filename();
  std::filesystem::create_directories(argv[2]);
  finding = std::string(argv[2]) + "/" + name + ".input";
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGABRT, on_signal);
  std::signal(SIGPROF, on_signal);
  __sanitizer_set_death_callback(save_finding);

  std::vector<std::string> corpus = read_seeds(argv + 3, argv + argc);
  for (const std::string& seed : corpus) {
    input = seed;
    run_input();
  }
  const double begin = processor_seconds(), end = begin + std::stod(argv[1]);
  const char* seed = std::getenv("FORGE_FUZZ_SEED");
  Random random{seed ? std::stoull(seed) : 1};
  int64_t runs = static_cast<int64_t>(corpus.size());
  for (; processor_seconds() < end && !interrupted; ++runs) {
    input = corpus[random(corpus.size())];
    for (uint64_t n = 1 + random(4); n > 0; --n) mutate(input, corpus, random);
    if (run_input()) corpus.push_back(input);
  }
  const double seconds = processor_seconds() - begin;
  const auto blocks = kBlocks - static_cast<size_t>(std::count(seen.begin(), seen.end(), 0));
  std::printf("%s: %ld inputs in %.0f s, %.0f a second, %zu of them kept, %zu blocks reached\n", name.c_str(),
              static_cast<long>(runs), seconds, static_cast<double>(runs) / seconds, corpus.size(), blocks);
}
