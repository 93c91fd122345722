module {
  func.func @pack(%arg0: memref<16x128xbf16, #tpu.memory_space<vmem>>, %arg1: memref<16x128xbf16, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>} {
    %cst = arith.constant dense<1> : vector<8x128xi32>
    %c0 = arith.constant 0 : index
    %0 = vector.load %arg0[%c0, %c0] : memref<16x128xbf16, #tpu.memory_space<vmem>>, vector<16x128xbf16>
    %1 = tpu.bitcast %0 : vector<16x128xbf16> -> vector<8x128xi32>
    %2 = arith.xori %1, %cst : vector<8x128xi32>
    %3 = tpu.bitcast %2 : vector<8x128xi32> -> vector<16x128xbf16>
    tpu.vector_store %arg1[%c0, %c0], %3 {strides = array<i32>} : memref<16x128xbf16, #tpu.memory_space<vmem>>, vector<16x128xbf16>, 
    return
  }
}
