#include "core/lib/io/gguf.h"

#include <unordered_set>

#include "core/lib/base/error.h"
#include "core/lib/base/file.h"
#include "core/lib/base/hash.h"
#include "core/lib/base/printable.h"
#include "core/lib/base/text.h"
#include "core/lib/io/faults.h"
#include "core/lib/io/gguf_reader.h"
#include "core/lib/io/gguf_types.h"
#include "core/lib/io/json.h"
#include "core/lib/io/pickle.h"

namespace forge {
namespace {

constexpr int64_t kSmallestKey = 8 + 4 + 1;         // length, type, value
constexpr int64_t kSmallestTensor = 8 + 4 + 4 + 8;  // length, dimensions, type, offset
constexpr int64_t kMostEntries = 1'000'000;         // keys, and tensors
constexpr size_t kLongestKey = 65535, kLongestName = 256;
constexpr int64_t kDefaultAlignment = 32;
constexpr uint32_t kMostDimensions = 4;

constexpr const char *kSplitCount = "split.count", *kSplitNumber = "split.no";
constexpr int64_t kMostParts = 10'000;

// Returns the end of a part's name: "-00002-of-00003.gguf".
std::string split_ending(int64_t number, int64_t count) {
  const auto five = [](int64_t value) {
    const std::string digits = std::to_string(value);
    return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
  };
  return "-" + five(number) + "-of-" + five(count) + ".gguf";
}

void check_version(GgufCursor& cursor, std::string_view file) {
  if (starts_with(file, kGitLfsPointer)) cursor.fail("is a Git LFS pointer, expected the file that it points to", kGitLfsHint);
  if (file.substr(0, 4) != "GGUF") cursor.fail("not a GGUF file: it does not begin with \"GGUF\"");
  cursor.skip(4, "the magic");
  auto version = cursor.scalar<uint32_t>("the version");
  if (version == 2 || version == 3) return;
  if (version != 0 && (version & 0xffff) == 0)
    cursor.fail("a big-endian GGUF, forge reads little-endian ones",
                "convert the model again on this machine");
  cursor.fail("GGUF version " + std::to_string(version) + ", forge reads versions 2 and 3",
              "convert the model again with a recent llama.cpp");
}

std::string_view read_name(GgufCursor& cursor, size_t longest, const char* what) {
  std::string_view name = cursor.string(what);
  if (name.empty()) cursor.fail(std::string(what) + " is empty");
  if (name.size() > longest)
    cursor.fail(std::string(what) + " has " + std::to_string(name.size()) + " bytes, the limit is " +
                std::to_string(longest));
  if (!valid_utf8(name) || name.find('\0') != name.npos)
    cursor.fail(std::string(what) + " is not text: " + show_name(name));
  return name;
}

std::vector<int64_t> read_shape(GgufCursor& cursor, const std::string& name) {
  auto dimensions = cursor.scalar<uint32_t>("the number of dimensions");
  if (dimensions > kMostDimensions)
    cursor.fail("tensor " + show_name(name) + " has " + std::to_string(dimensions) +
                " dimensions, the limit is 4");
  std::vector<int64_t> shape(dimensions);
  for (uint32_t i = 0; i < dimensions; ++i) {
    auto size = cursor.scalar<uint64_t>("a dimension");
    if (size > INT64_MAX)
      cursor.fail("tensor " + show_name(name) + " has the dimension " + std::to_string(size));
    shape[dimensions - 1 - i] = static_cast<int64_t>(size);
  }
  return shape;
}

// Returns the bytes of a tensor. Checks for whole blocks in every row, and that sizes do not
// overflow.
int64_t checked_bytes(GgufCursor& cursor, const GgufTensor& tensor) {
  const std::string what = "tensor " + show_name(tensor.name) + ", " + name_of(tensor.dtype) + " " +
                           format_shape(tensor.shape) + ", ";
  const int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back(), block = block_elements(tensor.dtype);
  if (row % block != 0) cursor.fail(what + "has rows that are not whole blocks of " + std::to_string(block));
  int64_t count = 1;
  for (int64_t size : tensor.shape)
    if (!multiply_checked(&count, size)) cursor.fail(what + "has more elements than 64 bits can count");
  int64_t bytes = count / block;
  if (!multiply_checked(&bytes, block_bytes(tensor.dtype)))
    cursor.fail(what + "has more bytes than 64 bits can count");
  return bytes;
}

// Reads the table; GgufTensor::begin is relative to the data. Types that forge cannot read are
// gathered, not thrown.
std::vector<GgufTensor> read_table(GgufCursor& cursor, int64_t count, Faults& unreadable) {
  std::vector<GgufTensor> tensors;
  std::unordered_set<std::string> names;
  for (int64_t i = 0; i < count; ++i) {
    GgufTensor tensor;
    tensor.name = read_name(cursor, kLongestName, "the name of a tensor");
    const std::string what = "tensor " + show_name(tensor.name);
    if (!names.insert(tensor.name).second) cursor.fail(what + " appears twice in the table");
    tensor.shape = read_shape(cursor, tensor.name);
    auto number = cursor.scalar<uint32_t>("the type of a tensor");
    auto begin = cursor.scalar<uint64_t>("the offset of a tensor");
    if (begin > INT64_MAX) cursor.fail(what + " begins at " + std::to_string(begin) + ", past 2^63 bytes");
    tensor.begin = static_cast<int64_t>(begin);
    const GgmlType* type = ggml_type(number);
    if (!type) cursor.fail(what + " has the unknown type " + std::to_string(number));
    if (!type->dtype) {
      unreadable.add(what + " is of type " + type->name);
    } else {
      tensor.dtype = *type->dtype;
      tensor.bytes = checked_bytes(cursor, tensor);
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

// Places each tensor where the one before ends, rounded up to the alignment, as llama.cpp demands:
// neither overlap nor hole. Makes begins absolute and returns the end of the last.
int64_t place_tensors(GgufCursor& cursor, int64_t data, int64_t alignment, std::vector<GgufTensor>& tensors) {
  int64_t expected = 0, end = data;
  for (GgufTensor& tensor : tensors) {
    if (tensor.begin != expected)
      cursor.fail("tensor " + show_name(tensor.name) + " begins at " + std::to_string(tensor.begin) +
                  " of the data, expected " + std::to_string(expected));
    if (tensor.bytes > INT64_MAX - data - alignment - expected)
      cursor.fail("tensor " + show_name(tensor.name) + " ends past 2^63 bytes");
    tensor.begin += data;
    end = tensor.begin + tensor.bytes;
    expected += (tensor.bytes + alignment - 1) & ~(alignment - 1);
  }
  return end;
}

}  // namespace

Gguf::Gguf(const std::string& path, Data data) : Gguf(path, data, Alone()) {
  if (get_int(kSplitCount, 1) > 1) open_parts(data);
}

Gguf::Gguf(const std::string& path, Data data, Alone) : file_(path) {
  if (pickle_content(file_.bytes().substr(0, 16))) refuse_pickle(path);
  GgufCursor cursor(file_.bytes(), path);
  check_version(cursor, file_.bytes());
  const int64_t num_tensors = cursor.count(kSmallestTensor, "the number of tensors");
  const int64_t num_keys = cursor.count(kSmallestKey, "the number of keys");
  if (num_tensors > kMostEntries || num_keys > kMostEntries)
    cursor.fail(format_count(num_tensors) + " tensors and " + format_count(num_keys) +
                " keys, the limit is " + format_count(kMostEntries));
  for (int64_t i = 0; i < num_keys; ++i) {
    std::string key(read_name(cursor, kLongestKey, "a key"));
    GgufValue value = cursor.value(cursor.type("a value"));
    if (!values_.emplace(key, value).second) cursor.fail("the key " + show_name(key) + " appears twice");
    keys_.push_back(std::move(key));
  }
  const int64_t alignment = get_int("general.alignment", kDefaultAlignment);
  if (alignment < 1 || alignment > (1 << 30) || (alignment & (alignment - 1)) != 0)
    fail("general.alignment is " + std::to_string(alignment) + ", expected a power of two up to 2^30");
  Faults unreadable(path);
  tensors_ = read_table(cursor, num_tensors, unreadable);
  unreadable.raise(ErrorKind::environment,
                   "forge reads f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, q5_k, q6_k and "
                   "mxfp4: convert with "
                   "llama-quantize --allow-requantize " +
                       path + " new.gguf q8_0");
  hash_ = hash_hex(file_.bytes().substr(0, cursor.position()));
  const int64_t begin = (static_cast<int64_t>(cursor.position()) + alignment - 1) & ~(alignment - 1);
  const int64_t end = place_tensors(cursor, begin, alignment, tensors_);
  data_missing_ = end > file_.size() && !tensors_.empty();
  if (data_missing_ && data == Data::required)
    fail("has " + std::to_string(file_.size()) + " bytes, but its last tensor ends at " + std::to_string(end),
         "the file is cut off: copy or download it again");
}

void Gguf::open_parts(Data data) {
  const int64_t count = get_int(kSplitCount, 1);
  const std::string ending = split_ending(1, count);
  if (count > kMostParts)
    fail(std::string(kSplitCount) + " is " + std::to_string(count) + ", the limit is " +
         std::to_string(kMostParts));
  if (get_int(kSplitNumber, 0) != 0)
    fail("is part " + std::to_string(get_int(kSplitNumber, 0) + 1) + " of " +
             std::to_string(count) + " of a split GGUF",
         "name the first part, which ends with " + ending);
  if (!ends_with(path(), ending))
    fail("is the first of " + std::to_string(count) +
             " parts of a split GGUF, and its name does not end with " + ending +
             ", by which the others are found",
         "give the parts the names that llama-gguf-split gave them, or join them: llama-gguf-split "
         "--merge");
  const std::string stem = path().substr(0, path().size() - ending.size());
  Faults missing(path());
  for (int64_t i = 1; i < count; ++i)
    if (const std::string part = stem + split_ending(i + 1, count); !file_exists(part))
      missing.add("the part " + part + " is not beside it");
  missing.raise(ErrorKind::environment, "download the missing parts");
  for (int64_t i = 1; i < count; ++i)
    take_part(Gguf(stem + split_ending(i + 1, count), data, Alone()), i, count);
  const int64_t stated = get_int("split.tensors.count", static_cast<int64_t>(tensors_.size()));
  if (stated != static_cast<int64_t>(tensors_.size()))
    fail("its parts hold " + std::to_string(tensors_.size()) + " tensors, expected " +
             std::to_string(stated) + " (split.tensors.count)",
         "the parts belong to different models: download them again");
  std::unordered_set<std::string_view> names;
  for (const GgufTensor& tensor : tensors_)
    if (!names.insert(tensor.name).second)
      fail("tensor " + show_name(tensor.name) + " is in two parts");
  Hasher hasher;
  hasher.add(std::string_view(hash_));
  for (const Gguf& part : parts_) hasher.add(std::string_view(part.hash_));
  hash_ = hasher.hex();
}

void Gguf::take_part(Gguf part, int64_t number, int64_t count) {
  if (part.get_int(kSplitCount, 1) != count || part.get_int(kSplitNumber, 0) != number)
    part.fail("is part " + std::to_string(part.get_int(kSplitNumber, 0) + 1) + " of " +
                  std::to_string(part.get_int(kSplitCount, 1)) + ", expected part " +
                  std::to_string(number + 1) + " of " + std::to_string(count),
              "the parts belong to different models: download them again");
  for (GgufTensor tensor : part.tensors_) {
    tensor.part = static_cast<size_t>(number);
    tensors_.push_back(std::move(tensor));
  }
  data_missing_ |= part.data_missing_;
  parts_.push_back(std::move(part));
}

std::vector<std::string> Gguf::further_parts() const {
  std::vector<std::string> paths;
  for (const Gguf& part : parts_) paths.push_back(part.path());
  return paths;
}

int64_t Gguf::file_bytes() const {
  int64_t bytes = file_.size();
  for (const Gguf& part : parts_) bytes += part.file_.size();
  return bytes;
}

std::string_view Gguf::bytes(const GgufTensor& tensor) const {
  if (tensor.part > 0) {
    GgufTensor own = tensor;
    own.part = 0;
    return parts_[tensor.part - 1].bytes(own);
  }
  if (tensor.begin > file_.size() || tensor.bytes > file_.size() - tensor.begin)
    fail("the data of tensor " + show_name(tensor.name) + " is not there, the file holds headers only");
  return file_.bytes().substr(static_cast<size_t>(tensor.begin), static_cast<size_t>(tensor.bytes));
}

void Gguf::fail(const std::string& what, const std::string& hint) const {
  throw Error(ErrorKind::environment, path() + ": " + what).hint(hint);
}

}  // namespace forge
