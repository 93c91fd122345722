// strip large 256x256x256:128 x=fp8 scales=block out=bf16 print=mosaic
module attributes {stable_mosaic.version = 15 : i64} {
  func.func @octile_strip_large(%m: i32, %n: i32, %k: i32, %w_scale: memref<2x2xf32, #tpu.memory_space<smem>>, %x_scale: memref<2x2xf32, #tpu.memory_space<smem>>, %x: memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, %w_q: memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, %out: memref<256x256xbf16, #tpu.memory_space<vmem>>, %x_bf16: memref<1x256x256xbf16, #tpu.memory_space<vmem>>, %w_bf16: memref<2x256x256xbf16, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [#tpu.dimension_semantics<parallel>, #tpu.dimension_semantics<parallel>, #tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 1, 1, 1>, scalar_prefetch = 2 : i64, scratch_operands = 2 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{transform_indices = @x_block, window_bounds = array<i64: 256, 256>}, {transform_indices = @w_q_block, window_bounds = array<i64: 256, 256>}, {transform_indices = @out_block, window_bounds = array<i64: 256, 256>}]} {
    %c2_i32 = arith.constant 2 : i32
    %c0 = arith.constant 0 : index
    %c0_i32 = arith.constant 0 : i32
    %c128 = arith.constant 128 : index
    %c1_i32 = arith.constant 1 : i32
    %cst = arith.constant dense<0.000000e+00> : vector<256x256xf32>
    %0 = arith.muli %k, %c2_i32 : i32
    %1 = arith.muli %n, %c2_i32 : i32
    %2 = arith.muli %m, %c2_i32 : i32
    %3 = arith.index_cast %c0_i32 : i32 to index
    %4 = arith.index_cast %c0_i32 : i32 to index
    %5 = vector.load %w_q[%c0, %c0] : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<128x128xf8E4M3FN>
    %6 = arith.addi %1, %c0_i32 : i32
    %7 = arith.index_cast %6 : i32 to index
    %8 = arith.addi %0, %c0_i32 : i32
    %9 = arith.index_cast %8 : i32 to index
    %10 = memref.load %w_scale[%7, %9] : memref<2x2xf32, #tpu.memory_space<smem>>
    %11 = arith.extf %5 : vector<128x128xf8E4M3FN> to vector<128x128xf32>
    %12 = vector.broadcast %10 : f32 to vector<128x128xf32>
    %13 = arith.mulf %11, %12 : vector<128x128xf32>
    %14 = arith.truncf %13 : vector<128x128xf32> to vector<128x128xbf16>
    %15 = vector.shape_cast %14 : vector<128x128xbf16> to vector<1x128x128xbf16>
    tpu.vector_store %w_bf16[%4, %c0, %c0], %15 {strides = array<i32>} : memref<2x256x256xbf16, #tpu.memory_space<vmem>>, vector<1x128x128xbf16>,
    %16 = vector.load %w_q[%c0, %c128] : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<128x128xf8E4M3FN>
    %17 = arith.addi %1, %c0_i32 : i32
    %18 = arith.index_cast %17 : i32 to index
    %19 = arith.addi %0, %c1_i32 : i32
    %20 = arith.index_cast %19 : i32 to index
    %21 = memref.load %w_scale[%18, %20] : memref<2x2xf32, #tpu.memory_space<smem>>
    %22 = arith.extf %16 : vector<128x128xf8E4M3FN> to vector<128x128xf32>
    %23 = vector.broadcast %21 : f32 to vector<128x128xf32>
    %24 = arith.mulf %22, %23 : vector<128x128xf32>
    %25 = arith.truncf %24 : vector<128x128xf32> to vector<128x128xbf16>
    %26 = vector.shape_cast %25 : vector<128x128xbf16> to vector<1x128x128xbf16>
    tpu.vector_store %w_bf16[%4, %c0, %c128], %26 {strides = array<i32>} : memref<2x256x256xbf16, #tpu.memory_space<vmem>>, vector<1x128x128xbf16>,
    %27 = vector.load %w_q[%c128, %c0] : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<128x128xf8E4M3FN>
    %28 = arith.addi %1, %c1_i32 : i32
    %29 = arith.index_cast %28 : i32 to index
    %30 = arith.addi %0, %c0_i32 : i32
    %31 = arith.index_cast %30 : i32 to index
    %32 = memref.load %w_scale[%29, %31] : memref<2x2xf32, #tpu.memory_space<smem>>
    %33 = arith.extf %27 : vector<128x128xf8E4M3FN> to vector<128x128xf32>
    %34 = vector.broadcast %32 : f32 to vector<128x128xf32>
    %35 = arith.mulf %33, %34 : vector<128x128xf32>
    %36 = arith.truncf %35 : vector<128x128xf32> to vector<128x128xbf16>
    %37 = vector.shape_cast %36 : vector<128x128xbf16> to vector<1x128x128xbf16>
    tpu.vector_store %w_bf16[%4, %c128, %c0], %37 {strides = array<i32>} : memref<2x256x256xbf16, #tpu.memory_space<vmem>>, vector<1x128x128xbf16>,
    %38 = vector.load %w_q[%c128, %c128] : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<128x128xf8E4M3FN>
    %39 = arith.addi %1, %c1_i32 : i32
    %40 = arith.index_cast %39 : i32 to index
    %41 = arith.addi %0, %c1_i32 : i32
    %42 = arith.index_cast %41 : i32 to index
    %43 = memref.load %w_scale[%40, %42] : memref<2x2xf32, #tpu.memory_space<smem>>
    %44 = arith.extf %38 : vector<128x128xf8E4M3FN> to vector<128x128xf32>
    %45 = vector.broadcast %43 : f32 to vector<128x128xf32>
    %46 = arith.mulf %44, %45 : vector<128x128xf32>
    %47 = arith.truncf %46 : vector<128x128xf32> to vector<128x128xbf16>
    %48 = vector.shape_cast %47 : vector<128x128xbf16> to vector<1x128x128xbf16>
    tpu.vector_store %w_bf16[%4, %c128, %c128], %48 {strides = array<i32>} : memref<2x256x256xbf16, #tpu.memory_space<vmem>>, vector<1x128x128xbf16>,
    %49 = vector.load %x[%c0, %c0] : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<128x128xf8E4M3FN>
    %50 = arith.addi %2, %c0_i32 : i32
    %51 = arith.index_cast %50 : i32 to index
    %52 = arith.addi %0, %c0_i32 : i32
    %53 = arith.index_cast %52 : i32 to index
    %54 = memref.load %x_scale[%51, %53] : memref<2x2xf32, #tpu.memory_space<smem>>
    %55 = arith.extf %49 : vector<128x128xf8E4M3FN> to vector<128x128xf32>
    %56 = vector.broadcast %54 : f32 to vector<128x128xf32>
    %57 = arith.mulf %55, %56 : vector<128x128xf32>
    %58 = arith.truncf %57 : vector<128x128xf32> to vector<128x128xbf16>
    %59 = vector.shape_cast %58 : vector<128x128xbf16> to vector<1x128x128xbf16>
    tpu.vector_store %x_bf16[%3, %c0, %c0], %59 {strides = array<i32>} : memref<1x256x256xbf16, #tpu.memory_space<vmem>>, vector<1x128x128xbf16>,
    %60 = vector.load %x[%c0, %c128] : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<128x128xf8E4M3FN>
    %61 = arith.addi %2, %c0_i32 : i32
    %62 = arith.index_cast %61 : i32 to index
    %63 = arith.addi %0, %c1_i32 : i32
    %64 = arith.index_cast %63 : i32 to index
    %65 = memref.load %x_scale[%62, %64] : memref<2x2xf32, #tpu.memory_space<smem>>
    %66 = arith.extf %60 : vector<128x128xf8E4M3FN> to vector<128x128xf32>
    %67 = vector.broadcast %65 : f32 to vector<128x128xf32>
    %68 = arith.mulf %66, %67 : vector<128x128xf32>
    %69 = arith.truncf %68 : vector<128x128xf32> to vector<128x128xbf16>
    %70 = vector.shape_cast %69 : vector<128x128xbf16> to vector<1x128x128xbf16>
    tpu.vector_store %x_bf16[%3, %c0, %c128], %70 {strides = array<i32>} : memref<1x256x256xbf16, #tpu.memory_space<vmem>>, vector<1x128x128xbf16>,
    %71 = vector.load %x[%c128, %c0] : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<128x128xf8E4M3FN>
    %72 = arith.addi %2, %c1_i32 : i32
    %73 = arith.index_cast %72 : i32 to index
    %74 = arith.addi %0, %c0_i32 : i32
    %75 = arith.index_cast %74 : i32 to index
    %76 = memref.load %x_scale[%73, %75] : memref<2x2xf32, #tpu.memory_space<smem>>
    %77 = arith.extf %71 : vector<128x128xf8E4M3FN> to vector<128x128xf32>
    %78 = vector.broadcast %76 : f32 to vector<128x128xf32>
    %79 = arith.mulf %77, %78 : vector<128x128xf32>
    %80 = arith.truncf %79 : vector<128x128xf32> to vector<128x128xbf16>
    %81 = vector.shape_cast %80 : vector<128x128xbf16> to vector<1x128x128xbf16>
    tpu.vector_store %x_bf16[%3, %c128, %c0], %81 {strides = array<i32>} : memref<1x256x256xbf16, #tpu.memory_space<vmem>>, vector<1x128x128xbf16>,
    %82 = vector.load %x[%c128, %c128] : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<128x128xf8E4M3FN>
    %83 = arith.addi %2, %c1_i32 : i32
    %84 = arith.index_cast %83 : i32 to index
    %85 = arith.addi %0, %c1_i32 : i32
    %86 = arith.index_cast %85 : i32 to index
    %87 = memref.load %x_scale[%84, %86] : memref<2x2xf32, #tpu.memory_space<smem>>
    %88 = arith.extf %82 : vector<128x128xf8E4M3FN> to vector<128x128xf32>
    %89 = vector.broadcast %87 : f32 to vector<128x128xf32>
    %90 = arith.mulf %88, %89 : vector<128x128xf32>
    %91 = arith.truncf %90 : vector<128x128xf32> to vector<128x128xbf16>
    %92 = vector.shape_cast %91 : vector<128x128xbf16> to vector<1x128x128xbf16>
    tpu.vector_store %x_bf16[%3, %c128, %c128], %92 {strides = array<i32>} : memref<1x256x256xbf16, #tpu.memory_space<vmem>>, vector<1x128x128xbf16>,
    %93 = vector.load %x_bf16[%3, %c0, %c0] : memref<1x256x256xbf16, #tpu.memory_space<vmem>>, vector<1x256x256xbf16>
    %94 = vector.shape_cast %93 : vector<1x256x256xbf16> to vector<256x256xbf16>
    %95 = vector.load %w_bf16[%4, %c0, %c0] : memref<2x256x256xbf16, #tpu.memory_space<vmem>>, vector<1x256x256xbf16>
    %96 = vector.shape_cast %95 : vector<1x256x256xbf16> to vector<256x256xbf16>
    %97 = tpu.matmul %94, %96, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<256x256xbf16>, vector<256x256xbf16>, vector<256x256xf32> -> vector<256x256xf32>
    %98 = arith.truncf %97 : vector<256x256xf32> to vector<256x256xbf16>
    tpu.vector_store %out[%c0, %c0], %98 {strides = array<i32>} : memref<256x256xbf16, #tpu.memory_space<vmem>>, vector<256x256xbf16>,
    return
  }
  func.func @x_block(%m: i32, %n: i32, %k: i32, %prefetched0: memref<2x2xf32, #tpu.memory_space<smem>>, %prefetched1: memref<2x2xf32, #tpu.memory_space<smem>>) -> (i32, i32) {
    return %m, %k : i32, i32
  }
  func.func @w_q_block(%m: i32, %n: i32, %k: i32, %prefetched0: memref<2x2xf32, #tpu.memory_space<smem>>, %prefetched1: memref<2x2xf32, #tpu.memory_space<smem>>) -> (i32, i32) {
    return %n, %k : i32, i32
  }
  func.func @out_block(%m: i32, %n: i32, %k: i32, %prefetched0: memref<2x2xf32, #tpu.memory_space<smem>>, %prefetched1: memref<2x2xf32, #tpu.memory_space<smem>>) -> (i32, i32) {
    return %m, %n : i32, i32
  }
}
