#pragma once
// Facts that examples need about the model that they are made for.
#include <cstdint>

namespace forge {

struct ExampleModel {
  int64_t embedding_rows = 0;     // rows with tokens past them cannot be used; 0: not known
  int64_t decoder_start_id = -1;  // of an encoder-decoder: precedes an answer; −1: a decoder alone
  int64_t most_positions = 0;     // tokens that an encoder's source, and an answer to it, may have; 0: any

  bool reads_source() const { return decoder_start_id >= 0; }
};

}  // namespace forge
