#pragma once
// Pre-tokenizers cut the working text into the words that the model sees one by one.
#include <functional>
#include <string>

#include "core/lib/io/json.h"
#include "core/lib/text/tokenizer/aligned_text.h"

namespace forge::text {

using PreTokenizer = std::function<void(WorkText& work)>;

// Treatment of a separator; the package's names are removed, isolated, merged_with_previous …
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };
SplitBehavior split_behavior_of(const std::string& name, const std::string& where);

// Returns the pre-tokenizer for "pre_tokenizer" of a tokenizer.json. Throws Error(environment)
// naming an unknown type. `raw_bytes`: a ByteLevel leaves bytes unchanged, because the model reads
// bytes (see Bpe).
PreTokenizer make_pre_tokenizer(const Json& spec, const std::string& where, bool raw_bytes);

// True if the last step is a ByteLevel, so that the model could read bytes.
bool ends_byte_level(const Json& spec);

// ByteLevel: GPT-2's words, then every byte as a printable character of its alphabet. When the
// model reads bytes itself, the second half is left out and the text stays the input.
PreTokenizer make_byte_level(bool add_prefix_space, bool use_regex, bool raw_bytes);

// Split cuts at the matches of a pattern.
PreTokenizer make_split(const std::string& pattern, bool is_regex, SplitBehavior behavior,
                        bool invert, const std::string& where);
// Returns one of those that look at one character at a time (pre_characters.cpp).
PreTokenizer make_character_splitter(const std::string& type, const Json& spec,
                                     const std::string& where, bool);

// Splits where a predicate on characters holds: every such character is one separator.
PreTokenizer split_at(std::function<bool(uint32_t)> is_separator, SplitBehavior behavior);
PreTokenizer one_after_another(std::vector<PreTokenizer> steps);

}  // namespace forge::text
