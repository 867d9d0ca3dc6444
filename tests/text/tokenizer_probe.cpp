// Prints the ids or the time of a tokenizer for files, for comparing with another implementation
// and for timing:
//   tokenizer_probe TOKENIZER.json|MODEL.gguf|DIR ids|time FILE…
#include <cstdio>
#include <ctime>

#include "core/lib/base/file.h"
#include "core/lib/base/text.h"
#include "core/run/model_text.h"

using namespace forge;

namespace {

Tokenizer open(const std::string& path) {
  if (is_directory(path)) return open_tokenizer(path);
  if (ends_with(path, ".gguf")) return load_gguf_tokenizer(gguf_vocabulary(Gguf(path, Data::optional)));
  return load_tokenizer_json({path, read_file(path, 1 << 28, ErrorKind::environment), {}, {}});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  try {
    const std::string path = argv[1], mode = argv[2];
    // The time is this thread's processor time, without other programs on the machine.
    const auto now = [] {
      timespec time{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
      return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
    };
    const double start = now();
    const Tokenizer tokenizer = open(path);
    std::fprintf(stderr, "load %.3f s, %ld ids\n", now() - start, static_cast<long>(tokenizer.vocab_size()));
    for (int k = 3; k < argc; ++k) {
      const std::string text = read_file(argv[k], 1 << 30, ErrorKind::data);
      if (mode == "time") {
        for (int round = 0; round < 3; ++round) {
          std::vector<int32_t> ids;
          const double begin = now();
          tokenizer.encode_ids(text, ids);
          const double took = now() - begin;
          std::printf("%zu ids %.4f s %.2f MB/s\n", ids.size(), took,
                      static_cast<double>(text.size()) / 1e6 / took);
        }
        continue;
      }
      for (const TokenSpan& token : tokenizer.encode(text)) {
        std::printf("%d %ld %ld\n", token.id, static_cast<long>(token.begin), static_cast<long>(token.end));
      }
      std::printf("end\n");
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return exit_code(error.kind());
  }
}
