module {
  func.func @misc(%arg0: memref<128x128xf32, #tpu.memory_space<vmem>>, %arg1: memref<128x128xf32, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>} {
    %c3_i32 = arith.constant 3 : i32
    %c1_i32 = arith.constant 1 : i32
    %c0 = arith.constant 0 : index
    %0 = vector.load %arg0[%c0, %c0] : memref<128x128xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>
    %1 = tpu.dynamic_rotate %0 by %c1_i32 dim 0 : vector<128x128xf32>, i32 -> vector<128x128xf32>
    %2 = tpu.dynamic_rotate %0 by %c3_i32 dim 1 : vector<128x128xf32>, i32 -> vector<128x128xf32>
    %3 = arith.addf %1, %2 : vector<128x128xf32>
    %4 = tpu.transpose %0, [1, 0] : vector<128x128xf32> -> vector<128x128xf32>
    %5 = vector.extract_strided_slice %0 {offsets = [0, 0], sizes = [64, 128], strides = [1, 1]} : vector<128x128xf32> to vector<64x128xf32>
    %6 = vector.extract_strided_slice %3 {offsets = [64, 0], sizes = [64, 128], strides = [1, 1]} : vector<128x128xf32> to vector<64x128xf32>
    %7 = tpu.concatenate %5, %6 in 0 : vector<64x128xf32>, vector<64x128xf32> -> vector<128x128xf32>
    %8 = tpu.reduce_index %0 {axis = 1 : i32, kind = #tpu.reduction_kind<arg_max>} : vector<128x128xf32> -> vector<128xi32>
    %9 = vector.shape_cast %8 : vector<128xi32> to vector<128x1xi32>
    %10 = arith.sitofp %9 : vector<128x1xi32> to vector<128x1xf32>
    %11 = arith.addf %3, %4 : vector<128x128xf32>
    %12 = arith.addf %11, %7 : vector<128x128xf32>
    %13 = vector.broadcast %10 : vector<128x1xf32> to vector<128x128xf32>
    %14 = arith.addf %12, %13 : vector<128x128xf32>
    tpu.vector_store %arg1[%c0, %c0], %14 {strides = array<i32>} : memref<128x128xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>, 
    return
  }
}
