// auto large 256x256x256:128 x=fp8 scales=token out=bf16 print=mosaic
module attributes {stable_mosaic.version = 15 : i64} {
  func.func @octile_auto_large(%m: i32, %n: i32, %k: i32, %x: memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, %w_q: memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, %w_scale: memref<1x1x2x2xf32, #tpu.memory_space<vmem>>, %x_scale: memref<1x1x256x2xf32, #tpu.memory_space<vmem>>, %out: memref<256x256xbf16, #tpu.memory_space<vmem>>, %acc: memref<256x256xf32, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [#tpu.dimension_semantics<parallel>, #tpu.dimension_semantics<parallel>, #tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 1, 1, 1>, scalar_prefetch = 0 : i64, scratch_operands = 1 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{transform_indices = @x_block, window_bounds = array<i64: 256, 256>}, {transform_indices = @w_q_block, window_bounds = array<i64: 256, 256>}, {transform_indices = @w_scale_block, window_bounds = array<i64: 1, 1, 2, 2>}, {transform_indices = @x_scale_block, window_bounds = array<i64: 1, 1, 256, 2>}, {transform_indices = @out_block, window_bounds = array<i64: 256, 256>}]} {
    %c0 = arith.constant 0 : index
    %c0_i32 = arith.constant 0 : i32
    %cst = arith.constant dense<0.000000e+00> : vector<256x256xf32>
    %cst_v1 = arith.constant dense<0.000000e+00> : vector<128x128xf32>
    %c128 = arith.constant 128 : index
    %c1 = arith.constant 1 : index
    %0 = arith.cmpi eq, %k, %c0_i32 : i32
    scf.if %0 {
      tpu.vector_store %acc[%c0, %c0], %cst {strides = array<i32>} : memref<256x256xf32, #tpu.memory_space<vmem>>, vector<256x256xf32>,
    }
    %1 = vector.load %x[%c0, %c0] : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<128x128xf8E4M3FN>
    %2 = vector.load %w_q[%c0, %c0] : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<128x128xf8E4M3FN>
    %3 = tpu.matmul %1, %2, %cst_v1 {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<128x128xf8E4M3FN>, vector<128x128xf8E4M3FN>, vector<128x128xf32> -> vector<128x128xf32>
    %4 = vector.load %x_scale[%c0, %c0, %c0, %c0] : memref<1x1x256x2xf32, #tpu.memory_space<vmem>>, vector<1x1x128x1xf32>
    %5 = vector.shape_cast %4 : vector<1x1x128x1xf32> to vector<128x1xf32>
    %6 = vector.load %w_scale[%c0, %c0, %c0, %c0] : memref<1x1x2x2xf32, #tpu.memory_space<vmem>>, vector<1x1x1x1xf32>
    %7 = vector.shape_cast %6 : vector<1x1x1x1xf32> to vector<1x1xf32>
    %8 = vector.broadcast %7 : vector<1x1xf32> to vector<128x1xf32>
    %9 = arith.mulf %5, %8 : vector<128x1xf32>
    %10 = vector.broadcast %9 : vector<128x1xf32> to vector<128x128xf32>
    %11 = arith.mulf %3, %10 : vector<128x128xf32>
    %12 = vector.load %x[%c0, %c128] : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<128x128xf8E4M3FN>
    %13 = vector.load %w_q[%c0, %c128] : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<128x128xf8E4M3FN>
    %14 = tpu.matmul %12, %13, %cst_v1 {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<128x128xf8E4M3FN>, vector<128x128xf8E4M3FN>, vector<128x128xf32> -> vector<128x128xf32>
    %15 = vector.load %x_scale[%c0, %c0, %c0, %c1] : memref<1x1x256x2xf32, #tpu.memory_space<vmem>>, vector<1x1x128x1xf32>
    %16 = vector.shape_cast %15 : vector<1x1x128x1xf32> to vector<128x1xf32>
    %17 = vector.load %w_scale[%c0, %c0, %c0, %c1] : memref<1x1x2x2xf32, #tpu.memory_space<vmem>>, vector<1x1x1x1xf32>
    %18 = vector.shape_cast %17 : vector<1x1x1x1xf32> to vector<1x1xf32>
    %19 = vector.broadcast %18 : vector<1x1xf32> to vector<128x1xf32>
    %20 = arith.mulf %16, %19 : vector<128x1xf32>
    %21 = vector.broadcast %20 : vector<128x1xf32> to vector<128x128xf32>
    %22 = arith.mulf %14, %21 : vector<128x128xf32>
    %23 = arith.addf %11, %22 : vector<128x128xf32>
    %24 = vector.load %acc[%c0, %c0] : memref<256x256xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>
    %25 = arith.addf %24, %23 : vector<128x128xf32>
    tpu.vector_store %acc[%c0, %c0], %25 {strides = array<i32>} : memref<256x256xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>,
    %26 = vector.load %x[%c128, %c0] : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<128x128xf8E4M3FN>
    %27 = vector.load %w_q[%c0, %c0] : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<128x128xf8E4M3FN>
    %28 = tpu.matmul %26, %27, %cst_v1 {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<128x128xf8E4M3FN>, vector<128x128xf8E4M3FN>, vector<128x128xf32> -> vector<128x128xf32>
    %29 = vector.load %x_scale[%c0, %c0, %c128, %c0] : memref<1x1x256x2xf32, #tpu.memory_space<vmem>>, vector<1x1x128x1xf32>
    %30 = vector.shape_cast %29 : vector<1x1x128x1xf32> to vector<128x1xf32>
    %31 = vector.load %w_scale[%c0, %c0, %c0, %c0] : memref<1x1x2x2xf32, #tpu.memory_space<vmem>>, vector<1x1x1x1xf32>
    %32 = vector.shape_cast %31 : vector<1x1x1x1xf32> to vector<1x1xf32>
    %33 = vector.broadcast %32 : vector<1x1xf32> to vector<128x1xf32>
    %34 = arith.mulf %30, %33 : vector<128x1xf32>
    %35 = vector.broadcast %34 : vector<128x1xf32> to vector<128x128xf32>
    %36 = arith.mulf %28, %35 : vector<128x128xf32>
    %37 = vector.load %x[%c128, %c128] : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<128x128xf8E4M3FN>
    %38 = vector.load %w_q[%c0, %c128] : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<128x128xf8E4M3FN>
    %39 = tpu.matmul %37, %38, %cst_v1 {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<128x128xf8E4M3FN>, vector<128x128xf8E4M3FN>, vector<128x128xf32> -> vector<128x128xf32>
    %40 = vector.load %x_scale[%c0, %c0, %c128, %c1] : memref<1x1x256x2xf32, #tpu.memory_space<vmem>>, vector<1x1x128x1xf32>
    %41 = vector.shape_cast %40 : vector<1x1x128x1xf32> to vector<128x1xf32>
    %42 = vector.load %w_scale[%c0, %c0, %c0, %c1] : memref<1x1x2x2xf32, #tpu.memory_space<vmem>>, vector<1x1x1x1xf32>
    %43 = vector.shape_cast %42 : vector<1x1x1x1xf32> to vector<1x1xf32>
    %44 = vector.broadcast %43 : vector<1x1xf32> to vector<128x1xf32>
    %45 = arith.mulf %41, %44 : vector<128x1xf32>
    %46 = vector.broadcast %45 : vector<128x1xf32> to vector<128x128xf32>
    %47 = arith.mulf %39, %46 : vector<128x128xf32>
    %48 = arith.addf %36, %47 : vector<128x128xf32>
    %49 = vector.load %acc[%c128, %c0] : memref<256x256xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>
    %50 = arith.addf %49, %48 : vector<128x128xf32>
    tpu.vector_store %acc[%c128, %c0], %50 {strides = array<i32>} : memref<256x256xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>,
    %51 = vector.load %x[%c0, %c0] : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<128x128xf8E4M3FN>
    %52 = vector.load %w_q[%c128, %c0] : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<128x128xf8E4M3FN>
    %53 = tpu.matmul %51, %52, %cst_v1 {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<128x128xf8E4M3FN>, vector<128x128xf8E4M3FN>, vector<128x128xf32> -> vector<128x128xf32>
    %54 = vector.load %x_scale[%c0, %c0, %c0, %c0] : memref<1x1x256x2xf32, #tpu.memory_space<vmem>>, vector<1x1x128x1xf32>
    %55 = vector.shape_cast %54 : vector<1x1x128x1xf32> to vector<128x1xf32>
    %56 = vector.load %w_scale[%c0, %c0, %c1, %c0] : memref<1x1x2x2xf32, #tpu.memory_space<vmem>>, vector<1x1x1x1xf32>
    %57 = vector.shape_cast %56 : vector<1x1x1x1xf32> to vector<1x1xf32>
    %58 = vector.broadcast %57 : vector<1x1xf32> to vector<128x1xf32>
    %59 = arith.mulf %55, %58 : vector<128x1xf32>
    %60 = vector.broadcast %59 : vector<128x1xf32> to vector<128x128xf32>
    %61 = arith.mulf %53, %60 : vector<128x128xf32>
    %62 = vector.load %x[%c0, %c128] : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<128x128xf8E4M3FN>
    %63 = vector.load %w_q[%c128, %c128] : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<128x128xf8E4M3FN>
    %64 = tpu.matmul %62, %63, %cst_v1 {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<128x128xf8E4M3FN>, vector<128x128xf8E4M3FN>, vector<128x128xf32> -> vector<128x128xf32>
    %65 = vector.load %x_scale[%c0, %c0, %c0, %c1] : memref<1x1x256x2xf32, #tpu.memory_space<vmem>>, vector<1x1x128x1xf32>
    %66 = vector.shape_cast %65 : vector<1x1x128x1xf32> to vector<128x1xf32>
    %67 = vector.load %w_scale[%c0, %c0, %c1, %c1] : memref<1x1x2x2xf32, #tpu.memory_space<vmem>>, vector<1x1x1x1xf32>
    %68 = vector.shape_cast %67 : vector<1x1x1x1xf32> to vector<1x1xf32>
    %69 = vector.broadcast %68 : vector<1x1xf32> to vector<128x1xf32>
    %70 = arith.mulf %66, %69 : vector<128x1xf32>
    %71 = vector.broadcast %70 : vector<128x1xf32> to vector<128x128xf32>
    %72 = arith.mulf %64, %71 : vector<128x128xf32>
    %73 = arith.addf %61, %72 : vector<128x128xf32>
    %74 = vector.load %acc[%c0, %c128] : memref<256x256xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>
    %75 = arith.addf %74, %73 : vector<128x128xf32>
    tpu.vector_store %acc[%c0, %c128], %75 {strides = array<i32>} : memref<256x256xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>,
    %76 = vector.load %x[%c128, %c0] : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<128x128xf8E4M3FN>
    %77 = vector.load %w_q[%c128, %c0] : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<128x128xf8E4M3FN>
    %78 = tpu.matmul %76, %77, %cst_v1 {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<128x128xf8E4M3FN>, vector<128x128xf8E4M3FN>, vector<128x128xf32> -> vector<128x128xf32>
    %79 = vector.load %x_scale[%c0, %c0, %c128, %c0] : memref<1x1x256x2xf32, #tpu.memory_space<vmem>>, vector<1x1x128x1xf32>
    %80 = vector.shape_cast %79 : vector<1x1x128x1xf32> to vector<128x1xf32>
    %81 = vector.load %w_scale[%c0, %c0, %c1, %c0] : memref<1x1x2x2xf32, #tpu.memory_space<vmem>>, vector<1x1x1x1xf32>
    %82 = vector.shape_cast %81 : vector<1x1x1x1xf32> to vector<1x1xf32>
    %83 = vector.broadcast %82 : vector<1x1xf32> to vector<128x1xf32>
    %84 = arith.mulf %80, %83 : vector<128x1xf32>
    %85 = vector.broadcast %84 : vector<128x1xf32> to vector<128x128xf32>
    %86 = arith.mulf %78, %85 : vector<128x128xf32>
    %87 = vector.load %x[%c128, %c128] : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<128x128xf8E4M3FN>
    %88 = vector.load %w_q[%c128, %c128] : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<128x128xf8E4M3FN>
    %89 = tpu.matmul %87, %88, %cst_v1 {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<128x128xf8E4M3FN>, vector<128x128xf8E4M3FN>, vector<128x128xf32> -> vector<128x128xf32>
    %90 = vector.load %x_scale[%c0, %c0, %c128, %c1] : memref<1x1x256x2xf32, #tpu.memory_space<vmem>>, vector<1x1x128x1xf32>
    %91 = vector.shape_cast %90 : vector<1x1x128x1xf32> to vector<128x1xf32>
    %92 = vector.load %w_scale[%c0, %c0, %c1, %c1] : memref<1x1x2x2xf32, #tpu.memory_space<vmem>>, vector<1x1x1x1xf32>
    %93 = vector.shape_cast %92 : vector<1x1x1x1xf32> to vector<1x1xf32>
    %94 = vector.broadcast %93 : vector<1x1xf32> to vector<128x1xf32>
    %95 = arith.mulf %91, %94 : vector<128x1xf32>
    %96 = vector.broadcast %95 : vector<128x1xf32> to vector<128x128xf32>
    %97 = arith.mulf %89, %96 : vector<128x128xf32>
    %98 = arith.addf %86, %97 : vector<128x128xf32>
    %99 = vector.load %acc[%c128, %c128] : memref<256x256xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>
    %100 = arith.addf %99, %98 : vector<128x128xf32>
    tpu.vector_store %acc[%c128, %c128], %100 {strides = array<i32>} : memref<256x256xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>,
    %101 = arith.cmpi eq, %k, %c0_i32 : i32
    scf.if %101 {
      %102 = vector.load %acc[%c0, %c0] : memref<256x256xf32, #tpu.memory_space<vmem>>, vector<256x256xf32>
      %103 = arith.truncf %102 : vector<256x256xf32> to vector<256x256xbf16>
      tpu.vector_store %out[%c0, %c0], %103 {strides = array<i32>} : memref<256x256xbf16, #tpu.memory_space<vmem>>, vector<256x256xbf16>,
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
