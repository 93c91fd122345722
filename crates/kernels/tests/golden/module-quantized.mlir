// strip large 100x200x300:128 x=f32 scales=token out=f16 print=stablehlo
module @octile_strip_large {
  func.func @main(%x: tensor<100x300xf32>, %w_q: tensor<200x300xf8E4M3FN>, %w_scale: tensor<2x3xf32>) -> (tensor<100x200xf16>) {
    %0 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %1 = "stablehlo.pad"(%x, %0) {edge_padding_low = array<i64: 0, 0>, edge_padding_high = array<i64: 28, 84>, interior_padding = array<i64: 0, 0>} : (tensor<100x300xf32>, tensor<f32>) -> tensor<128x384xf32>
    %2 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<f8E4M3FN>} : () -> tensor<f8E4M3FN>
    %3 = "stablehlo.pad"(%w_q, %2) {edge_padding_low = array<i64: 0, 0>, edge_padding_high = array<i64: 56, 84>, interior_padding = array<i64: 0, 0>} : (tensor<200x300xf8E4M3FN>, tensor<f8E4M3FN>) -> tensor<256x384xf8E4M3FN>
    %4 = "stablehlo.abs"(%x) : (tensor<100x300xf32>) -> tensor<100x300xf32>
    %5 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %6 = "stablehlo.pad"(%4, %5) {edge_padding_low = array<i64: 0, 0>, edge_padding_high = array<i64: 0, 84>, interior_padding = array<i64: 0, 0>} : (tensor<100x300xf32>, tensor<f32>) -> tensor<100x384xf32>
    %7 = "stablehlo.reshape"(%6) : (tensor<100x384xf32>) -> tensor<100x1x3x128xf32>
    %8 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %12 = "stablehlo.reduce"(%7, %8) ({
    ^bb0(%9: tensor<f32>, %10: tensor<f32>):
      %11 = "stablehlo.maximum"(%9, %10) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%11) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 1, 3>} : (tensor<100x1x3x128xf32>, tensor<f32>) -> tensor<100x3xf32>
    %13 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %14 = "stablehlo.pad"(%12, %13) {edge_padding_low = array<i64: 0, 0>, edge_padding_high = array<i64: 28, 0>, interior_padding = array<i64: 0, 0>} : (tensor<100x3xf32>, tensor<f32>) -> tensor<128x3xf32>
    %15 = "stablehlo.custom_call"(%1, %3, %w_scale, %14) {call_target_name = "tpu_custom_call", backend_config = "{\"custom_call_config\":{\"body\":\"...\",\"cost_estimate\":{\"bytes_accessed\":427544,\"flops\":25165824,\"transcendentals\":0},\"disable_bounds_checks\":true,\"disable_semaphore_checks\":true,\"input_memory_space_colors\":[{\"color\":0,\"operand_index\":0},{\"color\":0,\"operand_index\":1},{\"color\":0,\"operand_index\":2},{\"color\":0,\"operand_index\":3}],\"needs_layout_passes\":true,\"output_memory_space_colors\":[{\"color\":0}]},\"scoped_memory_configs\":[{\"memory_space\":1,\"offset\":0,\"size\":33554432}]}", kernel_name = "octile_strip_large", operand_layouts = [dense<[1, 0]> : tensor<2xindex>, dense<[1, 0]> : tensor<2xindex>, dense<[1, 0]> : tensor<2xindex>, dense<[1, 0]> : tensor<2xindex>], result_layouts = [dense<[1, 0]> : tensor<2xindex>]} : (tensor<128x384xf32>, tensor<256x384xf8E4M3FN>, tensor<2x3xf32>, tensor<128x3xf32>) -> tensor<128x256xf32> loc("jit(octile_strip_large)/octile_strip_large")
    %16 = "stablehlo.slice"(%15) {start_indices = array<i64: 0, 0>, limit_indices = array<i64: 100, 200>, strides = array<i64: 1, 1>} : (tensor<128x256xf32>) -> tensor<100x200xf32>
    %17 = "stablehlo.convert"(%16) : (tensor<100x200xf32>) -> tensor<100x200xf16>
    return %17 : tensor<100x200xf16>
  }
}
