#include "core/lib/text/grammar/token_rule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/lib/base/text.h"

namespace forge {
namespace {

constexpr size_t kMostKnown = 512;  // states whose tokens are remembered; some hold the whole vocabulary

// Returns the bytes that a token writes after another one, if they depend on it, from the decoder.
std::string bytes_behind(const Tokenizer& tokenizer, int32_t id, int32_t letter) {
  const std::string before = tokenizer.decode(std::vector<int32_t>{letter});
  const std::string both = tokenizer.decode(std::vector<int32_t>{letter, id});
  return starts_with(both, before) ? both.substr(before.size()) : std::string();
}

struct TokenBytes {
  std::vector<std::string> first, later;
};

TokenBytes bytes_of_tokens(const Tokenizer& tokenizer) {
  const auto count = static_cast<size_t>(tokenizer.vocab_size());
  TokenBytes bytes{std::vector<std::string>(count), std::vector<std::string>(count)};
  std::vector<int32_t> letter;  // some token that is text alone
  tokenizer.encode_ids("a", letter);
  for (size_t i = 0; i < count; ++i) {
    const auto id = static_cast<int32_t>(i);
    if (!tokenizer.token_of(id) || tokenizer.is_special(id)) continue;
    if (std::optional<std::string> raw = tokenizer.bytes_of(id)) {
      bytes.first[i] = bytes.later[i] = *raw;
      continue;
    }
    bytes.first[i] = tokenizer.decode(std::vector<int32_t>{id});
    bytes.later[i] = letter.empty() ? bytes.first[i] : bytes_behind(tokenizer, id, letter.back());
  }
  return bytes;
}

std::array<bool, 256> single_bytes(const std::vector<std::string>& bytes) {
  std::array<bool, 256> writable{};
  for (const std::string& token : bytes)
    if (token.size() == 1) writable[static_cast<uint8_t>(token[0])] = true;
  return writable;
}

std::array<bool, 256> both(std::array<bool, 256> a, const std::array<bool, 256>& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] = a[i] && b[i];
  return a;
}

}  // namespace

TokenRule::TokenRule(const Tokenizer& tokenizer, Grammar grammar, std::vector<int32_t> stop_ids)
    : matcher_([&] {
        TokenBytes bytes = bytes_of_tokens(tokenizer);
        for (const int32_t id : stop_ids)  // they end a text, whatever they look like
          if (id >= 0 && static_cast<size_t>(id) < bytes.first.size())
            bytes.first[static_cast<size_t>(id)] = bytes.later[static_cast<size_t>(id)] = "";
        first_bytes_ = std::move(bytes.first), bytes_ = std::move(bytes.later);
        return Matcher(std::move(grammar), both(single_bytes(first_bytes_), single_bytes(bytes_)));
      }()),
      stop_ids_(std::move(stop_ids)) {
  if (shortest() >= kUnwritable)
    throw Error(
        ErrorKind::environment,
        "the tokenizer cannot write every allowed text: it has no tokens for some single bytes");
  first_tree_ = tree_of(first_bytes_);
  tree_ = tree_of(bytes_);
}

TokenRule::Tree TokenRule::tree_of(const std::vector<std::string>& bytes) {
  std::vector<int32_t> order;
  for (size_t i = 0; i < bytes.size(); ++i)
    if (!bytes[i].empty()) order.push_back(static_cast<int32_t>(i));
  const auto text = [&](int32_t id) -> const std::string& { return bytes[static_cast<size_t>(id)]; };
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return std::make_pair(std::string_view(text(a)), a) < std::make_pair(std::string_view(text(b)), b);
  });
  Tree tree;
  std::vector<size_t> path;  // branches to the present one
  std::string prefix;
  const auto leave_to = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back()) tree[path.back()].end = static_cast<int32_t>(tree.size());
  };
  for (const int32_t id : order) {
    const std::string& token = text(id);
    const size_t common = static_cast<size_t>(
        std::mismatch(prefix.begin(), prefix.end(), token.begin(), token.end()).first - prefix.begin());
    leave_to(common);
    for (size_t k = common; k < token.size(); ++k) {
      path.push_back(tree.size());
      tree.push_back({static_cast<uint8_t>(token[k]), 0, {}});
    }
    tree[path.back()].ids.push_back(id);
    prefix = token;
  }
  leave_to(0);
  return tree;
}

const std::vector<TokenRule::Allowed>& TokenRule::allowed(const ConstrainedText& text) {
  const int64_t key = int64_t{text.state} * 2 + text.empty;
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  if (known_.size() >= kMostKnown) known_.clear();
  std::vector<Allowed> tokens;
  const Tree& tree = text.empty ? first_tree_ : tree_;
  std::vector<std::pair<int32_t, int>> path{
      {static_cast<int32_t>(tree.size()), text.state}};  // end of a subtree, and the state in it
  for (int32_t i = 0; i < static_cast<int32_t>(tree.size());) {
    while (path.back().first <= i) path.pop_back();
    const Branch& branch = tree[static_cast<size_t>(i)];
    const int state = matcher_.next(path.back().second, branch.byte);
    if (state == Matcher::kDead) {
      i = branch.end;
      continue;
    }
    for (const int32_t id : branch.ids) tokens.push_back({id, matcher_.shortest(state)});
    path.emplace_back(branch.end, state);
    ++i;
  }
  return known_[key] = std::move(tokens);
}

void TokenRule::restrict(const ConstrainedText& text, int64_t left, std::span<float> logits) {
  const auto count = static_cast<int64_t>(logits.size());
  std::vector<std::pair<int32_t, float>> kept;
  const auto keep = [&](int32_t id) {
    if (id < count) kept.emplace_back(id, logits[static_cast<size_t>(id)]);
  };
  for (const Allowed& token : allowed(text))
    if (token.shortest <= left - 1) keep(token.id);
  if (matcher_.may_end(text.state))
    for (const int32_t id : stop_ids_) keep(id);
  std::fill(logits.begin(), logits.end(), -std::numeric_limits<float>::infinity());
  // A token with logit −∞ from the model still gets a finite one: it may be the only token allowed.
  for (const auto& [id, logit] : kept)
    logits[static_cast<size_t>(id)] =
        std::isinf(logit) ? std::copysign(std::numeric_limits<float>::max(), logit) : logit;
}

void TokenRule::take(ConstrainedText& text, int32_t id) {
  const std::string& bytes = (text.empty ? first_bytes_ : bytes_)[static_cast<size_t>(id)];
  for (const char c : bytes) text.state = matcher_.next(text.state, static_cast<uint8_t>(c));
  FORGE_CHECK(!bytes.empty() && text.state != Matcher::kDead, "token " << id << " was not allowed");
  text.empty = false;
}

}  // namespace forge
