#include "kernels/short_conv/short_conv_args.h"
#include "tests/kernels/cases.h"

namespace forge::kernel_test {
namespace {

struct Setting {
  std::vector<int64_t> lengths;
  int64_t channels, width;
  bool silu = true, bias = false;

  int64_t tokens() const {
    int64_t sum = 0;
    for (int64_t length : lengths) sum += length;
    return sum;
  }
  int64_t texts() const { return static_cast<int64_t>(lengths.size()); }
  std::string title(const char* what, const Layout& layout, Store type) const {
    std::string name = std::string(what) + " ";
    for (int64_t length : lengths) name += std::to_string(length) + "+";
    name.back() = ' ';
    return name + "of " + std::to_string(channels) + " taps " + std::to_string(width) +
           (silu ? " silu" : "") + (bias ? " bias " : " ") + layout.name + " " + name_of(type);
  }
};

at::Tensor offsets(const Setting& s) {
  at::Tensor cu = at::zeros({s.texts() + 1}, at::kLong);
  for (int64_t i = 0; i < s.texts(); ++i) cu[i + 1] = cu[i] + s.lengths[static_cast<size_t>(i)];
  return cu;
}

// `before` [texts, width − 1, channels] precedes each text.
at::Tensor convolved(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                     const at::Tensor& before, const Setting& s) {
  std::vector<at::Tensor> texts;
  int64_t begin = 0;
  for (int64_t i = 0; i < s.texts(); ++i) {
    const int64_t length = s.lengths[static_cast<size_t>(i)];
    const at::Tensor rows = at::cat({before[i], x.narrow(0, begin, length)});
    at::Tensor sum = bias.unsqueeze(0).expand({length, s.channels});
    for (int64_t j = 0; j < s.width; ++j)
      sum = sum + rows.narrow(0, j, length) * weight.select(1, j);
    texts.push_back(s.silu ? sum * at::sigmoid(sum) : sum);
    begin += length;
  }
  return texts.empty() ? x + 0 * (weight.sum() + bias.sum()) : at::cat(texts);
}

at::Tensor nothing_before(const Setting& s) {
  return at::zeros({s.texts(), s.width - 1, s.channels}, at::kDouble);
}
at::Tensor bias_of(const Tensors& in, const Setting& s) {
  return s.bias ? in.at("bias") : at::zeros({s.channels}, at::kDouble);
}

std::vector<Operand> inputs(Store type, const Setting& s, const Layout& layout) {
  std::vector<Operand> operands{input("cu_seqlens", Store::i32, offsets(s)),
                                input("weight", type, normal({s.channels, s.width}, 2))};
  if (s.bias) operands.push_back(input("bias", type, normal({s.channels}, 3)));
  operands.push_back(laid(input("x", type, normal({s.tokens(), s.channels}, 1)), layout));
  return operands;
}

ShortConvShape shape_of(Store type, const Setting& s, Pointers& p) {
  return {element(type), s.texts(), p["cu_seqlens"], s.channels, s.width, s.silu, s.tokens()};
}

const Tolerance kSum{.roundings = 1.01,
                     .sums = 40,
                     .reason = "one rounding; a sum of taps, and silu's exp to 2 units"};

Case forward_case(Store type, const Setting& s, const Layout& layout) {
  std::vector<Operand> operands = inputs(type, s, layout);
  operands.push_back(laid(output("y", type, {s.tokens(), s.channels}, kSum), layout));
  return make_case<ShortConvForward>(
      "short_conv", s.title("forward", layout, type), operands,
      [=](const Tensors& in) {
        return Tensors{
            {"y", convolved(in.at("x"), in.at("weight"), bias_of(in, s), nothing_before(s), s)}};
      },
      [=](Pointers& p) {
        ShortConvForward a{.shape = shape_of(type, s, p),
                           .x = p["x"],
                           .x_stride = p.stride("x"),
                           .weight = p["weight"]};
        if (s.bias) a.bias = p["bias"];
        a.y = p["y"], a.y_stride = p.stride("y");
        return a;
      });
}

// A text goes on from its state, or begins and leaves one.
Case state_case(Store type, const Setting& s, bool begins) {
  std::vector<Operand> operands = inputs(type, s, kDense);
  operands.push_back(output("y", type, {s.tokens(), s.channels}, kSum));
  operands.push_back(in_out("state", type, normal({s.texts(), (s.width - 1) * s.channels}, 4),
                            {.roundings = 0, .sums = 0, .reason = "a copy"}));
  const auto places = std::make_shared<std::vector<char*>>();
  return make_case<ShortConvForward>(
      "short_conv", s.title(begins ? "begins" : "goes on", kDense, type), operands,
      [=](const Tensors& in) {
        const at::Tensor before =
            begins ? nothing_before(s) : in.at("state").view({s.texts(), s.width - 1, s.channels});
        std::vector<at::Tensor> after;
        int64_t begin = 0;
        for (int64_t i = 0; i < s.texts(); begin += s.lengths[static_cast<size_t>(i++)]) {
          const int64_t length = s.lengths[static_cast<size_t>(i)];
          after.push_back(at::cat({before[i], in.at("x").narrow(0, begin, length)})
                              .narrow(0, length, s.width - 1)
                              .reshape({-1}));
        }
        return Tensors{{"y", convolved(in.at("x"), in.at("weight"), bias_of(in, s), before, s)},
                       {"state", at::stack(after)}};
      },
      [=](Pointers& p) {
        ShortConvForward a{.shape = shape_of(type, s, p),
                           .x = p["x"],
                           .x_stride = p.stride("x"),
                           .weight = p["weight"]};
        if (s.bias) a.bias = p["bias"];
        a.y = p["y"], a.y_stride = p.stride("y");
        places->clear();
        char* const first = p["state"];
        for (int64_t i = 0; i < s.texts(); ++i)
          places->push_back(first + i * (s.width - 1) * s.channels * bytes_of(element(type)));
        a.states = places->data(), a.begins = begins;
        return a;
      });
}

Case backward_case(Store type, const Setting& s, const Layout& layout) {
  std::vector<Operand> operands = inputs(type, s, layout);
  operands.push_back(laid(input("d_y", type, normal({s.tokens(), s.channels}, 5)), layout));
  operands.push_back(laid(output("d_x", type, {s.tokens(), s.channels}, kSum), layout));
  const Tolerance total{
      .roundings = 1.01, .sums = 60, .reason = "a sum over the tokens, and silu's exp"};
  operands.push_back(in_out("d_weight", Store::f32, normal({s.channels, s.width}, 6), total));
  operands.push_back(in_out("d_bias", Store::f32, normal({s.channels}, 7), total));
  return make_case<ShortConvBackward>(
      "short_conv", s.title("backward", layout, type), operands,
      [=](const Tensors& in) {
        const Forward forward = [=](const Tensors& v) {
          return Tensors{
              {"y", convolved(v.at("x"), v.at("weight"), v.at("bias"), nothing_before(s), s)}};
        };
        const Tensors values{
            {"x", in.at("x")}, {"weight", in.at("weight")}, {"bias", bias_of(in, s)}};
        const Tensors d =
            gradients(forward, values, {"x", "weight", "bias"}, {{"y", in.at("d_y")}});
        const at::Tensor largest = at::cat({in.at("x").abs(), at::zeros({1, s.channels}, at::kDouble)}).amax(0);
        const at::Tensor terms = in.at("d_y").abs().sum(0) * (1 + largest);
        Tensors out{{"d_x", d.at("x")}};
        for (const char* name : {"weight", "bias"}) {
          const std::string of = std::string("d_") + name;
          if (in.count(of) == 0) continue;  // not wanted
          out[of] = in.at(of) + d.at(name);
          const at::Tensor size = in.at(of).dim() > 1 ? terms.unsqueeze(1) : terms;
          out[of + ".size"] = size + in.at(of).abs();
        }
        return out;
      },
      [=](Pointers& p) {
        ShortConvBackward a{.shape = shape_of(type, s, p),
                            .d_y = p["d_y"],
                            .d_y_stride = p.stride("d_y"),
                            .x = p["x"],
                            .x_stride = p.stride("x"),
                            .weight = p["weight"]};
        if (s.bias) a.bias = p["bias"];
        a.d_x = p["d_x"], a.d_x_stride = p.stride("d_x"), a.d_weight = p["d_weight"],
        a.d_bias = p["d_bias"];
        return a;
      });
}

}  // namespace

void add_short_conv_cases(std::vector<Case>& cases) {
  const Setting settings[] = {{{1}, 1, 4},
                              {{5}, 3, 4},
                              {{3, 1, 2, 7}, 20, 4},
                              {{9, 2}, 130, 3, false},
                              {{6, 40, 1}, 17, 2, true, true},
                              {{4, 4}, 260, 4, false, true},
                              {{7}, 8, 1},
                              {{12, 5}, 16, 8, true, true}};
  for (Store type : kFloats) {
    for (const Setting& s : settings) {
      for (const Layout& layout : kLayouts) {
        cases.push_back(forward_case(type, s, layout));
        cases.push_back(backward_case(type, s, layout));
      }
      cases.push_back(over(backward_case(type, s, kDense), "d_x", "x"));
      if (s.width > 1)
        for (const bool begins : {true, false}) cases.push_back(state_case(type, s, begins));
    }
    const Case backward = backward_case(type, settings[2], kDense);
    cases.push_back(not_wanted(not_wanted(backward, "d_weight"), "d_bias"));
    cases.push_back(not_wanted(backward, "d_weight"));
    cases.push_back(not_wanted(backward, "d_bias"));
    for (const Setting& nothing : {Setting{{}, 5, 4}, Setting{{0}, 5, 4}}) {
      cases.push_back(forward_case(type, nothing, kDense));
      cases.push_back(backward_case(type, nothing, kDense));
    }
    add_alone(cases, forward_case(type, {{5, 3}, 48, 4}, kDense));
    add_alone(cases, backward_case(type, {{5, 3}, 48, 4}, kDense));
  }
}

}  // namespace forge::kernel_test
