module {
  func.func @red(%arg0: memref<64x128xf32, #tpu.memory_space<vmem>>, %arg1: memref<1x128xf32, #tpu.memory_space<vmem>>, %arg2: memref<64x128xf32, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>} {
    %cst = arith.constant dense<0.000000e+00> : vector<64xf32>
    %cst_0 = arith.constant dense<0x7F800000> : vector<128xf32>
    %cst_1 = arith.constant dense<0xFF800000> : vector<128xf32>
    %cst_2 = arith.constant dense<0.000000e+00> : vector<128xf32>
    %c0 = arith.constant 0 : index
    %0 = vector.load %arg0[%c0, %c0] : memref<64x128xf32, #tpu.memory_space<vmem>>, vector<64x128xf32>
    %1 = vector.multi_reduction <add>, %0, %cst_2 [0] : vector<64x128xf32> to vector<128xf32>
    %2 = vector.shape_cast %1 : vector<128xf32> to vector<1x128xf32>
    %3 = vector.multi_reduction <maximumf>, %0, %cst_1 [0] : vector<64x128xf32> to vector<128xf32>
    %4 = vector.shape_cast %3 : vector<128xf32> to vector<1x128xf32>
    %5 = arith.addf %2, %4 : vector<1x128xf32>
    %6 = vector.multi_reduction <minimumf>, %0, %cst_0 [0] : vector<64x128xf32> to vector<128xf32>
    %7 = vector.shape_cast %6 : vector<128xf32> to vector<1x128xf32>
    %8 = arith.subf %5, %7 : vector<1x128xf32>
    tpu.vector_store %arg1[%c0, %c0], %8 {strides = array<i32>} : memref<1x128xf32, #tpu.memory_space<vmem>>, vector<1x128xf32>, 
    %9 = vector.multi_reduction <add>, %0, %cst [1] : vector<64x128xf32> to vector<64xf32>
    %10 = vector.shape_cast %9 : vector<64xf32> to vector<64x1xf32>
    %11 = vector.broadcast %10 : vector<64x1xf32> to vector<64x128xf32>
    %12 = tpu.reduce_index %0 {axis = 1 : i32, kind = #tpu.reduction_kind<arg_min>} : vector<64x128xf32> -> vector<64xi32>
    %13 = vector.shape_cast %12 : vector<64xi32> to vector<64x1xi32>
    %14 = arith.sitofp %13 : vector<64x1xi32> to vector<64x1xf32>
    %15 = vector.broadcast %14 : vector<64x1xf32> to vector<64x128xf32>
    %16 = arith.addf %11, %15 : vector<64x128xf32>
    tpu.vector_store %arg2[%c0, %c0], %16 {strides = array<i32>} : memref<64x128xf32, #tpu.memory_space<vmem>>, vector<64x128xf32>, 
    return
  }
}
