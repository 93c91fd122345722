module {
  func.func @bits(%arg0: memref<8x128xf32, #tpu.memory_space<vmem>>, %arg1: memref<8x128xf32, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>} {
    %cst = arith.constant dense<0.000000e+00> : vector<8x128xf32>
    %cst_0 = arith.constant dense<-65536> : vector<8x128xi32>
    %c0 = arith.constant 0 : index
    %0 = vector.load %arg0[%c0, %c0] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
    %1 = tpu.bitcast %0 : vector<8x128xf32> -> vector<8x128xi32>
    %2 = arith.andi %1, %cst_0 : vector<8x128xi32>
    %3 = tpu.bitcast %2 : vector<8x128xi32> -> vector<8x128xf32>
    %4 = arith.fptosi %0 : vector<8x128xf32> to vector<8x128xi32>
    %5 = arith.sitofp %4 : vector<8x128xi32> to vector<8x128xf32>
    %6 = arith.addf %3, %5 : vector<8x128xf32>
    %7 = arith.cmpf ogt, %0, %cst : vector<8x128xf32>
    %8 = arith.uitofp %7 : vector<8x128xi1> to vector<8x128xf32>
    %9 = arith.addf %6, %8 : vector<8x128xf32>
    tpu.vector_store %arg1[%c0, %c0], %9 {strides = array<i32>} : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>, 
    return
  }
}
