// strip large 256x256x512:256 tile=256x256x256 x=fp8 scales=block out=f32 print=mosaic
module attributes {stable_mosaic.version = 15 : i64} {
  func.func @octile_strip_large(%m: i32, %n: i32, %k: i32, %w_scale: memref<1x2xf32, #tpu.memory_space<smem>>, %x_scale: memref<1x2xf32, #tpu.memory_space<smem>>, %x: memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, %w_q: memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, %out: memref<256x256xf32, #tpu.memory_space<vmem>>, %acc: memref<256x256xf32, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [#tpu.dimension_semantics<parallel>, #tpu.dimension_semantics<parallel>, #tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 1, 1, 2>, scalar_prefetch = 2 : i64, scratch_operands = 1 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{transform_indices = @x_block, window_bounds = array<i64: 256, 256>}, {transform_indices = @w_q_block, window_bounds = array<i64: 256, 256>}, {transform_indices = @out_block, window_bounds = array<i64: 256, 256>}]} {
    %c1_i32 = arith.constant 1 : i32
    %c0 = arith.constant 0 : index
    %cst = arith.constant dense<0.000000e+00> : vector<256x256xf32>
    %c0_i32 = arith.constant 0 : i32
    %0 = arith.muli %k, %c1_i32 : i32
    %1 = arith.muli %n, %c1_i32 : i32
    %2 = arith.muli %m, %c1_i32 : i32
    %3 = vector.load %x[%c0, %c0] : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<256x256xf8E4M3FN>
    %4 = vector.load %w_q[%c0, %c0] : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<256x256xf8E4M3FN>
    %5 = tpu.matmul %3, %4, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<256x256xf8E4M3FN>, vector<256x256xf8E4M3FN>, vector<256x256xf32> -> vector<256x256xf32>
    %6 = arith.addi %2, %c0_i32 : i32
    %7 = arith.index_cast %6 : i32 to index
    %8 = arith.addi %0, %c0_i32 : i32
    %9 = arith.index_cast %8 : i32 to index
    %10 = memref.load %x_scale[%7, %9] : memref<1x2xf32, #tpu.memory_space<smem>>
    %11 = arith.addi %1, %c0_i32 : i32
    %12 = arith.index_cast %11 : i32 to index
    %13 = arith.addi %0, %c0_i32 : i32
    %14 = arith.index_cast %13 : i32 to index
    %15 = memref.load %w_scale[%12, %14] : memref<1x2xf32, #tpu.memory_space<smem>>
    %16 = arith.mulf %10, %15 : f32
    %17 = vector.broadcast %16 : f32 to vector<256x256xf32>
    %18 = arith.mulf %5, %17 : vector<256x256xf32>
    %19 = arith.cmpi eq, %k, %c0_i32 : i32
    %20 = vector.load %acc[%c0, %c0] : memref<256x256xf32, #tpu.memory_space<vmem>>, vector<256x256xf32>
    %21 = arith.select %19, %cst, %20 : vector<256x256xf32>
    %22 = arith.addf %21, %18 : vector<256x256xf32>
    tpu.vector_store %acc[%c0, %c0], %22 {strides = array<i32>} : memref<256x256xf32, #tpu.memory_space<vmem>>, vector<256x256xf32>,
    %23 = arith.cmpi eq, %k, %c1_i32 : i32
    scf.if %23 {
      %24 = vector.load %acc[%c0, %c0] : memref<256x256xf32, #tpu.memory_space<vmem>>, vector<256x256xf32>
      tpu.vector_store %out[%c0, %c0], %24 {strides = array<i32>} : memref<256x256xf32, #tpu.memory_space<vmem>>, vector<256x256xf32>,
    }
    return
  }
  func.func @x_block(%m: i32, %n: i32, %k: i32, %prefetched0: memref<1x2xf32, #tpu.memory_space<smem>>, %prefetched1: memref<1x2xf32, #tpu.memory_space<smem>>) -> (i32, i32) {
    return %m, %k : i32, i32
  }
  func.func @w_q_block(%m: i32, %n: i32, %k: i32, %prefetched0: memref<1x2xf32, #tpu.memory_space<smem>>, %prefetched1: memref<1x2xf32, #tpu.memory_space<smem>>) -> (i32, i32) {
    return %n, %k : i32, i32
  }
  func.func @out_block(%m: i32, %n: i32, %k: i32, %prefetched0: memref<1x2xf32, #tpu.memory_space<smem>>, %prefetched1: memref<1x2xf32, #tpu.memory_space<smem>>) -> (i32, i32) {
    return %m, %n : i32, i32
  }
}
