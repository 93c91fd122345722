module {
  func.func @dyn(%arg0: i32, %arg1: memref<4xi32, #tpu.memory_space<smem>>, %arg2: memref<64x128xf32, #tpu.memory_space<vmem>>, %arg3: memref<32x128xf32, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [#tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 1>, scalar_prefetch = 1 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{pipeline_mode = #tpu.pipeline_mode<synchronous>, transform_indices = @transform_0, window_bounds = array<i64: 64, 128>}, {pipeline_mode = #tpu.pipeline_mode<synchronous>, transform_indices = @transform_1, window_bounds = array<i64: 32, 128>}]} {
    %c24 = arith.constant 24 : index
    %c3 = arith.constant 3 : index
    %c16 = arith.constant 16 : index
    %c2 = arith.constant 2 : index
    %c8 = arith.constant 8 : index
    %c1 = arith.constant 1 : index
    %c8_i32 = arith.constant 8 : i32
    %c0 = arith.constant 0 : index
    %0 = memref.load %arg1[%c0] : memref<4xi32, #tpu.memory_space<smem>>
    %1 = arith.muli %0, %c8_i32 : i32
    %2 = tpu.assume_multiple %1, 8 : i32
    %3 = arith.index_cast %2 : i32 to index
    %4 = vector.load %arg2[%3, %c0] : memref<64x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
    tpu.vector_store %arg3[%c0, %c0], %4 {strides = array<i32>} : memref<32x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>, 
    %5 = memref.load %arg1[%c1] : memref<4xi32, #tpu.memory_space<smem>>
    %6 = arith.muli %5, %c8_i32 : i32
    %7 = tpu.assume_multiple %6, 8 : i32
    %8 = arith.index_cast %7 : i32 to index
    %9 = vector.load %arg2[%8, %c0] : memref<64x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
    tpu.vector_store %arg3[%c8, %c0], %9 {strides = array<i32>} : memref<32x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>, 
    %10 = memref.load %arg1[%c2] : memref<4xi32, #tpu.memory_space<smem>>
    %11 = arith.muli %10, %c8_i32 : i32
    %12 = tpu.assume_multiple %11, 8 : i32
    %13 = arith.index_cast %12 : i32 to index
    %14 = vector.load %arg2[%13, %c0] : memref<64x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
    tpu.vector_store %arg3[%c16, %c0], %14 {strides = array<i32>} : memref<32x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>, 
    %15 = memref.load %arg1[%c3] : memref<4xi32, #tpu.memory_space<smem>>
    %16 = arith.muli %15, %c8_i32 : i32
    %17 = tpu.assume_multiple %16, 8 : i32
    %18 = arith.index_cast %17 : i32 to index
    %19 = vector.load %arg2[%18, %c0] : memref<64x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
    tpu.vector_store %arg3[%c24, %c0], %19 {strides = array<i32>} : memref<32x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>, 
    return
  }
  func.func @transform_0(%arg0: i32, %arg1: memref<4xi32, #tpu.memory_space<smem>>) -> (i32, i32) {
    %c0_i32 = arith.constant 0 : i32
    return %c0_i32, %c0_i32 : i32, i32
  }
  func.func @transform_1(%arg0: i32, %arg1: memref<4xi32, #tpu.memory_space<smem>>) -> (i32, i32) {
    %c0_i32 = arith.constant 0 : i32
    return %c0_i32, %c0_i32 : i32, i32
  }
}
