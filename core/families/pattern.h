#pragma once
// A user's regular expression over module paths, with Python's meaning of `re.fullmatch` for what the two
// dialects share. Matching is bounded: an expression that backtracks without end is an Error(job), not a
// hang.
#include <memory>
#include <string>

namespace forge {

class Pattern {
 public:
  // Throws KeyError(job) about `key` with what is wrong.
  Pattern(const std::string& expression, const std::string& key);
  ~Pattern();
  Pattern(Pattern&&) noexcept;
  // Whether the whole text matches.
  bool matches(const std::string& text) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace forge
