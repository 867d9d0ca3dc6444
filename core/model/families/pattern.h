#pragma once
// A user's regular expression over module paths, with the meaning of Python's `re.fullmatch` where
// the two dialects agree. Matching is bounded: an expression that backtracks without end throws
// Error(job) instead of hanging.
#include <memory>
#include <string>

namespace forge {

class Pattern {
 public:
  // Throws KeyError(job) about `key` that says what is wrong with `expression`.
  Pattern(const std::string& expression, const std::string& key);
  ~Pattern();
  Pattern(Pattern&&) noexcept;
  // True if the whole text matches.
  bool matches(const std::string& text) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace forge
