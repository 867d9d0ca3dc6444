#include "kernels/quantize/quantize.cuh"

#include <bit>

#include "kernels/device/dispatch.cuh"
#include "kernels/quantize/quantize_args.h"

namespace forge {
namespace {

// 256 threads hold eight warps, a block of values each.
LaunchShape warps_for(int64_t blocks) { return {static_cast<unsigned>(ceil_div(blocks, 8)), 256}; }

}  // namespace

std::string dequantize_blocks_cuda_refusal(const DequantizeBlocks& args) {
  if (!by_book(args.coding)) return "GGUF's own blocks are decoded on a CPU alone";
  if (args.block == args.columns || std::has_single_bit(static_cast<uint64_t>(args.block))) return "";
  return "blocks that are neither a row nor a power of two are decoded on a CPU alone";
}

void dequantize_blocks_cuda(const DequantizeBlocks& args, CudaStream stream) {
  if (args.rows == 0 || args.columns == 0) return;
  dispatch_element(args.type, [&]<class T>(Type<T>) {
    const bool by_row = args.block == args.columns;
    DequantizeArgs<T> a{
        args.codes,       args.absmax_codes, args.book, args.absmax,  args.absmax_scale,
        args.absmax_book, as<T>(args.out),   args.rows, args.columns, args.out_stride,
        args.absmax_mean, by_row ? -1 : std::countr_zero(static_cast<uint64_t>(args.block))};
    // Eight values are whole bytes and have one row and one absmax.
    const bool eight = args.columns % 8 == 0 && args.block % 8 == 0 &&
                       sixteen_byte<T>({args.out}, {args.out_stride}) &&
                       reinterpret_cast<uintptr_t>(args.codes) % 8 == 0;
    dispatch_width<T, 8>(eight, [&]<int N>(Width<N>) {
      const bool four_bit = args.coding == BlockCoding::four_bits;
      launch("dequantize", four_bit ? dequantize_kernel<T, true, N> : dequantize_kernel<T, false, N>,
             grid_of(args.rows, args.columns, N), stream, a);
    });
  });
}

void quantize_blocks_cuda(const QuantizeBlocks& args, CudaStream stream) {
  if (args.count == 0) return;
  QuantizeArgs a{args.values, args.limits, args.book,  args.ranked,
                 args.codes,  args.absmax, args.count, args.subtract};
  LaunchShape shape = warps_for(ceil_div(args.count, args.block));
  if (args.four_bit)
    launch("quantize_four_bit", quantize_four_bit_kernel, shape, stream, a);
  else
    launch("quantize_bytes", args.block == 64 ? quantize_bytes_kernel<64> : quantize_bytes_kernel<256>, shape,
           stream, a);
}

}  // namespace forge
