// Bit for bit, against the formulas in fp32 ATen; that the CPU's loops are bitsandbytes' is shown
// by goldens (tests/engine/quantize_test.cpp).
#include "core/lib/base/error.h"
#include "core/lib/base/ceil_div.h"
#include "kernels/quantize/blocks.h"
#include "kernels/quantize/quantize_args.h"
#include "tests/kernels/cases.h"
#include "tests/kernels/gguf_blocks.h"

namespace forge::kernel_test {
namespace {

constexpr Tolerance kExact{.roundings = 0, .sums = 0, .reason = "bit for bit"};
constexpr int64_t kBlock = 64, kNested = 256;


template <class Values>
at::Tensor tensor_of(const Values& values) {
  at::Tensor result = at::empty({static_cast<int64_t>(values.size())}, at::kDouble);
  for (size_t i = 0; i < values.size(); ++i) result[static_cast<int64_t>(i)] = static_cast<double>(values[i]);
  return result;
}
at::Tensor whole(const at::Tensor& x) { return x.to(at::kLong); }

// Returns zeros, denormals, an outlier, the ends of the range and a dominated block; then normal
// numbers and an odd tail.
at::Tensor adversarial(int64_t count) {
  at::Tensor x = normal({count}, 5);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t kind = i / kBlock % 7;
    if (kind == 0) x[i] = 0;
    if (kind == 1) x[i].mul_(1e-41);
    if (kind == 2 && i % kBlock == 9) x[i] = 1e30;
    if (kind == 3) x[i] = i % 2 ? 3.4e38 : -3.4e38;
    if (kind == 4 && i % kBlock != 0) x[i].mul_(1e-7);
  }
  return x;
}

// Returns [blocks, block], filled up with zeros.
at::Tensor in_blocks(const at::Tensor& x, int64_t block) {
  const int64_t count = x.size(0), blocks = ceil_div(count, block);
  return at::constant_pad_nd(x, {0, blocks * block - count}).view({blocks, block});
}

// Returns the rank of the nearest entry, which is the number of limits below.
at::Tensor limits_below(const at::Tensor& unit, const at::Tensor& limits) {
  return unit.unsqueeze(-1).gt(limits).sum(-1);
}

// Returns fp4's values as bitsandbytes documents them: a sign, two bits of exponent and one of
// mantissa.
at::Tensor fp4_values() {
  const at::Tensor positive = at::tensor({0.0, 0.0052083333, 0.6666666667, 1.0, 0.3333333333, 0.5, 0.1666666667, 0.25}, at::kDouble);
  return at::cat({positive, -positive});
}

Tensors four_bit_oracle(const Tensors& in) {
  at::Tensor x = in.at("values").to(at::kFloat), rows = in_blocks(x, kBlock);
  at::Tensor absmax = rows.abs().amax(1), guarded = absmax.clamp_min(1e-38f).unsqueeze(1);
  at::Tensor unit = rows * guarded.reciprocal();
  if (x.size(0) % kBlock != 0) {  // the short last block is divided, and its absmax is never zero
    unit[-1] = rows[-1] / guarded[-1];
    absmax[-1] = guarded[-1][0];
  }
  at::Tensor below = limits_below(unit.clamp(-1, 1), in.at("limits").to(at::kFloat)).flatten();
  at::Tensor codes = in.at("ranked").index_select(0, below).view({-1, 2});
  return {{"codes", (codes.select(1, 0) * 16 + codes.select(1, 1)).narrow(0, 0, (x.size(0) + 1) / 2)},
          {"absmax", absmax.to(at::kDouble)}};
}

// Quantises like bitsandbytes on a CPU, through 65,536 equal steps of [−1, 1].
Tensors eight_bit_oracle(const Tensors& in, int64_t block, double subtract) {
  at::Tensor x = in.at("values").to(at::kFloat) - subtract, rows = in_blocks(x, block);
  at::Tensor absmax = rows.abs().amax(1), unit = rows * absmax.reciprocal().unsqueeze(1);
  unit = unit.nan_to_num(-1).clamp(-1, 1);  // 0 times the infinite reciprocal of a denormal
  at::Tensor step = ((unit + 1) * 0.5 * 65535 + 0.5).to(at::kInt).to(at::kFloat);
  at::Tensor book = in.at("book").to(at::kFloat),
             limits = (book.narrow(0, 0, 255) + book.narrow(0, 1, 255)) * 0.5;
  at::Tensor codes = limits_below(step * 2 / 65535 - 1, limits).masked_fill(absmax.eq(0).unsqueeze(1), 0);
  return {{"codes", codes.flatten().narrow(0, 0, x.size(0))}, {"absmax", absmax.to(at::kDouble)}};
}

Case four_bit_case(const char* name, const FourBitBook& book, int64_t count, double subtract = 0) {
  const FourBitLimits table = four_bit_limits(book);
  return make_case<QuantizeBlocks>(
      "quantize", std::string(name) + " " + std::to_string(count) + (subtract != 0 ? " less a mean" : ""),
      {input("values", Store::f32, adversarial(count)), input("limits", Store::f32, tensor_of(table.limits)),
       input("ranked", Store::u8, whole(tensor_of(table.ranked))),
       output("codes", Store::u8, {(count + 1) / 2}, kExact),
       output("absmax", Store::f32, {ceil_div(count, kBlock)}, kExact)},
      [=](const Tensors& in) {
        Tensors centred = in;
        centred["values"] = (in.at("values").to(at::kFloat) - subtract).to(at::kDouble);
        return four_bit_oracle(centred);
      },
      [=](Pointers& p) {
        QuantizeBlocks a{.four_bit = true, .count = count, .block = kBlock};
        a.subtract = static_cast<float>(subtract);
        a.values = p["values"], a.codes = p["codes"], a.absmax = p["absmax"];
        a.limits = p["limits"], a.ranked = p["ranked"];
        return a;
      });
}

Case eight_bit_case(int64_t count, int64_t block, double subtract) {
  auto oracle = [=](const Tensors& in) { return eight_bit_oracle(in, block, subtract); };
  return make_case<QuantizeBlocks>(
      "quantize",
      "int8 " + std::to_string(count) + " in blocks of " + std::to_string(block) +
          (subtract != 0 ? " less a mean" : ""),
      {input("values", Store::f32, adversarial(count)), input("book", Store::f32, tensor_of(dynamic_book())),
       output("codes", Store::u8, {count}, kExact),
       output("absmax", Store::f32, {ceil_div(count, block)}, kExact)},
      oracle, [=](Pointers& p) {
        QuantizeBlocks a{.four_bit = false, .count = count, .block = block};
        a.values = p["values"], a.subtract = static_cast<float>(subtract);
        a.codes = p["codes"], a.absmax = p["absmax"], a.book = p["book"];
        return a;
      });
}

struct Format {
  const char* name;
  bool four_bit;
  at::Tensor book;
  bool by_row = false;  // an absmax belongs to a row, as in E4M3
};

struct Shape {
  int64_t rows, columns;
  Layout layout;
};

constexpr double kMean = 0.5;

// Repeats each of `count` absmax values or codes for the values of its block.
at::Tensor each(const at::Tensor& of_block, int64_t block, int64_t count) {
  return of_block.repeat_interleave(block).narrow(0, 0, count);
}

at::Tensor absmax_of(const Tensors& in, bool nested) {
  if (!nested) return in.at("absmax").to(at::kFloat);
  at::Tensor codes = in.at("absmax_codes"), scale = in.at("absmax_scale").to(at::kFloat);
  return in.at("absmax_book").to(at::kFloat).index_select(0, codes) * each(scale, kNested, codes.size(0)) +
         kMean;
}

Case dequantize_case(Store type, const Format& format, bool nested, const Shape& s) {
  const int64_t block = format.by_row ? s.columns : kBlock;
  const int64_t count = s.rows * s.columns, blocks = ceil_div(count, block);
  auto random_bytes = [](int64_t n, uint64_t seed) { return whole(uniform_values({n}, seed, 0, 256)); };
  std::vector<Operand> operands{
      input("codes", Store::u8, random_bytes(format.four_bit ? (count + 1) / 2 : count, 6)),
      input("book", Store::f32, format.book),
      laid(output("out", type, {s.rows, s.columns}, kExact), s.layout)};
  if (nested) {
    operands.push_back(input("absmax_codes", Store::u8, random_bytes(blocks, 7)));
    operands.push_back(input("absmax_scale", Store::f32, normal({ceil_div(blocks, kNested)}, 8)));
    operands.push_back(input("absmax_book", Store::f32, tensor_of(dynamic_book())));
  } else {
    // The powers reach from denormals to values that are infinite in fp16.
    at::Tensor powers = at::pow(10.0, at::arange(blocks, at::kDouble).mul(7).add(40).remainder(46).sub(40));
    operands.push_back(input("absmax", Store::f32, powers * uniform_values({blocks}, 9, 1, 2)));
  }
  auto oracle = [=](const Tensors& in) {
    at::Tensor codes = in.at("codes"), book = in.at("book").to(at::kFloat);
    if (format.four_bit)
      codes = at::stack({codes.floor_divide(16), codes.remainder(16)}, 1).flatten().narrow(0, 0, count);
    at::Tensor values = book.index_select(0, codes) * each(absmax_of(in, nested), block, count);
    auto to = type == Store::bf16 ? at::kBFloat16 : type == Store::f16 ? at::kHalf : at::kFloat;
    return Tensors{{"out", values.to(to).to(at::kDouble).view({s.rows, s.columns})}};
  };
  return make_case<DequantizeBlocks>(
      "quantize",
      std::string("back ") + format.name + (nested ? " nested " : " ") + std::to_string(s.rows) + "x" +
          std::to_string(s.columns) + " " + s.layout.name + " " + name_of(type),
      operands, oracle, [=](Pointers& p) {
        DequantizeBlocks a{.type = element(type), .coding = format.four_bit ? BlockCoding::four_bits : BlockCoding::eight_bits};
        a.rows = s.rows, a.columns = s.columns, a.codes = p["codes"], a.book = p["book"];
        a.block = block, a.out = p["out"], a.out_stride = p.stride("out");
        if (!nested) {
          a.absmax = p["absmax"];
          return a;
        }
        a.absmax_codes = p["absmax_codes"], a.absmax_scale = p["absmax_scale"];
        a.absmax_book = p["absmax_book"], a.absmax_mean = static_cast<float>(kMean);
        return a;
      });
}

Case gguf_case(Store type, const GgufType& gguf, int64_t rows, int64_t columns, const Layout& layout) {
  auto oracle = [=](const Tensors& in) {
    const auto to = type == Store::bf16 ? at::kBFloat16 : type == Store::f16 ? at::kHalf : at::kFloat;
    return Tensors{{"out", gguf_values(gguf, in.at("codes"), rows, columns).to(to).to(at::kDouble)}};
  };
  return make_case<DequantizeBlocks>(
      "quantize", std::string("back ") + name_of(gguf.dtype) + " " + std::to_string(rows) + "x" + std::to_string(columns) + " " + layout.name + " " + name_of(type),
      {input("codes", Store::u8, gguf_bytes(gguf, rows, columns, 6)), laid(output("out", type, {rows, columns}, kExact), layout)}, oracle,
      [=](Pointers& p) {
        DequantizeBlocks a{.type = element(type), .coding = gguf.coding, .rows = rows, .columns = columns, .codes = p["codes"]};
        a.out = p["out"], a.out_stride = p.stride("out");
        return a;
      });
}

// Sixteen rows side by side must have the values that they have one by one.
Case by_16_case(Store type, const GgufType& gguf, int64_t rows, int64_t columns) {
  const at::Tensor bytes = gguf_bytes(gguf, rows, columns, 7);
  const BlockCoding coding = *coding_by_16(gguf.coding, rows);
  auto oracle = [=](const Tensors&) {
    const auto to = type == Store::bf16 ? at::kBFloat16 : type == Store::f16 ? at::kHalf : at::kFloat;
    return Tensors{{"out", gguf_values(gguf, bytes, rows, columns).to(to).to(at::kDouble)}};
  };
  return make_case<DequantizeBlocks>(
      "quantize", std::string("back ") + name_of(gguf.dtype) + " by 16 " + std::to_string(rows) + "x" + std::to_string(columns) + " " + name_of(type),
      {input("codes", Store::u8, laid_by_16(coding, bytes, rows, columns)), output("out", type, {rows, columns}, kExact)}, oracle, [=](Pointers& p) {
        DequantizeBlocks a{.type = element(type), .coding = coding, .rows = rows, .columns = columns, .codes = p["codes"]};
        a.out = p["out"], a.out_stride = columns;
        return a;
      });
}

}  // namespace

void add_quantize_cases(std::vector<Case>& cases) {
  FORGE_CHECK(at::allclose(tensor_of(fp4_book()), fp4_values(), 1e-7, 0), "fp4's sixteen values");
  for (int64_t count : {0, 1, 2, 63, 64, 65, 129, 448, 1000, 4097}) {
    cases.push_back(four_bit_case("nf4", nf4_book(), count));
    cases.push_back(four_bit_case("fp4", fp4_book(), count));
    cases.push_back(four_bit_case("nf4", nf4_book(), count, 0.25));
    for (int64_t block : {kBlock, kNested})
      for (double subtract : {0.0, 0.25}) cases.push_back(eight_bit_case(count, block, subtract));
  }
  const Format formats[] = {{"nf4", true, tensor_of(nf4_book())},
                            {"fp4", true, tensor_of(fp4_book())},
                            {"int8", false, tensor_of(dynamic_book())}};
  const Layout spare{"with spare columns", 8, 0}, ragged{"misaligned", 4, 1};
  const Shape shapes[] = {{1, 1, kDense},    {3, 7, kDense},    {5, 64, kDense},
                          {5, 64, spare},    {2, 200, spare},   {4, 96, ragged},
                          {1, 4099, kDense}, {300, 64, kDense}, {5, 60, {"ragged in aligned rows", 4, 0}}};
  for (Store type : kFloats)
    for (const Format& format : formats)
      for (bool nested : {false, true})
        for (const Shape& shape : shapes) cases.push_back(dequantize_case(type, format, nested, shape));
  const Format rows{"int8 by row", false, tensor_of(dynamic_book()), true};
  for (Store type : kFloats)
    for (const Shape& shape : shapes) cases.push_back(dequantize_case(type, rows, false, shape));
  for (const Format& format : formats) {
    // Codes and result are read in wide accesses if they are aligned; the small tables never are.
    add_alone(cases, dequantize_case(Store::bf16, format, true, {5, 64, kDense}));
  }
  for (Store type : kFloats)
    for (const GgufType& gguf : gguf_types()) {
      if (coding_by_16(gguf.coding, 16))
        for (const int64_t rows : {16, 48}) cases.push_back(by_16_case(type, gguf, rows, 96));
      for (const Layout& layout : {kDense, spare}) cases.push_back(gguf_case(type, gguf, 5, 512, layout));
    }
  for (const Shape& shape : {Shape{0, 64, kDense}, Shape{3, 0, kDense}, Shape{1, kPastBlocks, kDense}}) cases.push_back(dequantize_case(Store::f32, formats[0], true, shape));
  // More values than a thread of a CPU takes at a time.
  cases.push_back(gguf_case(Store::f32, gguf_types()[0], 140, 512, spare));
  // More rows than a grid is high.
  cases.push_back(dequantize_case(Store::f32, formats[0], true, {kPastGrid, 2, kDense}));
}

}  // namespace forge::kernel_test
