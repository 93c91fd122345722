module {
  func.func @sq(%arg0: i32, %arg1: memref<1x8x128xf32, #tpu.memory_space<vmem>>, %arg2: memref<1x8x128xf32, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [#tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 4>, scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{transform_indices = @transform_0, window_bounds = array<i64: 1, 8, 128>}, {transform_indices = @transform_1, window_bounds = array<i64: 1, 8, 128>}]} {
    %cst = arith.constant dense<1.000000e+00> : vector<8x128xf32>
    %c0 = arith.constant 0 : index
    %0 = vector.load %arg1[%c0, %c0, %c0] : memref<1x8x128xf32, #tpu.memory_space<vmem>>, vector<1x8x128xf32>
    %1 = vector.shape_cast %0 : vector<1x8x128xf32> to vector<8x128xf32>
    %2 = arith.addf %1, %cst : vector<8x128xf32>
    %3 = vector.shape_cast %2 : vector<8x128xf32> to vector<1x8x128xf32>
    tpu.vector_store %arg2[%c0, %c0, %c0], %3 {strides = array<i32>} : memref<1x8x128xf32, #tpu.memory_space<vmem>>, vector<1x8x128xf32>, 
    return
  }
  func.func @transform_0(%arg0: i32) -> (i32, i32, i32) {
    %c0_i32 = arith.constant 0 : i32
    return %arg0, %c0_i32, %c0_i32 : i32, i32, i32
  }
  func.func @transform_1(%arg0: i32) -> (i32, i32, i32) {
    %c0_i32 = arith.constant 0 : i32
    return %arg0, %c0_i32, %c0_i32 : i32, i32, i32
  }
}
