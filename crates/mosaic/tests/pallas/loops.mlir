module {
  func.func @loops(%arg0: memref<64x128xf32, #tpu.memory_space<vmem>>, %arg1: memref<8x128xf32, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>} {
    %cst = arith.constant dense<5.000000e-01> : vector<8x128xf32>
    %c5_i32 = arith.constant 5 : i32
    %c0 = arith.constant 0 : index
    %c1_i32 = arith.constant 1 : i32
    %c8_i32 = arith.constant 8 : i32
    %c0_i32 = arith.constant 0 : i32
    %cst_0 = arith.constant dense<0.000000e+00> : vector<8x128xf32>
    %0 = scf.for %arg2 = %c0_i32 to %c8_i32 step %c1_i32 iter_args(%arg3 = %cst_0) -> (vector<8x128xf32>)  : i32 {
      %6 = arith.muli %arg2, %c8_i32 : i32
      %7 = arith.index_cast %6 : i32 to index
      %8 = vector.load %arg0[%7, %c0] : memref<64x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
      %9 = arith.addf %arg3, %8 : vector<8x128xf32>
      scf.yield %9 : vector<8x128xf32>
    }
    tpu.vector_store %arg1[%c0, %c0], %0 {strides = array<i32>} : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>, 
    %1 = vector.load %arg1[%c0, %c0] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
    %2:2 = scf.while (%arg2 = %c0_i32, %arg3 = %1) : (i32, vector<8x128xf32>) -> (i32, vector<8x128xf32>) {
      %6 = arith.cmpi slt, %arg2, %c5_i32 : i32
      scf.condition(%6) %arg2, %arg3 : i32, vector<8x128xf32>
    } do {
    ^bb0(%arg2: i32, %arg3: vector<8x128xf32>):
      %6 = arith.addi %arg2, %c1_i32 : i32
      %7 = arith.mulf %arg3, %cst : vector<8x128xf32>
      scf.yield %6, %7 : i32, vector<8x128xf32>
    }
    %3 = arith.sitofp %2#0 : i32 to f32
    %4 = vector.broadcast %3 : f32 to vector<8x128xf32>
    %5 = arith.addf %2#1, %4 : vector<8x128xf32>
    tpu.vector_store %arg1[%c0, %c0], %5 {strides = array<i32>} : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>, 
    return
  }
}
