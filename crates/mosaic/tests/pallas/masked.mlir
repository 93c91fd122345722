module {
  func.func @masked(%arg0: memref<16x128xf32, #tpu.memory_space<vmem>>, %arg1: memref<16x128xf32, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>} {
    %cst = arith.constant dense<5> : vector<16x128xi32>
    %cst_0 = arith.constant dense<0.000000e+00> : vector<16x128xf32>
    %c0 = arith.constant 0 : index
    %0 = tpu.iota {dimensions = array<i32: 0>} : vector<16x128xi32>
    tpu.vector_store %arg1[%c0, %c0], %cst_0 {strides = array<i32>} : memref<16x128xf32, #tpu.memory_space<vmem>>, vector<16x128xf32>, 
    %1 = vector.load %arg0[%c0, %c0] : memref<16x128xf32, #tpu.memory_space<vmem>>, vector<16x128xf32>
    %2 = arith.cmpi slt, %0, %cst : vector<16x128xi32>
    tpu.vector_store %arg1[%c0, %c0], %1 masked %2 {strides = array<i32>} : memref<16x128xf32, #tpu.memory_space<vmem>>, vector<16x128xf32>, vector<16x128xi1>
    return
  }
}
