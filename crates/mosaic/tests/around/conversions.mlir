module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8xf32>) -> (tensor<8xbf16> {jax.result_info = "result[0]"}, tensor<8xi8> {jax.result_info = "result[1]"}, tensor<8xui8> {jax.result_info = "result[2]"}, tensor<8xi1> {jax.result_info = "result[3]"}, tensor<8xf16> {jax.result_info = "result[4]"}, tensor<8xf8E4M3FN> {jax.result_info = "result[5]"}, tensor<8xf8E5M2> {jax.result_info = "result[6]"}, tensor<8xi32> {jax.result_info = "result[7]"}, tensor<8x4xui8> {jax.result_info = "result[8]"}, tensor<8xf32> {jax.result_info = "result[9]"}, tensor<8xi32> {jax.result_info = "result[10]"}) {
    %0 = stablehlo.convert %arg0 : (tensor<8xf32>) -> tensor<8xbf16>
    %1 = stablehlo.convert %arg0 : (tensor<8xf32>) -> tensor<8xi8>
    %2 = stablehlo.convert %arg0 : (tensor<8xf32>) -> tensor<8xui8>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %4 = stablehlo.compare NE, %arg0, %3, FLOAT : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
    %5 = stablehlo.convert %4 : tensor<8xi1>
    %6 = stablehlo.convert %arg0 : (tensor<8xf32>) -> tensor<8xf16>
    %7 = stablehlo.convert %arg0 : (tensor<8xf32>) -> tensor<8xf8E4M3FN>
    %8 = stablehlo.convert %arg0 : (tensor<8xf32>) -> tensor<8xf8E5M2>
    %9 = stablehlo.bitcast_convert %arg0 : (tensor<8xf32>) -> tensor<8xi32>
    %10 = stablehlo.bitcast_convert %arg0 : (tensor<8xf32>) -> tensor<8x4xui8>
    %11 = stablehlo.reduce_precision %arg0, format = e8m7 : tensor<8xf32>
    %cst_0 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %13 = stablehlo.multiply %arg0, %12 : tensor<8xf32>
    %14 = stablehlo.convert %13 : (tensor<8xf32>) -> tensor<8xi4>
    %15 = stablehlo.convert %14 : (tensor<8xi4>) -> tensor<8xi32>
    return %0, %1, %2, %5, %6, %7, %8, %9, %10, %11, %15 : tensor<8xbf16>, tensor<8xi8>, tensor<8xui8>, tensor<8xi1>, tensor<8xf16>, tensor<8xf8E4M3FN>, tensor<8xf8E5M2>, tensor<8xi32>, tensor<8x4xui8>, tensor<8xf32>, tensor<8xi32>
  }
}
