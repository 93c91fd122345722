module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8x6xf32>, %arg1: tensor<6x4xf32>, %arg2: tensor<2x8x6xf32>, %arg3: tensor<2x6x4xf32>) -> (tensor<8x4xf32> {jax.result_info = "result[0]"}, tensor<8x8xf32> {jax.result_info = "result[1]"}, tensor<2x8x4xf32> {jax.result_info = "result[2]"}, tensor<8x4xi32> {jax.result_info = "result[3]"}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
    %1 = stablehlo.dot_general %arg0, %arg0, contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x8xf32>
    %2 = stablehlo.dot_general %arg2, %arg3, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [HIGHEST, HIGHEST] : (tensor<2x8x6xf32>, tensor<2x6x4xf32>) -> tensor<2x8x4xf32>
    %3 = stablehlo.convert %arg0 : (tensor<8x6xf32>) -> tensor<8x6xi8>
    %4 = stablehlo.convert %arg1 : (tensor<6x4xf32>) -> tensor<6x4xi8>
    %5 = stablehlo.dot_general %3, %4, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<8x6xi8>, tensor<6x4xi8>) -> tensor<8x4xi32>
    return %0, %1, %2, %5 : tensor<8x4xf32>, tensor<8x8xf32>, tensor<2x8x4xf32>, tensor<8x4xi32>
  }
}
