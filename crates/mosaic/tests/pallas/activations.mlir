module {
  func.func @gelu(%arg0: memref<32x128xf32, #tpu.memory_space<vmem>>, %arg1: memref<32x128xf32, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>} {
    %cst = arith.constant dense<5.000000e-01> : vector<32x128xf32>
    %cst_0 = arith.constant dense<0.797884583> : vector<32x128xf32>
    %cst_1 = arith.constant dense<4.471500e-02> : vector<32x128xf32>
    %cst_2 = arith.constant dense<1.000000e+00> : vector<32x128xf32>
    %cst_3 = arith.constant dense<0.00999999977> : vector<32x128xf32>
    %cst_4 = arith.constant dense<0.000000e+00> : vector<32x128xf32>
    %c0 = arith.constant 0 : index
    %0 = vector.load %arg0[%c0, %c0] : memref<32x128xf32, #tpu.memory_space<vmem>>, vector<32x128xf32>
    %1 = arith.cmpf ogt, %0, %cst_4 : vector<32x128xf32>
    %2 = arith.mulf %0, %cst_3 : vector<32x128xf32>
    %3 = arith.select %1, %0, %2 : vector<32x128xi1>, vector<32x128xf32>
    %4 = arith.negf %0 : vector<32x128xf32>
    %5 = math.exp %4 : vector<32x128xf32>
    %6 = arith.addf %5, %cst_2 : vector<32x128xf32>
    %7 = arith.divf %cst_2, %6 : vector<32x128xf32>
    %8 = arith.mulf %3, %7 : vector<32x128xf32>
    %9 = arith.mulf %0, %0 : vector<32x128xf32>
    %10 = arith.mulf %0, %9 : vector<32x128xf32>
    %11 = arith.mulf %10, %cst_1 : vector<32x128xf32>
    %12 = arith.addf %0, %11 : vector<32x128xf32>
    %13 = arith.mulf %12, %cst_0 : vector<32x128xf32>
    %14 = math.tanh %13 : vector<32x128xf32>
    %15 = arith.addf %14, %cst_2 : vector<32x128xf32>
    %16 = arith.mulf %15, %cst : vector<32x128xf32>
    %17 = arith.mulf %0, %16 : vector<32x128xf32>
    %18 = arith.addf %8, %17 : vector<32x128xf32>
    tpu.vector_store %arg1[%c0, %c0], %18 {strides = array<i32>} : memref<32x128xf32, #tpu.memory_space<vmem>>, vector<32x128xf32>, 
    return
  }
}
