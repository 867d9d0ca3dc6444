// Fuzzes rows of JSON: as lines, and as one array.
#include "tests/fuzz/rows.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static forge::ScratchFile lines(".jsonl"), array(".json");
  for (forge::ScratchFile* file : {&lines, &array}) {
    const std::string& path = file->write(forge::text_of(data, size));
    forge::read_or_refuse([&] { forge::read_source(path); });
  }
  return 0;
}
