module attributes {stable_mosaic.version = 15 : i64} {
  func.func @octile_auto_aligned(%m: i32, %n: i32, %k: i32, %x: memref<64x128xf8E4M3FN, #tpu.memory_space<vmem>>, %w_q: memref<128x128xf8E4M3FN, #tpu.memory_space<vmem>>, %w_scale: memref<1x1x1x1xf32, #tpu.memory_space<vmem>>, %x_scale: memref<1x1x1x1xf32, #tpu.memory_space<vmem>>, %out: memref<64x128xf32, #tpu.memory_space<vmem>>, %acc: memref<64x128xf32, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [#tpu.dimension_semantics<parallel>, #tpu.dimension_semantics<parallel>, #tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 1, 2, 2>, scalar_prefetch = 0 : i64, scratch_operands = 1 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{transform_indices = @x_block, window_bounds = array<i64: 64, 128>}, {transform_indices = @w_q_block, window_bounds = array<i64: 128, 128>}, {transform_indices = @w_scale_block, window_bounds = array<i64: 1, 1, 1, 1>}, {transform_indices = @x_scale_block, window_bounds = array<i64: 1, 1, 1, 1>}, {transform_indices = @out_block, window_bounds = array<i64: 64, 128>}]} {
    %c0 = arith.constant 0 : index
    %c0_i32 = arith.constant 0 : i32
    %cst = arith.constant dense<0.000000e+00> : vector<64x128xf32>
    %c1_i32 = arith.constant 1 : i32
    %0 = arith.cmpi eq, %k, %c0_i32 : i32
    scf.if %0 {
      tpu.vector_store %acc[%c0, %c0], %cst {strides = array<i32>} : memref<64x128xf32, #tpu.memory_space<vmem>>, vector<64x128xf32>,
    }
    %1 = vector.load %x[%c0, %c0] : memref<64x128xf8E4M3FN, #tpu.memory_space<vmem>>, vector<64x128xf8E4M3FN>
    %2 = vector.load %w_q[%c0, %c0] : memref<128x128xf8E4M3FN, #tpu.memory_space<vmem>>, vector<128x128xf8E4M3FN>
    %3 = tpu.matmul %1, %2, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<64x128xf8E4M3FN>, vector<128x128xf8E4M3FN>, vector<64x128xf32> -> vector<64x128xf32>
    %4 = vector.load %x_scale[%c0, %c0, %c0, %c0] : memref<1x1x1x1xf32, #tpu.memory_space<vmem>>, vector<1x1x1x1xf32>
    %5 = vector.shape_cast %4 : vector<1x1x1x1xf32> to vector<1x1xf32>
    %6 = vector.load %w_scale[%c0, %c0, %c0, %c0] : memref<1x1x1x1xf32, #tpu.memory_space<vmem>>, vector<1x1x1x1xf32>
    %7 = vector.shape_cast %6 : vector<1x1x1x1xf32> to vector<1x1xf32>
    %8 = arith.mulf %5, %7 : vector<1x1xf32>
    %9 = vector.broadcast %8 : vector<1x1xf32> to vector<64x128xf32>
    %10 = arith.mulf %3, %9 : vector<64x128xf32>
    %11 = vector.load %acc[%c0, %c0] : memref<64x128xf32, #tpu.memory_space<vmem>>, vector<64x128xf32>
    %12 = arith.addf %11, %10 : vector<64x128xf32>
    tpu.vector_store %acc[%c0, %c0], %12 {strides = array<i32>} : memref<64x128xf32, #tpu.memory_space<vmem>>, vector<64x128xf32>,
    %13 = arith.cmpi eq, %k, %c1_i32 : i32
    scf.if %13 {
      %14 = vector.load %acc[%c0, %c0] : memref<64x128xf32, #tpu.memory_space<vmem>>, vector<64x128xf32>
      tpu.vector_store %out[%c0, %c0], %14 {strides = array<i32>} : memref<64x128xf32, #tpu.memory_space<vmem>>, vector<64x128xf32>,
    }
    return
  }
  func.func @x_block(%m: i32, %n: i32, %k: i32) -> (i32, i32) {
    return %m, %k : i32, i32
  }
  func.func @w_q_block(%m: i32, %n: i32, %k: i32) -> (i32, i32) {
    return %n, %k : i32, i32
  }
  func.func @w_scale_block(%m: i32, %n: i32, %k: i32) -> (i32, i32, i32, i32) {
    %c0_i32 = arith.constant 0 : i32
    return %n, %k, %c0_i32, %c0_i32 : i32, i32, i32, i32
  }
  func.func @x_scale_block(%m: i32, %n: i32, %k: i32) -> (i32, i32, i32, i32) {
    %c0_i32 = arith.constant 0 : i32
    return %m, %k, %c0_i32, %c0_i32 : i32, i32, i32, i32
  }
  func.func @out_block(%m: i32, %n: i32, %k: i32) -> (i32, i32) {
    return %m, %n : i32, i32
  }
}
