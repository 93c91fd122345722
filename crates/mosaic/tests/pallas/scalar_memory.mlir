module {
  func.func @smem(%arg0: memref<4xf32, #tpu.memory_space<smem>>, %arg1: memref<8x128xf32, #tpu.memory_space<vmem>>, %arg2: memref<8x128xf32, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>} {
    %c0 = arith.constant 0 : index
    %c1_i32 = arith.constant 1 : i32
    %c0_i32 = arith.constant 0 : i32
    %cst = arith.constant dense<0.000000e+00> : vector<8x128xf32>
    %c4_i32 = arith.constant 4 : i32
    %0 = scf.for %arg3 = %c0_i32 to %c4_i32 step %c1_i32 iter_args(%arg4 = %cst) -> (vector<8x128xf32>)  : i32 {
      %1 = arith.index_cast %arg3 : i32 to index
      %2 = memref.load %arg0[%1] : memref<4xf32, #tpu.memory_space<smem>>
      %3 = vector.load %arg1[%c0, %c0] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
      %4 = vector.broadcast %2 : f32 to vector<8x128xf32>
      %5 = arith.mulf %4, %3 : vector<8x128xf32>
      %6 = arith.addf %arg4, %5 : vector<8x128xf32>
      scf.yield %6 : vector<8x128xf32>
    }
    tpu.vector_store %arg2[%c0, %c0], %0 {strides = array<i32>} : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>, 
    return
  }
}
