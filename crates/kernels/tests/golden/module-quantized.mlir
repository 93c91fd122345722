// strip large 100x200x300:128 x=f32 scales=token out=f16 print=stablehlo
module @octile_strip_large {
  func.func @main(%x: tensor<100x300xf32>, %w_q: tensor<200x300xf8E4M3FN>, %w_scale: tensor<2x3xf32>) -> (tensor<100x200xf16>) {
    %0 = "stablehlo.abs"(%x) : (tensor<100x300xf32>) -> tensor<100x300xf32>
    %1 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %2 = "stablehlo.pad"(%0, %1) {edge_padding_low = array<i64: 0, 0>, edge_padding_high = array<i64: 0, 84>, interior_padding = array<i64: 0, 0>} : (tensor<100x300xf32>, tensor<f32>) -> tensor<100x384xf32>
    %3 = "stablehlo.reshape"(%2) : (tensor<100x384xf32>) -> tensor<100x1x3x128xf32>
    %4 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %8 = "stablehlo.reduce"(%3, %4) ({
    ^bb0(%5: tensor<f32>, %6: tensor<f32>):
      %7 = "stablehlo.maximum"(%5, %6) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%7) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 1, 3>} : (tensor<100x1x3x128xf32>, tensor<f32>) -> tensor<100x3xf32>
    %9 = "stablehlo.custom_call"(%x, %w_q, %w_scale, %8) {call_target_name = "tpu_custom_call", backend_config = "{\"custom_call_config\":{\"body\":\"...\",\"cost_estimate\":{\"bytes_accessed\":427208,\"flops\":25165824,\"transcendentals\":0},\"disable_bounds_checks\":true,\"disable_semaphore_checks\":true,\"input_memory_space_colors\":[{\"color\":0,\"operand_index\":0},{\"color\":0,\"operand_index\":1},{\"color\":0,\"operand_index\":2},{\"color\":0,\"operand_index\":3}],\"needs_layout_passes\":true,\"output_memory_space_colors\":[{\"color\":0}]},\"scoped_memory_configs\":[{\"memory_space\":1,\"offset\":0,\"size\":33554432}]}", kernel_name = "octile_strip_large", operand_layouts = [dense<[1, 0]> : tensor<2xindex>, dense<[1, 0]> : tensor<2xindex>, dense<[1, 0]> : tensor<2xindex>, dense<[1, 0]> : tensor<2xindex>], result_layouts = [dense<[1, 0]> : tensor<2xindex>]} : (tensor<100x300xf32>, tensor<200x300xf8E4M3FN>, tensor<2x3xf32>, tensor<100x3xf32>) -> tensor<100x200xf32> loc("jit(octile_strip_large)/octile_strip_large")
    %10 = "stablehlo.convert"(%9) : (tensor<100x200xf32>) -> tensor<100x200xf16>
    return %10 : tensor<100x200xf16>
  }
}
