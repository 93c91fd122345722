module {
  func.func @ints(%arg0: memref<8x128xi32, #tpu.memory_space<vmem>>, %arg1: memref<8x128xi32, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>} {
    %cst = arith.constant dense<9> : vector<8x128xi32>
    %cst_0 = arith.constant dense<0> : vector<8x128xi32>
    %cst_1 = arith.constant dense<-3> : vector<8x128xi32>
    %cst_2 = arith.constant dense<4> : vector<8x128xi32>
    %cst_3 = arith.constant dense<5> : vector<8x128xi32>
    %cst_4 = arith.constant dense<3> : vector<8x128xi32>
    %cst_5 = arith.constant dense<7> : vector<8x128xi32>
    %cst_6 = arith.constant dense<1> : vector<8x128xi32>
    %cst_7 = arith.constant dense<2> : vector<8x128xi32>
    %c0 = arith.constant 0 : index
    %0 = vector.load %arg0[%c0, %c0] : memref<8x128xi32, #tpu.memory_space<vmem>>, vector<8x128xi32>
    %1 = arith.shli %0, %cst_7 : vector<8x128xi32>
    %2 = arith.shrsi %0, %cst_6 : vector<8x128xi32>
    %3 = arith.ori %1, %2 : vector<8x128xi32>
    %4 = arith.andi %0, %cst_5 : vector<8x128xi32>
    %5 = arith.xori %3, %4 : vector<8x128xi32>
    tpu.vector_store %arg1[%c0, %c0], %5 {strides = array<i32>} : memref<8x128xi32, #tpu.memory_space<vmem>>, vector<8x128xi32>, 
    %6 = vector.load %arg1[%c0, %c0] : memref<8x128xi32, #tpu.memory_space<vmem>>, vector<8x128xi32>
    %7 = arith.divsi %0, %cst_4 : vector<8x128xi32>
    %8 = arith.remsi %0, %cst_3 : vector<8x128xi32>
    %9 = arith.addi %7, %8 : vector<8x128xi32>
    %10 = arith.minsi %0, %cst_2 : vector<8x128xi32>
    %11 = arith.addi %9, %10 : vector<8x128xi32>
    %12 = arith.maxsi %0, %cst_1 : vector<8x128xi32>
    %13 = arith.addi %11, %12 : vector<8x128xi32>
    %14 = arith.remsi %0, %cst_5 : vector<8x128xi32>
    %15 = arith.cmpi ne, %14, %cst_0 : vector<8x128xi32>
    %16 = arith.cmpi slt, %14, %cst_0 : vector<8x128xi32>
    %17 = arith.andi %16, %15 : vector<8x128xi1>
    %18 = arith.addi %14, %cst_5 : vector<8x128xi32>
    %19 = arith.select %17, %18, %14 : vector<8x128xi1>, vector<8x128xi32>
    %20 = arith.addi %13, %19 : vector<8x128xi32>
    %21 = math.absi %0 : vector<8x128xi32>
    %22 = arith.addi %20, %21 : vector<8x128xi32>
    %23 = arith.maxsi %0, %cst_0 : vector<8x128xi32>
    %24 = arith.minsi %23, %cst : vector<8x128xi32>
    %25 = arith.addi %22, %24 : vector<8x128xi32>
    %26 = arith.addi %6, %25 : vector<8x128xi32>
    tpu.vector_store %arg1[%c0, %c0], %26 {strides = array<i32>} : memref<8x128xi32, #tpu.memory_space<vmem>>, vector<8x128xi32>, 
    return
  }
}
