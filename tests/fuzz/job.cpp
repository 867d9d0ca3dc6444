// Fuzzes job files, in YAML and in JSON.
#include "core/job/load.h"
#include "tests/fuzz/target.h"

namespace {

using namespace forge;

std::optional<std::string> environment(const std::string& name) {
  return name == "HOME" ? std::optional<std::string>("/home") : std::nullopt;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static ScratchFile yaml(".yaml"), json(".json");
  for (ScratchFile* file : {&yaml, &json}) {
    const std::string& path = file->write(text_of(data, size));
    read_or_refuse([&] { load_job(path, {.sets = {}, .cwd = "/dev/shm", .environment = environment}); });
  }
  return 0;
}
