module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<i32>, %arg1: tensor<8xi32>) -> (tensor<i32> {jax.result_info = "result[0][0]"}, tensor<i32> {jax.result_info = "result[0][1]"}, tensor<8xi32> {jax.result_info = "result[1]"}, tensor<i32> {jax.result_info = "result[2][0]"}, tensor<8xi32> {jax.result_info = "result[2][1]"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<1> : tensor<i32>
    %0:3 = stablehlo.while(%iterArg = %arg0, %iterArg_6 = %c, %iterArg_7 = %c_0) : tensor<i32>, tensor<i32>, tensor<i32>
    cond {
      %4 = stablehlo.convert %iterArg_6 : tensor<i32>
      %5 = stablehlo.compare LT, %4, %iterArg, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %5 : tensor<i1>
    } do {
      %c_8 = stablehlo.constant dense<1> : tensor<i32>
      %4 = stablehlo.add %iterArg_6, %c_8 : tensor<i32>
      %c_9 = stablehlo.constant dense<2> : tensor<i32>
      %5 = stablehlo.multiply %iterArg_7, %c_9 : tensor<i32>
      stablehlo.return %iterArg, %4, %5 : tensor<i32>, tensor<i32>, tensor<i32>
    }
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %1:3 = stablehlo.while(%iterArg = %c_2, %iterArg_6 = %c_1, %iterArg_7 = %arg1) : tensor<i32>, tensor<i32>, tensor<8xi32>
    cond {
      %c_8 = stablehlo.constant dense<4> : tensor<i32>
      %4 = stablehlo.compare LT, %iterArg, %c_8, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %4 : tensor<i1>
    } do {
      %4:2 = func.call @closed_call(%iterArg_6, %iterArg_7) : (tensor<i32>, tensor<8xi32>) -> (tensor<i32>, tensor<8xi32>)
      %c_8 = stablehlo.constant dense<1> : tensor<i32>
      %5 = stablehlo.add %iterArg, %c_8 : tensor<i32>
      stablehlo.return %5, %4#0, %4#1 : tensor<i32>, tensor<i32>, tensor<8xi32>
    }
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %c_4 = stablehlo.constant dense<0> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i32>) -> tensor<8xi32>
    %c_5 = stablehlo.constant dense<0> : tensor<i32>
    %3:4 = stablehlo.while(%iterArg = %arg1, %iterArg_6 = %c_5, %iterArg_7 = %c_3, %iterArg_8 = %2) : tensor<8xi32>, tensor<i32>, tensor<i32>, tensor<8xi32>
    cond {
      %c_9 = stablehlo.constant dense<8> : tensor<i32>
      %4 = stablehlo.compare LT, %iterArg_6, %c_9, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %4 : tensor<i1>
    } do {
      %4 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_6) : (tensor<8xi32>, tensor<i32>) -> tensor<i32>
      %5:2 = func.call @closed_call_0(%iterArg_7, %4) : (tensor<i32>, tensor<i32>) -> (tensor<i32>, tensor<i32>)
      %6 = func.call @dynamic_update_index_in_dim(%iterArg_8, %5#1, %iterArg_6) : (tensor<8xi32>, tensor<i32>, tensor<i32>) -> tensor<8xi32>
      %c_9 = stablehlo.constant dense<1> : tensor<i32>
      %7 = stablehlo.add %iterArg_6, %c_9 : tensor<i32>
      stablehlo.return %iterArg, %7, %5#0, %6 : tensor<8xi32>, tensor<i32>, tensor<i32>, tensor<8xi32>
    }
    return %0#1, %0#2, %1#2, %3#2, %3#3 : tensor<i32>, tensor<i32>, tensor<8xi32>, tensor<i32>, tensor<8xi32>
  }
  func.func private @closed_call(%arg0: tensor<i32>, %arg1: tensor<8xi32>) -> (tensor<i32>, tensor<8xi32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg0, %c : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.compare LT, %arg0, %c_0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_1 = stablehlo.constant dense<8> : tensor<i32>
    %2 = stablehlo.add %arg0, %c_1 : tensor<i32>
    %3 = stablehlo.select %1, %2, %arg0 : tensor<i1>, tensor<i32>
    %4 = stablehlo.convert %3 : tensor<i32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %6 = stablehlo.convert %arg0 : tensor<i32>
    %7 = "stablehlo.scatter"(%arg1, %5, %6) <{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]>, unique_indices = true}> ({
    ^bb0(%arg2: tensor<i32>, %arg3: tensor<i32>):
      %8 = stablehlo.add %arg2, %arg3 : tensor<i32>
      stablehlo.return %8 : tensor<i32>
    }) : (tensor<8xi32>, tensor<1xi32>, tensor<i32>) -> tensor<8xi32>
    return %0, %7 : tensor<i32>, tensor<8xi32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<8xi32>, %arg1: tensor<i32>) -> tensor<i32> {
    %0 = stablehlo.dynamic_slice %arg0, %arg1, sizes = [1] : (tensor<8xi32>, tensor<i32>) -> tensor<1xi32>
    %1 = stablehlo.reshape %0 : (tensor<1xi32>) -> tensor<i32>
    return %1 : tensor<i32>
  }
  func.func private @closed_call_0(%arg0: tensor<i32>, %arg1: tensor<i32>) -> (tensor<i32>, tensor<i32>) {
    %0 = stablehlo.convert %arg0 : tensor<i32>
    %1 = stablehlo.add %0, %arg1 : tensor<i32>
    %2 = stablehlo.convert %arg0 : tensor<i32>
    %3 = stablehlo.multiply %2, %arg1 : tensor<i32>
    return %1, %3 : tensor<i32>, tensor<i32>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<8xi32>, %arg1: tensor<i32>, %arg2: tensor<i32>) -> tensor<8xi32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2 : (tensor<8xi32>, tensor<1xi32>, tensor<i32>) -> tensor<8xi32>
    return %1 : tensor<8xi32>
  }
}
