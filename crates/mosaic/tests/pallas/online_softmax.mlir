module {
  func.func @logits(%arg0: i32, %arg1: memref<32x64xf32, #tpu.memory_space<vmem>>, %arg2: memref<64x128xf32, #tpu.memory_space<vmem>>, %arg3: memref<32x1xf32, #tpu.memory_space<vmem>>, %arg4: memref<32x1xf32, #tpu.memory_space<vmem>>, %arg5: memref<32x1xf32, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [#tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 2>, scalar_prefetch = 0 : i64, scratch_operands = 2 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{pipeline_mode = #tpu.pipeline_mode<synchronous>, transform_indices = @transform_0, window_bounds = array<i64: 32, 64>}, {transform_indices = @transform_1, window_bounds = array<i64: 64, 128>}, {pipeline_mode = #tpu.pipeline_mode<synchronous>, transform_indices = @transform_2, window_bounds = array<i64: 32, 1>}]} {
    %cst = arith.constant dense<0.000000e+00> : vector<32x1xf32>
    %cst_0 = arith.constant dense<-1.000000e+30> : vector<32x1xf32>
    %c1_i32 = arith.constant 1 : i32
    %cst_1 = arith.constant dense<0.000000e+00> : vector<32xf32>
    %cst_2 = arith.constant dense<0xFF800000> : vector<32xf32>
    %cst_3 = arith.constant dense<0.000000e+00> : vector<32x128xf32>
    %c0 = arith.constant 0 : index
    %c0_i32 = arith.constant 0 : i32
    %0 = arith.cmpi eq, %arg0, %c0_i32 : i32
    scf.if %0 {
      tpu.vector_store %arg4[%c0, %c0], %cst_0 {strides = array<i32>} : memref<32x1xf32, #tpu.memory_space<vmem>>, vector<32x1xf32>, 
      tpu.vector_store %arg5[%c0, %c0], %cst {strides = array<i32>} : memref<32x1xf32, #tpu.memory_space<vmem>>, vector<32x1xf32>, 
    }
    %1 = vector.load %arg1[%c0, %c0] : memref<32x64xf32, #tpu.memory_space<vmem>>, vector<32x64xf32>
    %2 = vector.load %arg2[%c0, %c0] : memref<64x128xf32, #tpu.memory_space<vmem>>, vector<64x128xf32>
    %3 = tpu.matmul %1, %2, %cst_3 {dimension_numbers = #tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>, transpose_lhs_hint = false} : vector<32x64xf32>, vector<64x128xf32>, vector<32x128xf32> -> vector<32x128xf32>
    %4 = vector.load %arg4[%c0, %c0] : memref<32x1xf32, #tpu.memory_space<vmem>>, vector<32x1xf32>
    %5 = vector.multi_reduction <maximumf>, %3, %cst_2 [1] : vector<32x128xf32> to vector<32xf32>
    %6 = vector.shape_cast %5 : vector<32xf32> to vector<32x1xf32>
    %7 = arith.maximumf %4, %6 : vector<32x1xf32>
    %8 = vector.load %arg5[%c0, %c0] : memref<32x1xf32, #tpu.memory_space<vmem>>, vector<32x1xf32>
    %9 = vector.load %arg4[%c0, %c0] : memref<32x1xf32, #tpu.memory_space<vmem>>, vector<32x1xf32>
    %10 = arith.subf %9, %7 : vector<32x1xf32>
    %11 = math.exp %10 : vector<32x1xf32>
    %12 = arith.mulf %8, %11 : vector<32x1xf32>
    %13 = vector.broadcast %7 : vector<32x1xf32> to vector<32x128xf32>
    %14 = arith.subf %3, %13 : vector<32x128xf32>
    %15 = math.exp %14 : vector<32x128xf32>
    %16 = vector.multi_reduction <add>, %15, %cst_1 [1] : vector<32x128xf32> to vector<32xf32>
    %17 = vector.shape_cast %16 : vector<32xf32> to vector<32x1xf32>
    %18 = arith.addf %12, %17 : vector<32x1xf32>
    tpu.vector_store %arg5[%c0, %c0], %18 {strides = array<i32>} : memref<32x1xf32, #tpu.memory_space<vmem>>, vector<32x1xf32>, 
    tpu.vector_store %arg4[%c0, %c0], %7 {strides = array<i32>} : memref<32x1xf32, #tpu.memory_space<vmem>>, vector<32x1xf32>, 
    %19 = arith.cmpi eq, %arg0, %c1_i32 : i32
    scf.if %19 {
      %20 = vector.load %arg4[%c0, %c0] : memref<32x1xf32, #tpu.memory_space<vmem>>, vector<32x1xf32>
      %21 = vector.load %arg5[%c0, %c0] : memref<32x1xf32, #tpu.memory_space<vmem>>, vector<32x1xf32>
      %22 = math.log %21 : vector<32x1xf32>
      %23 = arith.addf %20, %22 : vector<32x1xf32>
      tpu.vector_store %arg3[%c0, %c0], %23 {strides = array<i32>} : memref<32x1xf32, #tpu.memory_space<vmem>>, vector<32x1xf32>, 
    }
    return
  }
  func.func @transform_0(%arg0: i32) -> (i32, i32) {
    %c0_i32 = arith.constant 0 : i32
    return %c0_i32, %c0_i32 : i32, i32
  }
  func.func @transform_1(%arg0: i32) -> (i32, i32) {
    %c0_i32 = arith.constant 0 : i32
    return %c0_i32, %arg0 : i32, i32
  }
  func.func @transform_2(%arg0: i32) -> (i32, i32) {
    %c0_i32 = arith.constant 0 : i32
    return %c0_i32, %c0_i32 : i32, i32
  }
}
