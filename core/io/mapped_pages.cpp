#include "core/io/mapped_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace forge {
namespace {

// Of all pages that hold some of it.
void advise(std::string_view mapped, int advice) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(mapped.data()) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(mapped.data()) + mapped.size();
  if (end > begin) ::madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

}  // namespace

void read_ahead(std::string_view mapped) {
  constexpr size_t kWorthAsking = size_t{1} << 20;
  if (mapped.size() >= kWorthAsking) advise(mapped, MADV_WILLNEED);
}

void let_go(std::string_view mapped) { advise(mapped, MADV_DONTNEED); }

}  // namespace forge
