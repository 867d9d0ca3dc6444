// Field numbers: ModelProto {pieces 1, trainer_spec 2, normalizer_spec 3}, SentencePiece {piece 1,
// score 2, type 3}, TrainerSpec {model_type 3}.
#include "core/lib/text/sentencepiece_file.h"

#include <cstring>

#include "core/lib/base/error.h"

namespace forge {
namespace {

// One field of a message: its number, and its value or bytes.
struct Field {
  uint64_t number = 0, varint = 0;
  uint32_t fixed32 = 0;
  std::string_view bytes;
};

class Message {
 public:
  Message(std::string_view bytes, const std::string& name) : left_(bytes), name_(name) {}

  bool next(Field& field) {
    if (left_.empty()) return false;
    const uint64_t key = varint();
    field = {key >> 3};
    switch (key & 7) {
      case 0:
        field.varint = varint();
        break;
      case 1:
        take(8);
        break;
      case 2:
        field.bytes = take(varint());
        break;
      case 5:
        std::memcpy(&field.fixed32, take(4).data(), 4);
        break;
      default:
        fail();
    }
    return true;
  }

 private:
  [[noreturn]] void fail() const {
    throw Error(ErrorKind::environment, name_ + ": not a SentencePiece model file");
  }
  std::string_view take(uint64_t size) {
    if (size > left_.size()) fail();
    const std::string_view taken = left_.substr(0, size);
    left_.remove_prefix(size);
    return taken;
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<uint8_t>(take(1)[0]);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    fail();
  }

  std::string_view left_;
  const std::string& name_;
};

void add_piece(std::string_view bytes, const std::string& name, SentencePieceVocabulary& vocabulary) {
  Message message(bytes, name);
  std::string piece;
  float score = 0;
  int32_t type = 1;
  for (Field field; message.next(field);) {
    if (field.number == 1) piece = field.bytes;
    if (field.number == 2) std::memcpy(&score, &field.fixed32, 4);
    if (field.number == 3) type = static_cast<int32_t>(field.varint);
  }
  vocabulary.pieces.push_back(std::move(piece));
  vocabulary.scores.push_back(score);
  vocabulary.types.push_back(type);
}

int64_t model_type_of(std::string_view trainer_spec, const std::string& name) {
  Message message(trainer_spec, name);
  int64_t type = 1;
  for (Field field; message.next(field);)
    if (field.number == 3) type = static_cast<int64_t>(field.varint);
  return type;
}

}  // namespace

SentencePieceVocabulary read_sentencepiece(std::string_view bytes, const std::string& name) {
  SentencePieceVocabulary vocabulary;
  Message message(bytes, name);
  for (Field field; message.next(field);) {
    if (field.number == 1) add_piece(field.bytes, name, vocabulary);
    if (field.number == 2) vocabulary.model_type = model_type_of(field.bytes, name);
    if (field.number == 3) vocabulary.normalizer = field.bytes;
  }
  if (vocabulary.pieces.empty()) throw Error(ErrorKind::environment, name + ": not a SentencePiece model file");
  return vocabulary;
}

}  // namespace forge
