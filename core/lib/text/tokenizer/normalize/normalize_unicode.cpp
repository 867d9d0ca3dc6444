// NFC, NFD, NFKC, NFKD and Lowercase. The package's decompositions end with Unicode 9 and
// utf8proc's with 15. The class bits kDecomposes and kReordered select the answers of utf8proc that
// apply.
//
// Each step also gives the number of old characters that a new one stands for (see Change): a
// decomposition is 0, 1, 1 …; canonical ordering moves the counts along; composing adds the two
// counts and subtracts one.
#include <utf8proc.h>

#include <algorithm>

#include "core/lib/text/tokenizer/normalize/normalizers.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge::text {
namespace {

int combining_class(uint32_t code) {
  const int ccc = utf8proc_get_property(static_cast<utf8proc_int32_t>(code))->combining_class;
  return ccc == 1 || (classes_of(code) & kReordered) ? ccc : 0;
}

struct Ordered {
  Change change;
  int ccc;
};

void decompose(uint32_t code, bool compatible, std::vector<Ordered>& out) {
  utf8proc_int32_t parts[32];
  utf8proc_ssize_t count = 1;
  parts[0] = static_cast<utf8proc_int32_t>(code);
  if (classes_of(code) & kDecomposes) {
    int boundary = 0;
    const int options = UTF8PROC_DECOMPOSE | UTF8PROC_STABLE | (compatible ? UTF8PROC_COMPAT : 0);
    count = utf8proc_decompose_char(parts[0], parts, 32, static_cast<utf8proc_option_t>(options), &boundary);
  }
  for (utf8proc_ssize_t k = 0; k < count; ++k) {
    const auto part = static_cast<uint32_t>(parts[k]);
    out.push_back({{part, k == 0 ? 0 : 1}, combining_class(part)});
  }
}

// Returns the character composed of a starter and the one after it; 0 if there is none.
uint32_t compose_pair(uint32_t first, uint32_t second) {
  utf8proc_int32_t pair[3] = {static_cast<utf8proc_int32_t>(first), static_cast<utf8proc_int32_t>(second), 0};
  const auto length =
      utf8proc_normalize_utf32(pair, 2, static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  const auto made = static_cast<uint32_t>(pair[0]);
  return length == 1 && (classes_of(made) & kDecomposes) ? made : 0;
}

// Canonical composition (UAX #15, D117): a character joins the last starter unless a character of
// its own or a higher class is between them.
std::vector<Ordered> compose(const std::vector<Ordered>& in) {
  std::vector<Ordered> out;
  int64_t starter = -1;  // index in out
  int last_class = -1;   // highest class between the starter and here; -1 if nothing
  for (const Ordered& item : in) {
    if (starter >= 0 && last_class < item.ccc) {
      if (const uint32_t made = compose_pair(out[starter].change.code, item.change.code)) {
        out[starter].change = {made, out[starter].change.change + item.change.change - 1};
        continue;
      }
    }
    if (item.ccc == 0) {
      starter = static_cast<int64_t>(out.size());
      last_class = -1;
    } else {
      last_class = item.ccc;
    }
    out.push_back(item);
  }
  return out;
}

// Capitals of Unicode 16 and 17 that utf8proc does not know: a run and the distance to its small
// letters.
struct CaseRun {
  uint32_t first, last;
  int32_t distance;
};
constexpr CaseRun kNewCapitals[] = {
    {0x1C89, 0x1C89, 1},      {0xA7CB, 0xA7CB, 0x0264 - 0xA7CB},
    {0xA7CC, 0xA7CC, 1},      {0xA7CE, 0xA7CE, 1},
    {0xA7D2, 0xA7D2, 1},      {0xA7D4, 0xA7D4, 1},
    {0xA7DA, 0xA7DA, 1},      {0xA7DC, 0xA7DC, 0x019B - 0xA7DC},
    {0x10D50, 0x10D65, 0x20}, {0x16EA0, 0x16EB8, 0x1B},
};

uint32_t small_letter(uint32_t code) {
  for (const CaseRun& run : kNewCapitals) {
    if (code >= run.first && code <= run.last)
      return static_cast<uint32_t>(static_cast<int32_t>(code) + run.distance);
  }
  return static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
}

}  // namespace

void apply_unicode_form(NormalForm form, AlignedText& text) {
  if (all_ascii(text.text)) return;
  const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  std::vector<Ordered> items;
  size_t run = 0;  // marks from here on are not yet ordered
  const auto order = [&] {
    std::stable_sort(items.begin() + static_cast<int64_t>(run), items.end(),
                     [](const Ordered& a, const Ordered& b) { return a.ccc < b.ccc; });
  };
  std::vector<Ordered> parts;
  for (size_t at = 0; at < text.text.size();) {
    parts.clear();
    decompose(next_char(text.text, at), compatible, parts);
    for (const Ordered& part : parts) {
      if (part.ccc == 0) order();
      items.push_back(part);
      if (part.ccc == 0) run = items.size();
    }
  }
  order();
  if (form == NormalForm::nfc || form == NormalForm::nfkc) items = compose(items);
  std::vector<Change> changes;
  changes.reserve(items.size());
  for (const Ordered& item : items) changes.push_back(item.change);
  text.transform(changes);
}

void remove_classes(AlignedText& text, uint32_t classes) {
  text.map([classes](uint32_t code) {
    return classes_of(code) & classes ? std::nullopt : std::optional(code);
  });
}

void apply_lowercase(AlignedText& text) {
  std::vector<Change> changes;
  changes.reserve(text.text.size());
  for (size_t at = 0; at < text.text.size();) {
    const uint32_t code = next_char(text.text, at);
    if (code == 0x130) {  // the only capital whose small letter is two characters: i and a dot above
      changes.push_back({'i', 0});
      changes.push_back({0x307, 1});
    } else {
      changes.push_back({small_letter(code), 0});
    }
  }
  text.transform(changes);
}

}  // namespace forge::text
