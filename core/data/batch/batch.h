#pragma once
// The value that the data path produces: whole examples laid end to end, without padding.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace forge {

constexpr uint8_t kSource = 4;  // read by an encoder; the decoder's tokens follow
constexpr uint8_t kLikelihoodOnly = 2;  // counted by the likelihood beside a preference alone (objective.nll_on)

inline bool is_trained(uint8_t mask) { return mask != 0 && mask != kSource; }

// One tokenised example. `supervised[i]` says whether predicting token i is trained (see
// is_trained(); never true for i = 0). An example of an encoder-decoder is the source, the token
// that starts the decoder, and the answer.
struct Example {
  int64_t id = 0;  // stable number of the example in its split, from 0
  std::vector<int32_t> ids;
  std::vector<uint8_t> supervised;
};

// Returns the number of tokens before the first that is trained; those that the likelihood alone
// counts are no such ones.
int64_t first_trained(const Example& example);

// A judgement of an answer, as the data state it.
struct Judgement {
  bool desirable = true;  // chosen, or good
  double margin = 0;      // of a chosen answer: by how much it should win, in units of the reward
};

// A micro-batch: `sequences` examples as one run of `tokens` tokens. Sequences never attend to each
// other.
struct Batch {
  std::vector<int32_t> token_ids;  // [tokens]
  std::vector<int32_t> positions;  // [tokens]; restart at 0 in each sequence
  std::vector<int32_t> cu_seqlens;  // [sequences + 1]; sequence s is tokens cu_seqlens[s] … cu_seqlens[s + 1]
  // [tokens]; the token that follows in the same sequence, shifted here once and for all; -1 at a
  // sequence's end.
  std::vector<int32_t> targets;
  // [tokens]; weight of predicting `targets` there: 0 for no training, 1 for an ordinary supervised
  // token, -1 for one of kLikelihoodOnly.
  std::vector<float> loss_weights;
  std::vector<int64_t> example_ids;  // [sequences]
  std::vector<Judgement> judgements;  // [sequences]; empty where nothing is judged
  // Sources that an encoder reads, in the order of the sequences that see them; else empty. With
  // sources, everything above is the decoder's, without the last token of an answer, which nothing
  // follows.
  std::vector<int32_t> source_ids;         // [source tokens]
  std::vector<int32_t> source_positions;   // [source tokens]
  std::vector<int32_t> source_cu_seqlens;  // [sequences + 1]

  int64_t tokens() const { return static_cast<int64_t>(token_ids.size()); }
  // Returns the tokens of the batch's examples, their sources and the last tokens of their answers
  // included.
  int64_t all_tokens() const { return tokens() + (source_ids.empty() ? 0 : static_cast<int64_t>(source_ids.size()) + sequences()); }
  int64_t sequences() const { return static_cast<int64_t>(example_ids.size()); }
  int64_t supervised_tokens() const;
  // Appends one example as a new sequence.
  void append(const Example& example);
  // Appends the source that the encoder reads for the sequence that follows.
  void append_source(const int32_t* ids, size_t count);
};

}  // namespace forge
