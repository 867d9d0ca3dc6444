#include "core/lib/io/mapped_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace forge {
namespace {

// All pages that hold some of the mapped bytes.
struct Pages {
  char* begin;
  size_t bytes, before;  // of the first page, the bytes before `mapped`

  explicit Pages(std::string_view mapped) {
    const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE)), at = reinterpret_cast<uintptr_t>(mapped.data());
    before = at % page;
    begin = reinterpret_cast<char*>(at - before);
    bytes = before + mapped.size();
  }
};

void advise(std::string_view mapped, int advice) {
  const Pages pages(mapped);
  if (!mapped.empty()) ::madvise(pages.begin, pages.bytes, advice);
}

}  // namespace

void read_ahead(std::string_view mapped) {
  constexpr size_t kWorthAsking = size_t{1} << 20;
  if (mapped.size() >= kWorthAsking) advise(mapped, MADV_WILLNEED);
}

void let_go(std::string_view mapped) { advise(mapped, MADV_DONTNEED); }

std::shared_ptr<const char> map_again(std::string_view mapped) {
  const Pages pages(mapped);
  // An old size of 0 maps the pages of a shared mapping once more (mremap(2)).
  void* again = mapped.empty() ? MAP_FAILED : ::mremap(pages.begin, 0, pages.bytes, MREMAP_MAYMOVE);
  if (again == MAP_FAILED) return nullptr;
  return {static_cast<const char*>(again) + pages.before, [again, bytes = pages.bytes](const char*) { ::munmap(again, bytes); }};
}

}  // namespace forge
