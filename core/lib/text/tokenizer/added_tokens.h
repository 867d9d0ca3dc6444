#pragma once
// Added tokens: strings that are cut out of the text before the model sees it.
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/lib/text/tokenizer/aligned_text.h"
#include "core/lib/text/tokenizer/models/models.h"

namespace forge::text {

struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool special = false;      // a control token: may be left out when decoding
  bool normalized = true;    // is looked for in the normalised text
  bool single_word = false;  // only where no letter touches it
  bool lstrip = false;       // takes the spaces on its left with it
  bool rstrip = false;
};
// Reads a token as tokenizer.json and tokenizer_config.json write it, without its id.
AddedToken added_token(const Json& spec, const std::string& where);

// Returns a token in tokenizer.json's form that is found wherever its text stands.
Json token_entry(int64_t id, const std::string& content, bool special);

// Finds the leftmost token, and of those the longest, with a byte trie.
class TokenFinder {
 public:
  // `pattern` is the text to look for. Throws Error(environment) for one longer than 4096 bytes.
  void add(const std::string& pattern, const AddedToken& token, const std::string& where);
  bool empty() const { return tokens_.empty(); }

  // Decision about a token at bytes [begin, end) of the text.
  enum class Verdict { take, pass_over, not_there };
  using Judge = std::function<Verdict(const AddedToken& token, size_t begin, size_t end)>;
  // Appends parts that cover `text`. A token that is passed over hides tokens that begin inside it,
  // as in the package; one that is "not there" does not.
  void find(std::string_view text, const Judge& judge, std::vector<Piece>& parts) const;

 private:
  struct Node {
    std::map<unsigned char, int32_t> next;
    int32_t token = -1;
  };
  // Returns the length of the longest acceptable token that begins at `at`, or 0.
  size_t longest(std::string_view text, size_t at, const Judge& judge, int32_t* token, bool* taken) const;
  std::vector<Node> nodes_{1};
  std::vector<AddedToken> tokens_;
  bool starts_[256] = {};
};

}  // namespace forge::text
