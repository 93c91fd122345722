module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8x6xf32>) -> (tensor<8x6xf32> {jax.result_info = "result[0]"}, tensor<8x6xf32> {jax.result_info = "result[1]"}, tensor<8x6xf32> {jax.result_info = "result[2]"}, tensor<8x6xf32> {jax.result_info = "result[3]"}, tensor<8x6xf32> {jax.result_info = "result[4]"}, tensor<8x6xf32> {jax.result_info = "result[5]"}, tensor<8x6xf32> {jax.result_info = "result[6]"}, tensor<8x6xf32> {jax.result_info = "result[7]"}, tensor<8x6xf32> {jax.result_info = "result[8]"}, tensor<8x6xf32> {jax.result_info = "result[9]"}, tensor<8x6xf32> {jax.result_info = "result[10]"}, tensor<8x6xf32> {jax.result_info = "result[11]"}, tensor<8x6xf32> {jax.result_info = "result[12]"}, tensor<8x6xf32> {jax.result_info = "result[13]"}, tensor<8x6xf32> {jax.result_info = "result[14]"}, tensor<8x6xf32> {jax.result_info = "result[15]"}, tensor<8x6xf32> {jax.result_info = "result[16]"}, tensor<8x6xf32> {jax.result_info = "result[17]"}, tensor<8x6xf32> {jax.result_info = "result[18]"}, tensor<8x6xi1> {jax.result_info = "result[19]"}, tensor<8x6xi1> {jax.result_info = "result[20]"}, tensor<8x6xf32> {jax.result_info = "result[21]"}, tensor<8x6xf32> {jax.result_info = "result[22]"}, tensor<8x6xf32> {jax.result_info = "result[23]"}, tensor<8x6xf32> {jax.result_info = "result[24]"}, tensor<8x6xf32> {jax.result_info = "result[25]"}) {
    %0 = stablehlo.exponential %arg0 : tensor<8x6xf32>
    %1 = stablehlo.log %arg0 : tensor<8x6xf32>
    %2 = stablehlo.tanh %arg0 : tensor<8x6xf32>
    %3 = stablehlo.sine %arg0 : tensor<8x6xf32>
    %4 = stablehlo.cosine %arg0 : tensor<8x6xf32>
    %5 = stablehlo.rsqrt %arg0 : tensor<8x6xf32>
    %6 = stablehlo.sqrt %arg0 : tensor<8x6xf32>
    %7 = stablehlo.negate %arg0 : tensor<8x6xf32>
    %8 = stablehlo.exponential %7 : tensor<8x6xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x6xf32>
    %10 = stablehlo.add %9, %8 : tensor<8x6xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x6xf32>
    %12 = stablehlo.divide %11, %10 : tensor<8x6xf32>
    %13 = stablehlo.exponential_minus_one %arg0 : tensor<8x6xf32>
    %14 = stablehlo.log_plus_one %arg0 : tensor<8x6xf32>
    %15 = stablehlo.floor %arg0 : tensor<8x6xf32>
    %16 = stablehlo.ceil %arg0 : tensor<8x6xf32>
    %17 = call @round(%arg0) : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %18 = stablehlo.sign %arg0 : tensor<8x6xf32>
    %19 = stablehlo.cbrt %arg0 : tensor<8x6xf32>
    %20 = stablehlo.tan %arg0 : tensor<8x6xf32>
    %21 = chlo.erf %arg0 : tensor<8x6xf32> -> tensor<8x6xf32>
    %22 = stablehlo.multiply %arg0, %arg0 : tensor<8x6xf32>
    %23 = stablehlo.multiply %22, %arg0 : tensor<8x6xf32>
    %cst_1 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %24 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<8x6xf32>
    %25 = stablehlo.multiply %24, %23 : tensor<8x6xf32>
    %26 = stablehlo.add %arg0, %25 : tensor<8x6xf32>
    %cst_2 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %27 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<8x6xf32>
    %28 = stablehlo.multiply %27, %26 : tensor<8x6xf32>
    %29 = stablehlo.tanh %28 : tensor<8x6xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %30 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<8x6xf32>
    %31 = stablehlo.add %30, %29 : tensor<8x6xf32>
    %cst_4 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %32 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<8x6xf32>
    %33 = stablehlo.multiply %32, %31 : tensor<8x6xf32>
    %34 = stablehlo.multiply %arg0, %33 : tensor<8x6xf32>
    %cst_5 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %35 = stablehlo.reduce(%arg0 init: %cst_5) applies stablehlo.maximum across dimensions = [1] : (tensor<8x6xf32>, tensor<f32>) -> tensor<8xf32>
    %cst_6 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %36 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %37 = stablehlo.maximum %36, %35 : tensor<8xf32>
    %38 = stablehlo.broadcast_in_dim %37, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
    %39 = stablehlo.broadcast_in_dim %38, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x6xf32>
    %40 = stablehlo.subtract %arg0, %39 : tensor<8x6xf32>
    %41 = stablehlo.exponential %40 : tensor<8x6xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %42 = stablehlo.reduce(%41 init: %cst_7) applies stablehlo.add across dimensions = [1] : (tensor<8x6xf32>, tensor<f32>) -> tensor<8xf32>
    %43 = stablehlo.broadcast_in_dim %42, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
    %44 = stablehlo.broadcast_in_dim %43, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x6xf32>
    %45 = stablehlo.divide %41, %44 : tensor<8x6xf32>
    %46 = stablehlo.is_finite %arg0 : (tensor<8x6xf32>) -> tensor<8x6xi1>
    %47 = stablehlo.compare NE, %arg0, %arg0, FLOAT : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xi1>
    %48 = stablehlo.multiply %arg0, %arg0 : tensor<8x6xf32>
    %cst_8 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %49 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<8x6xf32>
    %50 = stablehlo.power %arg0, %49 : tensor<8x6xf32>
    %cst_9 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %51 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<8x6xf32>
    %52 = stablehlo.add %arg0, %51 : tensor<8x6xf32>
    %53 = stablehlo.atan2 %arg0, %52 : tensor<8x6xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_10 = stablehlo.constant dense<1> : tensor<i32>
    %54 = call @clip(%arg0, %c, %c_10) : (tensor<8x6xf32>, tensor<i32>, tensor<i32>) -> tensor<8x6xf32>
    %cst_11 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %55 = call @remainder(%arg0, %cst_11) : (tensor<8x6xf32>, tensor<f32>) -> tensor<8x6xf32>
    return %0, %1, %2, %3, %4, %5, %6, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %34, %45, %46, %47, %48, %50, %53, %54, %55 : tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xi1>, tensor<8x6xi1>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>
  }
  func.func private @round(%arg0: tensor<8x6xf32>) -> tensor<8x6xf32> {
    %0 = stablehlo.round_nearest_even %arg0 : tensor<8x6xf32>
    return %0 : tensor<8x6xf32>
  }
  func.func private @clip(%arg0: tensor<8x6xf32>, %arg1: tensor<i32>, %arg2: tensor<i32>) -> tensor<8x6xf32> {
    %0 = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<8x6xf32>
    %2 = stablehlo.maximum %1, %arg0 : tensor<8x6xf32>
    %3 = stablehlo.convert %arg2 : (tensor<i32>) -> tensor<f32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [] : (tensor<f32>) -> tensor<8x6xf32>
    %5 = stablehlo.minimum %4, %2 : tensor<8x6xf32>
    return %5 : tensor<8x6xf32>
  }
  func.func private @remainder(%arg0: tensor<8x6xf32>, %arg1: tensor<f32>) -> tensor<8x6xf32> {
    %0 = stablehlo.convert %arg1 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<8x6xf32>
    %2 = stablehlo.remainder %arg0, %1 : tensor<8x6xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x6xf32>
    %4 = stablehlo.compare NE, %2, %3, FLOAT : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xi1>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x6xf32>
    %6 = stablehlo.compare LT, %2, %5, FLOAT : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xi1>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.compare LT, %0, %cst_1, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %8 = stablehlo.broadcast_in_dim %7, dims = [] : (tensor<i1>) -> tensor<8x6xi1>
    %9 = stablehlo.compare NE, %6, %8, UNSIGNED : (tensor<8x6xi1>, tensor<8x6xi1>) -> tensor<8x6xi1>
    %10 = stablehlo.and %9, %4 : tensor<8x6xi1>
    %11 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<8x6xf32>
    %12 = stablehlo.add %2, %11 : tensor<8x6xf32>
    %13 = stablehlo.select %10, %12, %2 : tensor<8x6xi1>, tensor<8x6xf32>
    return %13 : tensor<8x6xf32>
  }
}
