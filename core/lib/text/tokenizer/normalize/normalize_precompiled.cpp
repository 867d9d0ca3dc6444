// Precompiled: SentencePiece's table of replacements, a double-array trie (Darts-clone) over UTF-8
// and the texts that its leaves point to. Layout of the charsmap: bytes of the trie (uint32,
// little-endian), the trie's units (uint32 each), then the replacement texts, each ended by NUL.
#include <utf8proc.h>

#include <cstring>
#include <memory>

#include "core/lib/base/text.h"
#include "core/lib/text/tokenizer/load/base64.h"
#include "core/lib/text/tokenizer/load/json_fields.h"
#include "core/lib/text/tokenizer/normalize/normalizers.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge::text {
namespace {

class Precompiled {
 public:
  Precompiled(const std::string& blob, const std::string& where) {
    uint32_t size = 0;
    if (blob.size() >= 4) std::memcpy(&size, blob.data(), 4);
    if (blob.size() < 4 || size % 4 != 0 || size == 0 || size > blob.size() - 4)
      throw file_fault(where,
                       "precompiled_charsmap of {} bytes does not hold the trie it announces",
                       blob.size());
    units_.resize(size / 4);
    std::memcpy(units_.data(), blob.data() + 4, size);
    texts_ = blob.substr(4 + size);
  }

  // The package looks up whole grapheme clusters of up to five bytes first, then single characters.
  // It takes the shortest of the entries that begin a cluster, as earlier versions of SentencePiece
  // did.
  void apply(AlignedText& text) const {
    std::vector<Change> changes;
    bool modified = false;
    const std::string_view all = text.text;
    for (size_t at = 0; at < all.size();) {
      const size_t end = cluster_end(all, at);
      const std::string_view cluster = all.substr(at, end - at);
      std::string_view replacement;
      if (cluster.size() < 6 && find(cluster, &replacement)) {
        text.require(changes.size() + replacement.size());
        replace(cluster, replacement, changes);
        modified = true;
        at = end;
        continue;
      }
      while (at < end) {
        const size_t begin = at;
        const uint32_t code = next_char(all, at);
        if (find(all.substr(begin, at - begin), &replacement)) {
          text.require(changes.size() + replacement.size());
          replace(all.substr(begin, at - begin), replacement, changes);
          modified = true;
        } else {
          changes.push_back({code, 0});
        }
      }
    }
    if (modified) text.transform(changes);
  }

 private:
  static size_t cluster_end(std::string_view text, size_t at) {
    utf8proc_int32_t state = 0;
    auto previous = static_cast<utf8proc_int32_t>(next_char(text, at));
    while (at < text.size()) {
      size_t next = at;
      const auto code = static_cast<utf8proc_int32_t>(next_char(text, next));
      if (utf8proc_grapheme_break_stateful(previous, code, &state)) break;
      previous = code;
      at = next;
    }
    return at;
  }

  bool find(std::string_view key, std::string_view* replacement) const {
    const auto unit_at = [&](size_t node) { return node < units_.size() ? units_[node] : 0; };
    const auto offset = [](uint32_t unit) {
      return static_cast<size_t>(unit >> 10) << ((unit & (1u << 9)) >> 6);
    };
    size_t node = offset(unit_at(0));
    for (const char c : key) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte == 0) return false;
      node ^= byte;
      const uint32_t unit = unit_at(node);
      if ((unit & (1u << 31 | 0xFF)) != byte) return false;
      node ^= offset(unit);
      if (!(unit >> 8 & 1)) continue;
      const size_t place = unit_at(node) & ~(1u << 31);
      if (place > texts_.size()) return false;
      const std::string_view rest = std::string_view(texts_).substr(place);
      *replacement = rest.substr(0, rest.find('\0'));
      return valid_utf8(*replacement);  // a leaf may point into the middle of a character in a damaged file
    }
    return false;
  }

  static void replace(std::string_view old_text, std::string_view new_text, std::vector<Change>& changes) {
    const auto count = [](std::string_view text) {
      int32_t n = 0;
      for (size_t at = 0; at < text.size(); ++n) next_char(text, at);
      return n;
    };
    for (size_t at = 0; at < new_text.size();) changes.push_back({next_char(new_text, at), 0});
    const int32_t more = count(new_text) - count(old_text);
    for (int32_t n = 0; n < more; ++n) changes[changes.size() - 1 - static_cast<size_t>(n)].change = 1;
    if (more < 0 && !changes.empty()) changes.back().change += more;
  }

  std::vector<uint32_t> units_;
  std::string texts_;
};

}  // namespace

Normalizer make_precompiled(const std::string&, const Json& spec, const std::string& where) {
  const std::optional<std::string> blob =
      decode_base64(string_member(spec, "precompiled_charsmap", where));
  if (!blob) throw file_fault(where, "precompiled_charsmap is not base64");
  const auto table = std::make_shared<const Precompiled>(*blob, where);
  return {[table](AlignedText& text) { table->apply(text); }};
}

}  // namespace forge::text
