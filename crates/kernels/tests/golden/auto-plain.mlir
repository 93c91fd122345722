// auto aligned 256x256x256:256 x=plain-bf16 out=bf16 print=mosaic
module attributes {stable_mosaic.version = 15 : i64} {
  func.func @octile_auto_aligned(%m: i32, %n: i32, %k: i32, %x: memref<256x256xbf16, #tpu.memory_space<vmem>>, %w_q: memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, %w_scale: memref<1x1x1x1xf32, #tpu.memory_space<vmem>>, %out: memref<256x256xbf16, #tpu.memory_space<vmem>>, %acc: memref<256x256xf32, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [#tpu.dimension_semantics<parallel>, #tpu.dimension_semantics<parallel>, #tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 1, 1, 1>, scalar_prefetch = 0 : i64, scratch_operands = 1 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{transform_indices = @x_block, window_bounds = array<i64: 256, 256>}, {transform_indices = @w_q_block, window_bounds = array<i64: 256, 256>}, {transform_indices = @w_scale_block, window_bounds = array<i64: 1, 1, 1, 1>}, {transform_indices = @out_block, window_bounds = array<i64: 256, 256>}]} {
    %c0 = arith.constant 0 : index
    %c0_i32 = arith.constant 0 : i32
    %cst = arith.constant dense<0.000000e+00> : vector<256x256xf32>
    %0 = arith.cmpi eq, %k, %c0_i32 : i32
    scf.if %0 {
      tpu.vector_store %acc[%c0, %c0], %cst {strides = array<i32>} : memref<256x256xf32, #tpu.memory_space<vmem>>, vector<256x256xf32>,
    }
    %1 = vector.load %x[%c0, %c0] : memref<256x256xbf16, #tpu.memory_space<vmem>>, vector<256x256xbf16>
    %2 = vector.load %w_q[%c0, %c0] : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<256x256xf8E4M3FN>
    %3 = arith.extf %2 : vector<256x256xf8E4M3FN> to vector<256x256xbf16>
    %4 = tpu.matmul %1, %3, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<256x256xbf16>, vector<256x256xbf16>, vector<256x256xf32> -> vector<256x256xf32>
    %5 = vector.load %w_scale[%c0, %c0, %c0, %c0] : memref<1x1x1x1xf32, #tpu.memory_space<vmem>>, vector<1x1x1x1xf32>
    %6 = vector.shape_cast %5 : vector<1x1x1x1xf32> to vector<1x1xf32>
    %7 = vector.broadcast %6 : vector<1x1xf32> to vector<256x256xf32>
    %8 = arith.mulf %4, %7 : vector<256x256xf32>
    %9 = vector.load %acc[%c0, %c0] : memref<256x256xf32, #tpu.memory_space<vmem>>, vector<256x256xf32>
    %10 = arith.addf %9, %8 : vector<256x256xf32>
    tpu.vector_store %acc[%c0, %c0], %10 {strides = array<i32>} : memref<256x256xf32, #tpu.memory_space<vmem>>, vector<256x256xf32>,
    %11 = arith.cmpi eq, %k, %c0_i32 : i32
    scf.if %11 {
      %12 = vector.load %acc[%c0, %c0] : memref<256x256xf32, #tpu.memory_space<vmem>>, vector<256x256xf32>
      %13 = arith.truncf %12 : vector<256x256xf32> to vector<256x256xbf16>
      tpu.vector_store %out[%c0, %c0], %13 {strides = array<i32>} : memref<256x256xbf16, #tpu.memory_space<vmem>>, vector<256x256xbf16>,
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
  func.func @out_block(%m: i32, %n: i32, %k: i32) -> (i32, i32) {
    return %m, %n : i32, i32
  }
}
