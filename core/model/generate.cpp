#include "core/model/generate.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/lib/base/clock.h"
#include "core/lib/base/error.h"
#include "kernels/sampling/sampling_args.h"

namespace forge {
namespace {

struct Text {
  int64_t number = 0;
  Clock::time_point start;
  GenerationEnd end;
  int32_t last = 0;           // last token, the next step's input
  std::vector<int32_t> tail;  // text to search for stop sequences
  std::set<int32_t> seen;     // tokens of prompt and answer, for the repetition penalty
  std::vector<int32_t> held;  // prompt and answer, to look up what may follow
  std::vector<int32_t> guess;  // tokens after `last`, computed with it
};

class Generation {
 public:
  Generation(Decoder& decoder, const std::vector<std::vector<int32_t>>& prompts, const SamplingConfig& config,
             const GenerationRoom& room, const GenerationEvents& events, KeptTokens* kept)
      : decoder_(decoder), prompts_(prompts), config_(config), room_(room), events_(events), kept_(kept) {
    FORGE_CHECK(room.sequences >= config.samples, "room for " << room.sequences << " of " << config.samples << " texts of a prompt");
    const size_t texts = prompts.size() * static_cast<size_t>(config.samples);
    FORGE_CHECK(config.streams.empty() || config.streams.size() == texts, "a stream for each text");
    FORGE_CHECK(config.limits.empty() || config.limits.size() == texts, "a limit for each text");
    FORGE_CHECK(config.lookup_tokens == 0 || !events.restrict, "what may come next is known only of the next token");
    FORGE_CHECK(config.lookup_tokens == 0 || decoder.forgets(), "wrong guesses cannot be taken back from states");
    FORGE_CHECK(!kept || texts == 1, "tokens are kept of one text");
    for (int64_t slot = room.sequences; slot-- > 0;) free_.push_back(slot);
    for (const auto& stop : config.stop_sequences) longest_stop_ = std::max(longest_stop_, stop.size());
  }

  GenerationStats run() {
    if (config_.max_new_tokens <= 0) return stats_;
    while (next_ < prompts_.size() || !texts_.empty()) {
      const auto start = Clock::now();
      const bool prompts = next_ < prompts_.size() && has_room();
      prompts ? read_prompts() : step();
      (prompts ? stats_.prompt_seconds : stats_.token_seconds) += seconds_since(start);
      stats_.cache_bytes = std::max(stats_.cache_bytes, decoder_.cache_bytes());
    }
    return stats_;
  }

 private:
  bool has_room() const { return static_cast<int64_t>(free_.size()) >= config_.samples; }

  // Each prompt is read as the first of its texts; the others fork from it.
  void read_prompts() {
    std::vector<NewTokens> fresh;
    std::vector<int64_t> row_of;  // for each new text, its prompt's row of logits
    const size_t first = texts_.size();
    int64_t tokens = 0;
    while (next_ < prompts_.size() && has_room()) {
      NewTokens prompt = kept_ ? not_kept(prompts_[next_]) : NewTokens{0, prompts_[next_]};
      const auto length = static_cast<int64_t>(prompt.ids.size());
      if (tokens > 0 && tokens + length > room_.prompt_tokens) break;
      tokens += length;
      for (int64_t sample = 0; sample < config_.samples; ++sample) {
        const int64_t slot = free_.back();
        free_.pop_back();
        prompt.sequence = slot;
        if (sample == 0) fresh.push_back(prompt);
        row_of.push_back(static_cast<int64_t>(fresh.size()) - 1);
        texts_.push_back({slot, {.number = static_cast<int64_t>(next_) * config_.samples + sample, .start = Clock::now()}});
        if (penalises()) texts_.back().second.seen = {prompts_[next_].begin(), prompts_[next_].end()};
        if (config_.lookup_tokens > 0) texts_.back().second.held = prompts_[next_];
      }
      ++next_;
    }
    stats_.prompt_tokens += tokens;
    at::Tensor logits = decoder_.next_logits(fresh);
    if (config_.samples > 1) {
      logits = logits.index_select(0, at::tensor(row_of, at::kLong).to(logits.device()));
      for (size_t i = first; i < texts_.size(); ++i) {
        const int64_t from = fresh[static_cast<size_t>(row_of[i - first])].sequence;
        if (texts_[i].first != from) decoder_.fork(from, texts_[i].first);
      }
    }
    take(logits, first);
  }

  // Takes back what the decoder holds beside the prompt. Returns the prompt's other tokens, always
  // with its last one, whose logits are asked for.
  NewTokens not_kept(const std::vector<int32_t>& prompt) {
    std::vector<int32_t>& held = kept_->ids;
    const auto same = std::mismatch(held.begin(), held.end(), prompt.begin(), prompt.end()).first - held.begin();
    auto common = std::min(same, static_cast<std::ptrdiff_t>(prompt.size()) - 1);
    if (!decoder_.forgets() && common < static_cast<std::ptrdiff_t>(held.size())) common = 0;
    if (common == 0)
      decoder_.release(0);
    else
      forget(0, static_cast<int64_t>(held.size()) - common);
    held = prompt;
    return {0, {prompt.begin() + common, prompt.end()}, common > 0};
  }

  void forget(int64_t slot, int64_t tokens) {
    if (tokens > 0) decoder_.forget(slot, tokens);
    if (kept_) kept_->ids.resize(kept_->ids.size() - static_cast<size_t>(tokens));
  }

  void step() {
    guess();
    std::vector<NewTokens> fresh;
    for (const auto& [slot, text] : texts_) {
      fresh.push_back({slot, {text.last}});
      fresh.back().ids.insert(fresh.back().ids.end(), text.guess.begin(), text.guess.end());
      if (kept_) kept_->ids.insert(kept_->ids.end(), fresh.back().ids.begin(), fresh.back().ids.end());
    }
    take(decoder_.next_logits(fresh), 0);
  }

  // Guesses fill the places that texts have left free, each text's share of them, so that a step
  // has as many rows as it may have anyway. With all places taken, more rows cost what they bring:
  // a product in fp32 on two cores takes 12 ms for one row, 25 for 8 and 59 for 32.
  void guess() {
    if (config_.lookup_tokens == 0) return;
    int64_t room = room_.sequences - static_cast<int64_t>(texts_.size()), waiting = static_cast<int64_t>(texts_.size());
    for (auto& [slot, text] : texts_) {
      const int64_t share = room / waiting--, left = limit(text) - text.end.tokens - 1;
      text.guess = look_up(text.held, static_cast<size_t>(std::min({config_.lookup_tokens, share, left})));
      room -= static_cast<int64_t>(text.guess.size());
      stats_.guessed += static_cast<int64_t>(text.guess.size());
    }
  }

  bool penalises() const { return config_.repetition_penalty != 1; }

  int64_t limit(const Text& text) const {
    return config_.limits.empty() ? config_.max_new_tokens : config_.limits[static_cast<size_t>(text.number)];
  }

  // Returns the rows of the texts from `first` on, one each and one for each guess, with penalties
  // and restrictions applied.
  at::Tensor adjusted(const at::Tensor& logits, size_t first) const {
    if (!penalises() && !events_.restrict) return logits;
    at::Tensor rows = logits.to(at::kCPU).clone();
    const auto penalty = static_cast<float>(config_.repetition_penalty);
    float* row = rows.data_ptr<float>();
    for (size_t i = first; i < texts_.size(); ++i) {
      const Text& text = texts_[i].second;
      std::set<int32_t> seen = text.seen;
      for (size_t behind = 0; behind <= text.guess.size(); ++behind, row += rows.stride(0)) {
        if (behind > 0) seen.insert(text.guess[behind - 1]);
        for (const int32_t id : seen) row[id] = row[id] > 0 ? row[id] / penalty : row[id] * penalty;
        if (events_.restrict) events_.restrict(text.number, limit(text) - text.end.tokens, {row, static_cast<size_t>(rows.size(1))});
      }
    }
    return rows;
  }

  // Samples a token for each row of logits [rows, vocab], −1 if no logit of it is a number.
  // streams, indices [rows]: the text's stream and the number of the new token.
  void draw(const at::Tensor& logits, const std::vector<uint64_t>& streams,
            const std::vector<uint64_t>& indices) {
    const at::Tensor host = logits.cpu();
    tokens_.resize(streams.size());
    logps_.resize(streams.size());
    Sampling args{.rows = host.size(0), .vocab = host.size(1)};
    args.logits = host.const_data_ptr<float>(), args.stride = host.stride(0);
    args.temperature = static_cast<float>(config_.temperature), args.top_k = config_.top_k;
    args.top_p = static_cast<float>(config_.top_p), args.min_p = static_cast<float>(config_.min_p);
    args.seed = static_cast<uint64_t>(config_.seed);
    args.streams = streams.data(), args.indices = indices.data(), args.tokens = tokens_.data();
    args.logp = logps_.data();
    workspace_.resize(static_cast<size_t>(sampling_cpu_workspace(args)));
    args.workspace = workspace_.data();
    sampling_cpu(args);
  }

  // Samples the next tokens of the texts from `first` on and removes those that end. Draws after a
  // wrong guess are not used.
  void take(const at::Tensor& logits, size_t first) {
    std::vector<uint64_t> streams, indices;
    for (size_t i = first; i < texts_.size(); ++i) {
      const Text& text = texts_[i].second;
      const auto number = static_cast<size_t>(text.number);
      for (size_t behind = 0; behind <= text.guess.size(); ++behind) {
        streams.push_back(config_.streams.empty() ? number : config_.streams[number]);
        indices.push_back(static_cast<uint64_t>(text.end.tokens) + behind);
      }
    }
    draw(adjusted(logits, first), streams, indices);
    size_t kept = first, row = 0;
    for (size_t i = first; i < texts_.size(); ++i) {
      auto& [slot, text] = texts_[i];
      const std::vector<int32_t> guess = std::exchange(text.guess, {});
      size_t right = 0;
      bool on = goes_on(text, tokens_[row], logps_[row]);
      while (on && right < guess.size() && text.last == guess[right]) {
        ++right;
        on = goes_on(text, tokens_[row + right], logps_[row + right]);
      }
      row += 1 + guess.size();
      stats_.guessed_right += static_cast<int64_t>(right);
      if (on || kept_) forget(slot, static_cast<int64_t>(guess.size() - right));
      if (on) {
        if (kept != i) texts_[kept] = texts_[i];
        ++kept;
        continue;
      }
      text.end.seconds = seconds_since(text.start);
      events_.end(text.number, text.end);
      if (!kept_) decoder_.release(slot);
      free_.push_back(slot);
    }
    texts_.resize(kept);
    if (events_.step) events_.step();
  }

  bool goes_on(Text& text, int64_t token, float logp) {
    if (token < 0) {
      text.end.reason = TextEnd::not_finite;
      return false;
    }
    text.last = static_cast<int32_t>(token);
    if (penalises()) text.seen.insert(text.last);
    if (config_.lookup_tokens > 0) text.held.push_back(text.last);
    if (std::count(config_.stop_ids.begin(), config_.stop_ids.end(), text.last) > 0) {
      text.end.reason = TextEnd::stop;
      text.end.stop_id = text.last;
      text.end.stop_logp = logp;
      return false;
    }
    ++text.end.tokens;
    ++stats_.tokens;
    const bool wanted = events_.token(text.number, text.last, logp);
    if (ends_with_stop(text)) {
      text.end.reason = TextEnd::stop;
      return false;
    }
    return wanted && text.end.tokens < limit(text);
  }

  bool ends_with_stop(Text& text) {
    if (longest_stop_ == 0) return false;
    std::vector<int32_t>& tail = text.tail;
    tail.push_back(text.last);
    if (tail.size() > longest_stop_) tail.erase(tail.begin());
    for (const std::vector<int32_t>& stop : config_.stop_sequences) {
      if (stop.empty() || stop.size() > tail.size() || !std::equal(stop.rbegin(), stop.rend(), tail.rbegin())) continue;
      text.end.stop_tokens = static_cast<int64_t>(stop.size());
      return true;
    }
    return false;
  }

  Decoder& decoder_;
  const std::vector<std::vector<int32_t>>& prompts_;
  const SamplingConfig& config_;
  const GenerationRoom room_;
  const GenerationEvents& events_;
  KeptTokens* const kept_;
  // The latest draw.
  std::vector<int64_t> tokens_;
  std::vector<float> logps_;
  std::vector<char> workspace_;
  std::vector<std::pair<int64_t, Text>> texts_;  // unfinished texts, by decoder index
  std::vector<int64_t> free_;                    // numbers
  size_t next_ = 0;                              // prompt
  size_t longest_stop_ = 0;                      // tokens
  GenerationStats stats_;
};

}  // namespace

std::vector<int32_t> look_up(const std::vector<int32_t>& held, size_t most) {
  constexpr size_t kLongest = 3, kShortest = 2;  // one token alone is followed by too many others
  for (size_t n = kLongest; n >= kShortest; --n) {
    if (held.size() <= n) continue;
    const auto last = held.end() - static_cast<std::ptrdiff_t>(n);
    const auto found = std::find_end(held.begin(), held.end() - 1, last, held.end());
    if (found == held.end() - 1) continue;
    std::vector<int32_t> next;
    const size_t from = static_cast<size_t>(found - held.begin()) + n;
    // Past the end of a text that repeats itself it goes on with what is proposed.
    for (size_t i = from; next.size() < most; ++i) next.push_back(i < held.size() ? held[i] : next[i - held.size()]);
    return next;
  }
  return {};
}

GenerationStats generate(Decoder& decoder, const std::vector<std::vector<int32_t>>& prompts,
                         const SamplingConfig& config, const GenerationRoom& room, const GenerationEvents& events,
                         KeptTokens* kept) {
  return Generation(decoder, prompts, config, room, events, kept).run();
}

}  // namespace forge
