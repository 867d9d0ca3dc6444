#include "kernels/embedding/embedding.cuh"

#include "kernels/device/dispatch.cuh"
#include "kernels/embedding/embedding_args.h"

namespace forge {

namespace {

template <class From, class T>
void embed(const EmbeddingForward& args, CudaStream stream) {
  EmbeddingForwardArgs<From, T> a{as<From>(args.table), args.ids,      as<T>(args.y), args.tokens,
                                  args.width,           args.y_stride, args.scale};
  // The vector has as many elements as make 16 bytes of the wider type.
  dispatch_width<T>(sixteen_byte<T>({args.table, args.y}, {args.width, args.y_stride}), [&]<int N>(Width<N>) {
    launch("embedding_forward", embedding_forward_kernel<From, T, N>, grid_of(args.tokens, args.width, N), stream, a);
  });
}

bool same_type(const EmbeddingForward& args) { return args.table_type.value_or(args.type) == args.type; }

}  // namespace

std::string embedding_forward_cuda_refusal(const EmbeddingForward& args) {
  if (same_type(args) || (*args.table_type == Element::f16 && args.type == Element::f32)) return "";
  return "a table that is not of the compute type is fp16 and gives fp32";
}

void embedding_forward_cuda(const EmbeddingForward& args, CudaStream stream) {
  if (args.tokens == 0 || args.width == 0) return;
  if (!same_type(args)) return embed<fp16, float>(args, stream);
  dispatch_element(args.type, [&]<class T>(Type<T>) {
    embed<T, T>(args, stream);
  });
}

void embedding_backward_cuda(const EmbeddingBackward& args, CudaStream stream) {
  if (args.tokens == 0 || args.width == 0) return;
  dispatch_element(args.type, [&]<class T>(Type<T>) {
    EmbeddingBackwardArgs<T> a{as<T>(args.d_y), args.ids,        args.order,  args.d_table, args.tokens,
                               args.width,      args.d_y_stride, args.frozen, args.scale};
    // A vector has four columns: 16 bytes of the fp32 gradient.
    const bool wide =
        sixteen_byte<T>({args.d_y}, {args.width, args.d_y_stride}) && sixteen_byte<float>({args.d_table}, {});
    dispatch_width<float>(wide, [&]<int N>(Width<N>) {
      LaunchShape shape = grid_of(args.tokens, args.width, N);
      if (args.order != nullptr)
        launch("embedding_sorted", embedding_sorted_kernel<T, N>, shape, stream, a);
      else
        launch("embedding_atomic", embedding_atomic_kernel<T, N>, shape, stream, a);
    });
  });
}

}  // namespace forge
