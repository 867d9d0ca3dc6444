#pragma once
// Decides the tokens that may come next, so that a text belongs to a grammar and ends in time. A
// token is allowed if the text after it can still be ended with the remaining tokens, one byte
// each. So every text is complete, whatever the model prefers.
//
//   TokenRule rule(tokenizer, grammar, stop_ids);
//   ConstrainedText text = rule.begin();
//   rule.restrict(text, tokens_left, logits);     // −∞ where a token may not come
//   rule.take(text, id);
//
// Masks alone do not end a text within its limit; the fewest bytes that end a text, which each
// state knows, do. Keywords that a grammar cannot express are refused beforehand, since rejecting
// finished answers would make drawing endless.
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/lib/text/grammar/matcher.h"
#include "core/lib/text/tokenizer.h"

namespace forge {

struct ConstrainedText {
  int state = 0;
  bool empty = true;  // tokenizers may leave out the space of a text's first token
};

class TokenRule {
 public:
  // Throws Error(environment) if the tokenizer has no tokens for single bytes that every text of
  // the grammar needs.
  TokenRule(const Tokenizer& tokenizer, Grammar grammar, std::vector<int32_t> stop_ids);

  ConstrainedText begin() const { return {.state = matcher_.start()}; }
  // Returns the number of tokens that are enough for the shortest text.
  int64_t shortest() const { return matcher_.shortest(matcher_.start()); }
  // Sets the logits of all other tokens to −∞. `left`: tokens that the text may still have, this
  // one counted and stop tokens not; at least 1. `logits`: [vocab].
  void restrict(const ConstrainedText& text, int64_t left, std::span<float> logits);
  void take(ConstrainedText& text, int32_t id);
  // True if the text is complete and nothing can follow.
  bool must_end(const ConstrainedText& text) const { return matcher_.must_end(text.state); }

 private:
  struct Allowed {
    int32_t id;
    int64_t shortest;  // fewest bytes that end the text after it
  };
  struct Branch {  // in the tree of all tokens' bytes, in preorder
    uint8_t byte;
    int32_t end;               // number of the first branch after its subtree
    std::vector<int32_t> ids;  // tokens that end here
  };
  using Tree = std::vector<Branch>;
  static Tree tree_of(const std::vector<std::string>& bytes);
  const std::vector<Allowed>& allowed(const ConstrainedText& text);

  std::vector<std::string> first_bytes_,
      bytes_;  // by id, as the first token and as a later one; empty: never written
  Tree first_tree_, tree_;
  Matcher matcher_;
  std::vector<int32_t> stop_ids_;
  std::unordered_map<int64_t, std::vector<Allowed>> known_;  // key: state and emptiness
};

}  // namespace forge
