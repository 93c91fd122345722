// strip aligned 128x256x128:128 x=bf16 scales=block out=f32 print=mosaic
module attributes {stable_mosaic.version = 15 : i64} {
  func.func @octile_strip_aligned(%m: i32, %n: i32, %k: i32, %w_scale: memref<2x1xf32, #tpu.memory_space<smem>>, %x_abs_max: memref<1x1xf32, #tpu.memory_space<smem>>, %x: memref<128x128xbf16, #tpu.memory_space<vmem>>, %w_q: memref<128x128xf8E4M3FN, #tpu.memory_space<vmem>>, %out: memref<128x128xf32, #tpu.memory_space<vmem>>, %x_bf16: memref<1x128x128xbf16, #tpu.memory_space<vmem>>, %w_bf16: memref<2x128x128xbf16, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [#tpu.dimension_semantics<parallel>, #tpu.dimension_semantics<arbitrary>, #tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 1, 2, 1>, scalar_prefetch = 2 : i64, scratch_operands = 2 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{transform_indices = @x_block, window_bounds = array<i64: 128, 128>}, {transform_indices = @w_q_block, window_bounds = array<i64: 128, 128>}, {transform_indices = @out_block, window_bounds = array<i64: 128, 128>}]} {
    %c1_i32 = arith.constant 1 : i32
    %c0 = arith.constant 0 : index
    %c0_i32 = arith.constant 0 : i32
    %cst = arith.constant 4.480000e+02 : f32
    %cst_v1 = arith.constant 1.1754943508222875e-38 : f32
    %cst_v2 = arith.constant 1.000000e+00 : f32
    %cst_v3 = arith.constant dense<0.000000e+00> : vector<128x128xf32>
    %0 = arith.muli %k, %c1_i32 : i32
    %1 = arith.muli %n, %c1_i32 : i32
    %2 = arith.muli %m, %c1_i32 : i32
    %3 = arith.index_cast %k : i32 to index
    %4 = arith.cmpi eq, %n, %c0_i32 : i32
    scf.if %4 {
      %5 = vector.load %x[%c0, %c0] : memref<128x128xbf16, #tpu.memory_space<vmem>>, vector<128x128xbf16>
      %6 = arith.extf %5 : vector<128x128xbf16> to vector<128x128xf32>
      %7 = arith.addi %2, %c0_i32 : i32
      %8 = arith.index_cast %7 : i32 to index
      %9 = arith.addi %0, %c0_i32 : i32
      %10 = arith.index_cast %9 : i32 to index
      %11 = memref.load %x_abs_max[%8, %10] : memref<1x1xf32, #tpu.memory_space<smem>>
      %12 = arith.divf %11, %cst : f32
      %13 = arith.maximumf %12, %cst_v1 : f32
      %14 = arith.divf %cst_v2, %13 : f32
      %15 = vector.broadcast %14 : f32 to vector<128x128xf32>
      %16 = arith.mulf %6, %15 : vector<128x128xf32>
      %17 = arith.truncf %16 : vector<128x128xf32> to vector<128x128xf8E4M3FN>
      %18 = arith.addi %2, %c0_i32 : i32
      %19 = arith.index_cast %18 : i32 to index
      %20 = arith.addi %0, %c0_i32 : i32
      %21 = arith.index_cast %20 : i32 to index
      %22 = memref.load %x_abs_max[%19, %21] : memref<1x1xf32, #tpu.memory_space<smem>>
      %23 = arith.divf %22, %cst : f32
      %24 = arith.maximumf %23, %cst_v1 : f32
      %25 = arith.extf %17 : vector<128x128xf8E4M3FN> to vector<128x128xf32>
      %26 = vector.broadcast %24 : f32 to vector<128x128xf32>
      %27 = arith.mulf %25, %26 : vector<128x128xf32>
      %28 = arith.truncf %27 : vector<128x128xf32> to vector<128x128xbf16>
      %29 = vector.shape_cast %28 : vector<128x128xbf16> to vector<1x128x128xbf16>
      tpu.vector_store %x_bf16[%3, %c0, %c0], %29 {strides = array<i32>} : memref<1x128x128xbf16, #tpu.memory_space<vmem>>, vector<1x128x128xbf16>,
    }
    %30 = arith.index_cast %c0_i32 : i32 to index
    %31 = vector.load %w_q[%c0, %c0] : memref<128x128xf8E4M3FN, #tpu.memory_space<vmem>>, vector<128x128xf8E4M3FN>
    %32 = arith.addi %1, %c0_i32 : i32
    %33 = arith.index_cast %32 : i32 to index
    %34 = arith.addi %0, %c0_i32 : i32
    %35 = arith.index_cast %34 : i32 to index
    %36 = memref.load %w_scale[%33, %35] : memref<2x1xf32, #tpu.memory_space<smem>>
    %37 = arith.extf %31 : vector<128x128xf8E4M3FN> to vector<128x128xf32>
    %38 = vector.broadcast %36 : f32 to vector<128x128xf32>
    %39 = arith.mulf %37, %38 : vector<128x128xf32>
    %40 = arith.truncf %39 : vector<128x128xf32> to vector<128x128xbf16>
    %41 = vector.shape_cast %40 : vector<128x128xbf16> to vector<1x128x128xbf16>
    tpu.vector_store %w_bf16[%30, %c0, %c0], %41 {strides = array<i32>} : memref<2x128x128xbf16, #tpu.memory_space<vmem>>, vector<1x128x128xbf16>,
    %42 = vector.load %x_bf16[%3, %c0, %c0] : memref<1x128x128xbf16, #tpu.memory_space<vmem>>, vector<1x128x128xbf16>
    %43 = vector.shape_cast %42 : vector<1x128x128xbf16> to vector<128x128xbf16>
    %44 = vector.load %w_bf16[%30, %c0, %c0] : memref<2x128x128xbf16, #tpu.memory_space<vmem>>, vector<1x128x128xbf16>
    %45 = vector.shape_cast %44 : vector<1x128x128xbf16> to vector<128x128xbf16>
    %46 = tpu.matmul %43, %45, %cst_v3 {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<128x128xbf16>, vector<128x128xbf16>, vector<128x128xf32> -> vector<128x128xf32>
    tpu.vector_store %out[%c0, %c0], %46 {strides = array<i32>} : memref<128x128xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>,
    return
  }
  func.func @x_block(%m: i32, %n: i32, %k: i32, %prefetched0: memref<2x1xf32, #tpu.memory_space<smem>>, %prefetched1: memref<1x1xf32, #tpu.memory_space<smem>>) -> (i32, i32) {
    %c0_i32 = arith.constant 0 : i32
    %0 = arith.cmpi eq, %n, %c0_i32 : i32
    %1 = arith.select %0, %k, %c0_i32 : i32
    return %m, %1 : i32, i32
  }
  func.func @w_q_block(%m: i32, %n: i32, %k: i32, %prefetched0: memref<2x1xf32, #tpu.memory_space<smem>>, %prefetched1: memref<1x1xf32, #tpu.memory_space<smem>>) -> (i32, i32) {
    return %n, %k : i32, i32
  }
  func.func @out_block(%m: i32, %n: i32, %k: i32, %prefetched0: memref<2x1xf32, #tpu.memory_space<smem>>, %prefetched1: memref<1x1xf32, #tpu.memory_space<smem>>) -> (i32, i32) {
    return %m, %n : i32, i32
  }
}
