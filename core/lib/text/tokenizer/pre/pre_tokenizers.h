#pragma once
// Pre-tokenizers cut the working text into the words that the model sees one by one.
#include <memory>
#include <string>

#include "core/lib/io/json.h"
#include "core/lib/text/tokenizer/aligned_text.h"

namespace forge::text {

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(WorkText& work) const = 0;
};

// Treatment of a separator; the package's names are removed, isolated, merged_with_previous …
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };
SplitBehavior split_behavior_of(const std::string& name, const std::string& where);

// One of the matches that cover the whole text, and whether it is a separator. cut() turns them
// into parts.
struct Match {
  int32_t begin;
  int32_t end;
  bool separator;
};
void cut(const std::vector<Match>& matches, SplitBehavior behavior, std::vector<Piece>& parts);
// Returns the matches of a predicate on characters: every such character is one separator.
void match_characters(std::string_view text, const std::function<bool(uint32_t)>& is_separator,
                      std::vector<Match>& matches);

// Returns the pre-tokenizer for "pre_tokenizer" of a tokenizer.json. Throws Error(environment)
// naming an unknown type. `raw_bytes`: a ByteLevel leaves bytes unchanged, because the model reads
// bytes (see Bpe).
std::unique_ptr<PreTokenizer> make_pre_tokenizer(const Json& spec, const std::string& where, bool raw_bytes);
// True if the last step is a ByteLevel, so that the model could read bytes.
bool ends_byte_level(const Json& spec);

// The pre-tokenizers, one file each.
std::unique_ptr<PreTokenizer> make_byte_level(bool add_prefix_space, bool use_regex, bool raw_bytes);
std::unique_ptr<PreTokenizer> make_split(const std::string& pattern, bool is_regex, SplitBehavior behavior,
                                         bool invert, const std::string& where);
std::unique_ptr<PreTokenizer> make_metaspace(const Json& spec, const std::string& where);
std::unique_ptr<PreTokenizer> make_character_splitter(const std::string& type, const Json& spec,
                                                      const std::string& where);

}  // namespace forge::text
