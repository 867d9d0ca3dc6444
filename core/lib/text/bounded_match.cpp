#include "core/lib/text/bounded_match.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <time.h>

#include <algorithm>

#include "core/lib/base/clock.h"

namespace forge::text {
namespace {

constexpr uint32_t kMatchLimit =
    10'000'000;  // steps of one match; the known patterns need a few per character
constexpr uint32_t kDepthLimit = 100'000;
constexpr uint32_t kGroups = 64;
constexpr size_t kWindow = 256;  // start positions that one call tries
constexpr double kSeconds = 2, kSecondsPerMebibyte = 2;

// Matching state besides the pattern. Each thread has one, since PCRE2 writes to it.
struct Scratch {
  pcre2_match_data* match = pcre2_match_data_create(kGroups, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(32 * 1024, 8 * 1024 * 1024, nullptr);
  Scratch() {
    pcre2_set_match_limit(context, kMatchLimit);
    pcre2_set_depth_limit(context, kDepthLimit);
    pcre2_set_heap_limit(context, 64 * 1024);  // KiB
    pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~Scratch() {
    pcre2_match_data_free(match);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
};

Scratch& scratch() {
  thread_local Scratch instance;
  return instance;
}

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

// The wall clock is cheap to read but includes other processes. The limit applies to this thread's
// time.
bool MatchPatience::is_out(size_t text_bytes) {
  const double granted = kSeconds + kSecondsPerMebibyte * static_cast<double>(text_bytes) / (1 << 20);
  const double waited = seconds_since(start);
  if (waited < granted / 2) return false;
  if (processor_start < 0) processor_start = processor_seconds();
  return processor_seconds() - processor_start > granted / 2;
}

std::string pcre_message(int code) {
  unsigned char text[256];
  pcre2_get_error_message(code, text, sizeof(text));
  return reinterpret_cast<const char*>(text);
}

BoundedMatch bounded_match(const pcre2_code* code, std::string_view text, size_t from,
                           MatchPatience& patience) {
  Scratch& use = scratch();
  int found = PCRE2_ERROR_NOMATCH;
  for (size_t last = from;; from = last) {
    if (patience.is_out(text.size())) return {{}, "it takes too long", from};
    last = std::min(from + kWindow, text.size());
    while (last < text.size() && (static_cast<unsigned char>(text[last]) & 0xC0) == 0x80) ++last;
    pcre2_set_offset_limit(use.context, last);
    found = pcre2_match(code, reinterpret_cast<const unsigned char*>(text.data()), text.size(), from,
                        PCRE2_NO_UTF_CHECK, use.match, use.context);
    if (found != PCRE2_ERROR_NOMATCH) break;
    if (last == text.size()) return {};
  }
  if (found < 0) return {{}, pcre_message(found), from};
  const uint32_t groups = found == 0 ? kGroups : static_cast<uint32_t>(found);
  return {{pcre2_get_ovector_pointer(use.match), 2 * groups}};
}

}  // namespace forge::text
