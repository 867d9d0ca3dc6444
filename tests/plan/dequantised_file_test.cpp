// Compares matrices in blocks with transformers' own conversion
// (tests/parity/make_block_goldens.py).
#include "core/model/stored/dequantised_file.h"

#include <algorithm>

#include "core/lib/io/safetensors.h"
#include "tests/test.h"

using namespace forge;

namespace {

const std::string kGoldens = std::string(FORGE_SOURCE_DIR) + "/tests/parity/goldens/";

std::vector<float> values_of(const TensorFile& file, size_t index) {
  std::vector<float> values(static_cast<size_t>(file.tensors()[index].count()));
  file.read_f32(index, values.data());
  return values;
}

}  // namespace

TEST_CASE("mxfp4 and fp8 matrices are read as transformers reads them, whole and by rows") {
  const auto file = dequantised(open_safetensors(kGoldens + "blocks.safetensors"));
  const auto expected = open_safetensors(kGoldens + "blocks-expected.safetensors");
  REQUIRE(file->tensors().size() == expected->tensors().size());
  for (size_t i = 0; i < file->tensors().size(); ++i) {
    const TensorInfo& tensor = file->tensors()[i];
    INFO(tensor.name);
    const int64_t index = expected->find(tensor.name);
    REQUIRE(index >= 0);
    REQUIRE(tensor.shape == expected->tensors()[static_cast<size_t>(index)].shape);
    const std::vector<float> want = values_of(*expected, static_cast<size_t>(index));
    CHECK(values_of(*file, i) == want);
    CHECK(file->bytes_are_values(i) == (tensor.name == "norm.weight"));
    const int64_t row = tensor.count() / tensor.rows(), last = tensor.rows() - 1;
    std::vector<float> rows(static_cast<size_t>(2 * row));
    file->read_rows_f32(i, last - 1, 2, rows.data());
    CHECK(std::equal(rows.begin(), rows.end(), want.end() - 2 * row));
  }
}

TEST_CASE("a file without blocks is itself, and scales that fit nothing are refused") {
  auto plain = open_safetensors(kGoldens + "blocks-expected.safetensors");
  const TensorFile* same = plain.get();
  CHECK(dequantised(std::move(plain)).get() == same);
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/model.safetensors", codes(64, '\0'), scales(8, '\0');
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{2, 2, 2}, std::vector<int64_t>{4, 2}}) {
    write_safetensors(path, {{{"x_blocks", {2, 1, 2, 16}, DType::u8}, codes}, {{"x_scales", shape, DType::u8}, scales}}, {});
    CHECK_THROWS_WITH(dequantised(open_safetensors(path)), Catch::Contains("are not scales of x_blocks"));
  }
  write_safetensors(path, {{{"w", {8, 8}, DType::f8_e4m3}, codes}, {{"w_scale_inv", {3, 1}, DType::f32}, std::string(12, '\0')}}, {});
  CHECK_THROWS_WITH(dequantised(open_safetensors(path)), Catch::Contains("are not scales of w"));
}
