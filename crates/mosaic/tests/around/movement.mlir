module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8x6xf32>) -> (tensor<11x9xf32> {jax.result_info = "result[0]"}, tensor<22x11xf32> {jax.result_info = "result[1]"}, tensor<8x12xf32> {jax.result_info = "result[2]"}, tensor<4x3xf32> {jax.result_info = "result[3]"}, tensor<8x6xf32> {jax.result_info = "result[4]"}, tensor<8x6xf32> {jax.result_info = "result[5]"}, tensor<6x2x4xf32> {jax.result_info = "result[6]"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = call @_pad(%arg0, %c) : (tensor<8x6xf32>, tensor<i32>) -> tensor<11x9xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.pad %arg0, %cst, low = [1, 0], high = [-1, 0], interior = [2, 1] : (tensor<8x6xf32>, tensor<f32>) -> tensor<22x11xf32>
    %2 = stablehlo.concatenate %arg0, %arg0, dim = 1 : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x12xf32>
    %3 = stablehlo.slice %arg0 [0:8:2, 1:4] : (tensor<8x6xf32>) -> tensor<4x3xf32>
    %4 = stablehlo.reverse %arg0, dims = [0] : tensor<8x6xf32>
    %5 = call @_roll_static(%arg0) : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %6 = stablehlo.reshape %arg0 : (tensor<8x6xf32>) -> tensor<2x4x6xf32>
    %7 = stablehlo.transpose %6, dims = [2, 0, 1] : (tensor<2x4x6xf32>) -> tensor<6x2x4xf32>
    return %0, %1, %2, %3, %4, %5, %7 : tensor<11x9xf32>, tensor<22x11xf32>, tensor<8x12xf32>, tensor<4x3xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<6x2x4xf32>
  }
  func.func private @_pad(%arg0: tensor<8x6xf32>, %arg1: tensor<i32>) -> tensor<11x9xf32> {
    %0 = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<f32>
    %1 = stablehlo.pad %arg0, %0, low = [1, 0], high = [2, 3], interior = [0, 0] : (tensor<8x6xf32>, tensor<f32>) -> tensor<11x9xf32>
    return %1 : tensor<11x9xf32>
  }
  func.func private @_roll_static(%arg0: tensor<8x6xf32>) -> tensor<8x6xf32> {
    %0 = stablehlo.slice %arg0 [7:8, 0:6] : (tensor<8x6xf32>) -> tensor<1x6xf32>
    %1 = stablehlo.slice %arg0 [0:7, 0:6] : (tensor<8x6xf32>) -> tensor<7x6xf32>
    %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<1x6xf32>, tensor<7x6xf32>) -> tensor<8x6xf32>
    return %2 : tensor<8x6xf32>
  }
}
