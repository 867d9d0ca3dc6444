// Fuzzes tables: with commas, and with tabs.
#include "tests/fuzz/rows.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static forge::ScratchFile commas(".csv"), tabs(".tsv");
  for (forge::ScratchFile* file : {&commas, &tabs}) {
    const std::string& path = file->write(forge::text_of(data, size));
    forge::read_or_refuse([&] { forge::read_source(path); });
  }
  return 0;
}
