// strip large 512x512x1024:512 x=fp8 scales=block out=bf16 print=mosaic
module attributes {stable_mosaic.version = 15 : i64} {
  func.func @octile_strip_large(%m: i32, %n: i32, %k: i32, %w_scale: memref<1x2xf32, #tpu.memory_space<smem>>, %x_scale: memref<1x2xf32, #tpu.memory_space<smem>>, %x: memref<512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, %w_q: memref<512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, %out: memref<512x512xbf16, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [#tpu.dimension_semantics<parallel>, #tpu.dimension_semantics<parallel>, #tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 1, 1, 1>, scalar_prefetch = 2 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{transform_indices = @x_block, window_bounds = array<i64: 512, 1024>}, {transform_indices = @w_q_block, window_bounds = array<i64: 512, 1024>}, {transform_indices = @out_block, window_bounds = array<i64: 512, 512>}]} {
    %c2_i32 = arith.constant 2 : i32
    %c1_i32 = arith.constant 1 : i32
    %c0 = arith.constant 0 : index
    %cst = arith.constant dense<0.000000e+00> : vector<256x256xf32>
    %c0_i32 = arith.constant 0 : i32
    %c512 = arith.constant 512 : index
    %c256 = arith.constant 256 : index
    %0 = arith.muli %k, %c2_i32 : i32
    %1 = arith.muli %n, %c1_i32 : i32
    %2 = arith.muli %m, %c1_i32 : i32
    %3 = vector.load %x[%c0, %c0] : memref<512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, vector<256x512xf8E4M3FN>
    %4 = vector.load %w_q[%c0, %c0] : memref<512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, vector<256x512xf8E4M3FN>
    %5 = tpu.matmul %3, %4, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<256x512xf8E4M3FN>, vector<256x512xf8E4M3FN>, vector<256x256xf32> -> vector<256x256xf32>
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
    %19 = vector.load %x[%c0, %c512] : memref<512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, vector<256x512xf8E4M3FN>
    %20 = vector.load %w_q[%c0, %c512] : memref<512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, vector<256x512xf8E4M3FN>
    %21 = tpu.matmul %19, %20, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<256x512xf8E4M3FN>, vector<256x512xf8E4M3FN>, vector<256x256xf32> -> vector<256x256xf32>
    %22 = arith.addi %2, %c0_i32 : i32
    %23 = arith.index_cast %22 : i32 to index
    %24 = arith.addi %0, %c1_i32 : i32
    %25 = arith.index_cast %24 : i32 to index
    %26 = memref.load %x_scale[%23, %25] : memref<1x2xf32, #tpu.memory_space<smem>>
    %27 = arith.addi %1, %c0_i32 : i32
    %28 = arith.index_cast %27 : i32 to index
    %29 = arith.addi %0, %c1_i32 : i32
    %30 = arith.index_cast %29 : i32 to index
    %31 = memref.load %w_scale[%28, %30] : memref<1x2xf32, #tpu.memory_space<smem>>
    %32 = arith.mulf %26, %31 : f32
    %33 = vector.broadcast %32 : f32 to vector<256x256xf32>
    %34 = arith.mulf %21, %33 : vector<256x256xf32>
    %35 = arith.addf %18, %34 : vector<256x256xf32>
    %36 = arith.truncf %35 : vector<256x256xf32> to vector<256x256xbf16>
    tpu.vector_store %out[%c0, %c0], %36 {strides = array<i32>} : memref<512x512xbf16, #tpu.memory_space<vmem>>, vector<256x256xbf16>,
    %37 = vector.load %x[%c256, %c0] : memref<512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, vector<256x512xf8E4M3FN>
    %38 = vector.load %w_q[%c0, %c0] : memref<512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, vector<256x512xf8E4M3FN>
    %39 = tpu.matmul %37, %38, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<256x512xf8E4M3FN>, vector<256x512xf8E4M3FN>, vector<256x256xf32> -> vector<256x256xf32>
    %40 = arith.addi %2, %c0_i32 : i32
    %41 = arith.index_cast %40 : i32 to index
    %42 = arith.addi %0, %c0_i32 : i32
    %43 = arith.index_cast %42 : i32 to index
    %44 = memref.load %x_scale[%41, %43] : memref<1x2xf32, #tpu.memory_space<smem>>
    %45 = arith.addi %1, %c0_i32 : i32
    %46 = arith.index_cast %45 : i32 to index
    %47 = arith.addi %0, %c0_i32 : i32
    %48 = arith.index_cast %47 : i32 to index
    %49 = memref.load %w_scale[%46, %48] : memref<1x2xf32, #tpu.memory_space<smem>>
    %50 = arith.mulf %44, %49 : f32
    %51 = vector.broadcast %50 : f32 to vector<256x256xf32>
    %52 = arith.mulf %39, %51 : vector<256x256xf32>
    %53 = vector.load %x[%c256, %c512] : memref<512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, vector<256x512xf8E4M3FN>
    %54 = vector.load %w_q[%c0, %c512] : memref<512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, vector<256x512xf8E4M3FN>
    %55 = tpu.matmul %53, %54, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<256x512xf8E4M3FN>, vector<256x512xf8E4M3FN>, vector<256x256xf32> -> vector<256x256xf32>
    %56 = arith.addi %2, %c0_i32 : i32
    %57 = arith.index_cast %56 : i32 to index
    %58 = arith.addi %0, %c1_i32 : i32
    %59 = arith.index_cast %58 : i32 to index
    %60 = memref.load %x_scale[%57, %59] : memref<1x2xf32, #tpu.memory_space<smem>>
    %61 = arith.addi %1, %c0_i32 : i32
    %62 = arith.index_cast %61 : i32 to index
    %63 = arith.addi %0, %c1_i32 : i32
    %64 = arith.index_cast %63 : i32 to index
    %65 = memref.load %w_scale[%62, %64] : memref<1x2xf32, #tpu.memory_space<smem>>
    %66 = arith.mulf %60, %65 : f32
    %67 = vector.broadcast %66 : f32 to vector<256x256xf32>
    %68 = arith.mulf %55, %67 : vector<256x256xf32>
    %69 = arith.addf %52, %68 : vector<256x256xf32>
    %70 = arith.truncf %69 : vector<256x256xf32> to vector<256x256xbf16>
    tpu.vector_store %out[%c256, %c0], %70 {strides = array<i32>} : memref<512x512xbf16, #tpu.memory_space<vmem>>, vector<256x256xbf16>,
    %71 = vector.load %x[%c0, %c0] : memref<512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, vector<256x512xf8E4M3FN>
    %72 = vector.load %w_q[%c256, %c0] : memref<512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, vector<256x512xf8E4M3FN>
    %73 = tpu.matmul %71, %72, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<256x512xf8E4M3FN>, vector<256x512xf8E4M3FN>, vector<256x256xf32> -> vector<256x256xf32>
    %74 = arith.addi %2, %c0_i32 : i32
    %75 = arith.index_cast %74 : i32 to index
    %76 = arith.addi %0, %c0_i32 : i32
    %77 = arith.index_cast %76 : i32 to index
    %78 = memref.load %x_scale[%75, %77] : memref<1x2xf32, #tpu.memory_space<smem>>
    %79 = arith.addi %1, %c0_i32 : i32
    %80 = arith.index_cast %79 : i32 to index
    %81 = arith.addi %0, %c0_i32 : i32
    %82 = arith.index_cast %81 : i32 to index
    %83 = memref.load %w_scale[%80, %82] : memref<1x2xf32, #tpu.memory_space<smem>>
    %84 = arith.mulf %78, %83 : f32
    %85 = vector.broadcast %84 : f32 to vector<256x256xf32>
    %86 = arith.mulf %73, %85 : vector<256x256xf32>
    %87 = vector.load %x[%c0, %c512] : memref<512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, vector<256x512xf8E4M3FN>
    %88 = vector.load %w_q[%c256, %c512] : memref<512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, vector<256x512xf8E4M3FN>
    %89 = tpu.matmul %87, %88, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<256x512xf8E4M3FN>, vector<256x512xf8E4M3FN>, vector<256x256xf32> -> vector<256x256xf32>
    %90 = arith.addi %2, %c0_i32 : i32
    %91 = arith.index_cast %90 : i32 to index
    %92 = arith.addi %0, %c1_i32 : i32
    %93 = arith.index_cast %92 : i32 to index
    %94 = memref.load %x_scale[%91, %93] : memref<1x2xf32, #tpu.memory_space<smem>>
    %95 = arith.addi %1, %c0_i32 : i32
    %96 = arith.index_cast %95 : i32 to index
    %97 = arith.addi %0, %c1_i32 : i32
    %98 = arith.index_cast %97 : i32 to index
    %99 = memref.load %w_scale[%96, %98] : memref<1x2xf32, #tpu.memory_space<smem>>
    %100 = arith.mulf %94, %99 : f32
    %101 = vector.broadcast %100 : f32 to vector<256x256xf32>
    %102 = arith.mulf %89, %101 : vector<256x256xf32>
    %103 = arith.addf %86, %102 : vector<256x256xf32>
    %104 = arith.truncf %103 : vector<256x256xf32> to vector<256x256xbf16>
    tpu.vector_store %out[%c0, %c256], %104 {strides = array<i32>} : memref<512x512xbf16, #tpu.memory_space<vmem>>, vector<256x256xbf16>,
    %105 = vector.load %x[%c256, %c0] : memref<512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, vector<256x512xf8E4M3FN>
    %106 = vector.load %w_q[%c256, %c0] : memref<512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, vector<256x512xf8E4M3FN>
    %107 = tpu.matmul %105, %106, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<256x512xf8E4M3FN>, vector<256x512xf8E4M3FN>, vector<256x256xf32> -> vector<256x256xf32>
    %108 = arith.addi %2, %c0_i32 : i32
    %109 = arith.index_cast %108 : i32 to index
    %110 = arith.addi %0, %c0_i32 : i32
    %111 = arith.index_cast %110 : i32 to index
    %112 = memref.load %x_scale[%109, %111] : memref<1x2xf32, #tpu.memory_space<smem>>
    %113 = arith.addi %1, %c0_i32 : i32
    %114 = arith.index_cast %113 : i32 to index
    %115 = arith.addi %0, %c0_i32 : i32
    %116 = arith.index_cast %115 : i32 to index
    %117 = memref.load %w_scale[%114, %116] : memref<1x2xf32, #tpu.memory_space<smem>>
    %118 = arith.mulf %112, %117 : f32
    %119 = vector.broadcast %118 : f32 to vector<256x256xf32>
    %120 = arith.mulf %107, %119 : vector<256x256xf32>
    %121 = vector.load %x[%c256, %c512] : memref<512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, vector<256x512xf8E4M3FN>
    %122 = vector.load %w_q[%c256, %c512] : memref<512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, vector<256x512xf8E4M3FN>
    %123 = tpu.matmul %121, %122, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<256x512xf8E4M3FN>, vector<256x512xf8E4M3FN>, vector<256x256xf32> -> vector<256x256xf32>
    %124 = arith.addi %2, %c0_i32 : i32
    %125 = arith.index_cast %124 : i32 to index
    %126 = arith.addi %0, %c1_i32 : i32
    %127 = arith.index_cast %126 : i32 to index
    %128 = memref.load %x_scale[%125, %127] : memref<1x2xf32, #tpu.memory_space<smem>>
    %129 = arith.addi %1, %c0_i32 : i32
    %130 = arith.index_cast %129 : i32 to index
    %131 = arith.addi %0, %c1_i32 : i32
    %132 = arith.index_cast %131 : i32 to index
    %133 = memref.load %w_scale[%130, %132] : memref<1x2xf32, #tpu.memory_space<smem>>
    %134 = arith.mulf %128, %133 : f32
    %135 = vector.broadcast %134 : f32 to vector<256x256xf32>
    %136 = arith.mulf %123, %135 : vector<256x256xf32>
    %137 = arith.addf %120, %136 : vector<256x256xf32>
    %138 = arith.truncf %137 : vector<256x256xf32> to vector<256x256xbf16>
    tpu.vector_store %out[%c256, %c256], %138 {strides = array<i32>} : memref<512x512xbf16, #tpu.memory_space<vmem>>, vector<256x256xbf16>,
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
