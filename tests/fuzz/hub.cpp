// Fuzzes the hub's listing of a repository, and the choice of files from it.
#include "core/lib/hub/hub_fetch.h"
#include "tests/fuzz/target.h"

using namespace forge;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  read_or_refuse([&] {
    const HubListing listing = listing_of(std::string(text_of(data, size)), "https://hub/api", "org/name");
    for (const HubKind kind : {HubKind::model, HubKind::dataset})
      read_or_refuse([&] { wanted_files({kind, "org/name"}, listing, {}); });
    wanted_files({HubKind::model, "org/name"}, listing, {{"*.gguf", "a/*"}});
  });
  return 0;
}
