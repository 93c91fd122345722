#loc = loc(unknown)
#loc1 = loc("x")
#loc2 = loc("y")
#loc4 = loc("generate.py":189:14 to :81)
#loc5 = loc("generate.py":206:4 to :33)
#loc7 = loc("generate.py":37:67 to :80)
#loc8 = loc("reduce_window_sum")
#loc9 = loc("reduce_window_max")
#loc11 = loc("write"(#loc4))
#loc12 = loc("<module>"(#loc5))
#loc14 = loc("<lambda>"(#loc7))
#loc15 = loc("reduce_window_sum:"(#loc8))
#loc16 = loc("reduce_window_max:"(#loc9))
#loc17 = loc(callsite(#loc11 at #loc12))
#loc21 = loc(callsite(#loc14 at #loc17))
#loc25 = loc("jit(<lambda>)"(#loc21))
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<8xi32>, tensor<8x6xf32>) -> (tensor<8xi32>, tensor<8x6xf32>, tensor<8x6xf32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}, {jax.result_info = "result[2]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg11: tensor<8xi32> loc("x"), %arg12: tensor<8x6xf32> loc("y")):
    %14 = "func.call"(%arg11) <{callee = @cumsum}> : (tensor<8xi32>) -> tensor<8xi32> loc(#loc23)
    %15 = "func.call"(%arg12) <{callee = @cumsum_1}> : (tensor<8x6xf32>) -> tensor<8x6xf32> loc(#loc24)
    %16 = "func.call"(%arg12) <{callee = @cummax}> : (tensor<8x6xf32>) -> tensor<8x6xf32> loc(#loc25)
    "func.return"(%14, %15, %16) : (tensor<8xi32>, tensor<8x6xf32>, tensor<8x6xf32>) -> () loc(#loc22)
  }) : () -> () loc(#loc)
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<8xi32>) -> tensor<8xi32>, res_attrs = [{}], sym_name = "cumsum", sym_visibility = "private"}> ({
  ^bb0(%arg10: tensor<8xi32> loc(unknown)):
    %13 = "func.call"(%arg10) <{callee = @cumsum_0}> : (tensor<8xi32>) -> tensor<8xi32> loc(#loc)
    "func.return"(%13) : (tensor<8xi32>) -> () loc(#loc)
  }) : () -> () loc(#loc28)
  "func.func"() <{function_type = (tensor<8xi32>) -> tensor<8xi32>, sym_name = "cumsum_0", sym_visibility = "private"}> ({
  ^bb0(%arg7: tensor<8xi32> loc(unknown)):
    %9 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32> loc(#loc8)
    %10 = "stablehlo.broadcast_in_dim"(%9) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<i32> loc(#loc8)
    %11 = "stablehlo.reduce_window"(%arg7, %10) <{base_dilations = array<i64: 1>, padding = dense<[[7, 0]]> : tensor<1x2xi64>, window_dilations = array<i64: 1>, window_dimensions = array<i64: 8>, window_strides = array<i64: 1>}> ({
    ^bb0(%arg8: tensor<i32> loc("reduce_window_sum:"(#loc8)), %arg9: tensor<i32> loc("reduce_window_sum:"(#loc8))):
      %12 = "stablehlo.add"(%arg8, %arg9) : (tensor<i32>, tensor<i32>) -> tensor<i32> loc(#loc8)
      "stablehlo.return"(%12) : (tensor<i32>) -> () loc(#loc8)
    }) : (tensor<8xi32>, tensor<i32>) -> tensor<8xi32> loc(#loc8)
    "func.return"(%11) : (tensor<8xi32>) -> () loc(#loc)
  }) : () -> () loc(#loc)
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<8x6xf32>) -> tensor<8x6xf32>, res_attrs = [{}], sym_name = "cumsum_1", sym_visibility = "private"}> ({
  ^bb0(%arg6: tensor<8x6xf32> loc(unknown)):
    %8 = "func.call"(%arg6) <{callee = @cumsum_2}> : (tensor<8x6xf32>) -> tensor<8x6xf32> loc(#loc)
    "func.return"(%8) : (tensor<8x6xf32>) -> () loc(#loc)
  }) : () -> () loc(#loc29)
  "func.func"() <{function_type = (tensor<8x6xf32>) -> tensor<8x6xf32>, sym_name = "cumsum_2", sym_visibility = "private"}> ({
  ^bb0(%arg3: tensor<8x6xf32> loc(unknown)):
    %4 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32> loc(#loc8)
    %5 = "stablehlo.broadcast_in_dim"(%4) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<f32> loc(#loc8)
    %6 = "stablehlo.reduce_window"(%arg3, %5) <{base_dilations = array<i64: 1, 1>, padding = dense<[[0, 0], [5, 0]]> : tensor<2x2xi64>, window_dilations = array<i64: 1, 1>, window_dimensions = array<i64: 1, 6>, window_strides = array<i64: 1, 1>}> ({
    ^bb0(%arg4: tensor<f32> loc("reduce_window_sum:"(#loc8)), %arg5: tensor<f32> loc("reduce_window_sum:"(#loc8))):
      %7 = "stablehlo.add"(%arg4, %arg5) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc(#loc8)
      "stablehlo.return"(%7) : (tensor<f32>) -> () loc(#loc8)
    }) : (tensor<8x6xf32>, tensor<f32>) -> tensor<8x6xf32> loc(#loc8)
    "func.return"(%6) : (tensor<8x6xf32>) -> () loc(#loc)
  }) : () -> () loc(#loc)
  "func.func"() <{function_type = (tensor<8x6xf32>) -> tensor<8x6xf32>, sym_name = "cummax", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<8x6xf32> loc("jit(<lambda>)"(#loc21))):
    %0 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32> loc(#loc18)
    %1 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<f32> loc(#loc18)
    %2 = "stablehlo.reduce_window"(%arg0, %1) <{base_dilations = array<i64: 1, 1>, padding = dense<[[7, 0], [0, 0]]> : tensor<2x2xi64>, window_dilations = array<i64: 1, 1>, window_dimensions = array<i64: 8, 1>, window_strides = array<i64: 1, 1>}> ({
    ^bb0(%arg1: tensor<f32> loc("reduce_window_max:"(#loc9)), %arg2: tensor<f32> loc("reduce_window_max:"(#loc9))):
      %3 = "stablehlo.maximum"(%arg1, %arg2) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc(#loc18)
      "stablehlo.return"(%3) : (tensor<f32>) -> () loc(#loc18)
    }) : (tensor<8x6xf32>, tensor<f32>) -> tensor<8x6xf32> loc(#loc18)
    "func.return"(%2) : (tensor<8x6xf32>) -> () loc(#loc25)
  }) : () -> () loc(#loc25)
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> () loc(#loc)
#loc3 = loc("generate.py":37:29 to :42)
#loc6 = loc("generate.py":37:44 to :65)
#loc10 = loc("<lambda>"(#loc3))
#loc13 = loc("<lambda>"(#loc6))
#loc18 = loc("reduce_window_max"(#loc14))
#loc19 = loc(callsite(#loc10 at #loc17))
#loc20 = loc(callsite(#loc13 at #loc17))
#loc22 = loc("jit(<lambda>)"(#loc17))
#loc23 = loc("jit(<lambda>)/jit(cumsum)"(#loc19))
#loc24 = loc("jit(<lambda>)/jit(cumsum)"(#loc20))
#loc26 = loc("jit(<lambda>)/jit"(#loc19))
#loc27 = loc("jit(<lambda>)/jit"(#loc20))
#loc28 = loc("jit:"(#loc26))
#loc29 = loc("jit:"(#loc27))

