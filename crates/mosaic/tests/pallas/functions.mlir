module {
  func.func @ew2(%arg0: memref<16x128xf32, #tpu.memory_space<vmem>>, %arg1: memref<16x128xf32, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>} {
    %cst = arith.constant dense<1.250000e+00> : vector<16x128xf32>
    %cst_0 = arith.constant dense<1.500000e+00> : vector<16x128xf32>
    %cst_1 = arith.constant dense<0.000000e+00> : vector<16x128xf32>
    %cst_2 = arith.constant dense<1065353216> : vector<16x128xi32>
    %cst_3 = arith.constant dense<-2147483648> : vector<16x128xi32>
    %cst_4 = arith.constant dense<0.693147182> : vector<16x128xf32>
    %cst_5 = arith.constant dense<1.000000e+00> : vector<16x128xf32>
    %c0 = arith.constant 0 : index
    %0 = vector.load %arg0[%c0, %c0] : memref<16x128xf32, #tpu.memory_space<vmem>>, vector<16x128xf32>
    %1 = math.exp2 %0 : vector<16x128xf32>
    %2 = math.absf %0 : vector<16x128xf32>
    %3 = arith.addf %2, %cst_5 : vector<16x128xf32>
    %4 = math.log %3 : vector<16x128xf32>
    %5 = arith.divf %4, %cst_4 : vector<16x128xf32>
    %6 = arith.mulf %1, %5 : vector<16x128xf32>
    %7 = math.floor %0 : vector<16x128xf32>
    %8 = arith.addf %6, %7 : vector<16x128xf32>
    %9 = math.ceil %0 : vector<16x128xf32>
    %10 = arith.addf %8, %9 : vector<16x128xf32>
    %11 = math.roundeven %0 : vector<16x128xf32>
    %12 = arith.addf %10, %11 : vector<16x128xf32>
    %13 = math.sin %0 : vector<16x128xf32>
    %14 = math.cos %0 : vector<16x128xf32>
    %15 = arith.mulf %13, %14 : vector<16x128xf32>
    %16 = arith.addf %12, %15 : vector<16x128xf32>
    %17 = tpu.bitcast %0 : vector<16x128xf32> -> vector<16x128xi32>
    %18 = arith.andi %17, %cst_3 : vector<16x128xi32>
    %19 = arith.ori %18, %cst_2 : vector<16x128xi32>
    %20 = tpu.bitcast %19 : vector<16x128xi32> -> vector<16x128xf32>
    %21 = math.absf %0 : vector<16x128xf32>
    %22 = arith.cmpf ogt, %21, %cst_1 : vector<16x128xf32>
    %23 = arith.select %22, %20, %0 : vector<16x128xi1>, vector<16x128xf32>
    %24 = arith.addf %16, %23 : vector<16x128xf32>
    %25 = math.absf %0 : vector<16x128xf32>
    %26 = math.powf %25, %cst_0 : vector<16x128xf32>
    %27 = arith.addf %24, %26 : vector<16x128xf32>
    %28 = math.absf %0 : vector<16x128xf32>
    %29 = math.log1p %28 : vector<16x128xf32>
    %30 = arith.addf %27, %29 : vector<16x128xf32>
    %31 = arith.mulf %0, %0 : vector<16x128xf32>
    %32 = arith.addf %30, %31 : vector<16x128xf32>
    %33 = arith.remf %0, %cst : vector<16x128xf32>
    %34 = arith.addf %32, %33 : vector<16x128xf32>
    tpu.vector_store %arg1[%c0, %c0], %34 {strides = array<i32>} : memref<16x128xf32, #tpu.memory_space<vmem>>, vector<16x128xf32>, 
    return
  }
}
