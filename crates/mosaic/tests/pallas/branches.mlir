module {
  func.func @cond(%arg0: i32, %arg1: memref<8x128xf32, #tpu.memory_space<vmem>>, %arg2: memref<8x128xf32, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [#tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 4>, scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{transform_indices = @transform_0, window_bounds = array<i64: 8, 128>}, {transform_indices = @transform_1, window_bounds = array<i64: 8, 128>}]} {
    %cst = arith.constant dense<1.000000e+00> : vector<8x128xf32>
    %cst_0 = arith.constant dense<2.000000e+00> : vector<8x128xf32>
    %c0 = arith.constant 0 : index
    %c2_i32 = arith.constant 2 : i32
    %c0_i32 = arith.constant 0 : i32
    %0 = arith.remsi %arg0, %c2_i32 : i32
    %1 = arith.cmpi ne, %0, %c0_i32 : i32
    %2 = arith.cmpi slt, %0, %c0_i32 : i32
    %3 = arith.andi %2, %1 : i1
    %4 = arith.addi %0, %c2_i32 : i32
    %5 = arith.select %3, %4, %0 : i32
    %6 = arith.cmpi eq, %5, %c0_i32 : i32
    %7 = vector.load %arg1[%c0, %c0] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
    %8 = scf.if %6 -> (vector<8x128xf32>) {
      %9 = arith.mulf %7, %cst_0 : vector<8x128xf32>
      scf.yield %9 : vector<8x128xf32>
    } else {
      %9 = arith.subf %7, %cst : vector<8x128xf32>
      scf.yield %9 : vector<8x128xf32>
    }
    tpu.vector_store %arg2[%c0, %c0], %8 {strides = array<i32>} : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>, 
    return
  }
  func.func @transform_0(%arg0: i32) -> (i32, i32) {
    %c0_i32 = arith.constant 0 : i32
    return %arg0, %c0_i32 : i32, i32
  }
  func.func @transform_1(%arg0: i32) -> (i32, i32) {
    %c0_i32 = arith.constant 0 : i32
    return %arg0, %c0_i32 : i32, i32
  }
}
