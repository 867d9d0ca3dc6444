#pragma once
// Tokens that are listed beside a tokenizer's own file: in tokenizer_config.json
// (added_tokens_decoder, extra_special_tokens, additional_special_tokens, eos_token and its like,
// any NAME_token), special_tokens_map.json and added_tokens.json. transformers 5 adds them after
// the vocabulary, in the order of TokenizersBackend.__init__.
//
//   add_late_tokens(root, files, "model/tokenizer.json");   // root["added_tokens"] then has them, with their ids
#include <optional>
#include <string>
#include <vector>

#include "core/lib/io/json.h"
#include "core/lib/text/tokenizer/load/parts.h"

namespace forge::text {

struct TokenFiles {
  Json config, special_tokens_map, added_tokens;  // objects; empty where there is no such file
};

// One such token: {"content": "<late>", "special": true, …} in tokenizer.json's form, without its
// id.
struct LateToken {
  Json token;
  std::optional<int64_t> id;  // stated by its file
  bool named = false;         // its flags count only where the tokenizer has no such token
};

// Returns the tokens in the order in which they are added. `where` is the tokenizer's own file, for
// messages.
std::vector<LateToken> late_tokens(const TokenFiles& files, const std::string& where);

// Returns the vocabulary of a tokenizer.json; null if it has none.
const Json* vocabulary_of(const Json& root);

// Returns the path of a file in the same folder.
std::string beside(const std::string& path, const char* file);

// Returns the id of the token that the files name `key`, such as eos_token; nothing if none does.
// special_tokens_map.json overrides the configuration, as in transformers, unless that has an
// added_tokens_decoder. With one, transformers does not open the map: here it names what the
// configuration leaves open.
std::optional<int32_t> named_id(const TokenizerParts& parts, const TokenFiles& files,
                                const std::string& key);

// Adds the tokens to a tokenizer.json. A token that is there keeps its id. Throws
// Error(environment) if a file states an id for a new one that is not the next.
void add_late_tokens(Json& root, const TokenFiles& files, const std::string& where);

}  // namespace forge::text
