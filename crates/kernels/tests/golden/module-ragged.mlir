// dma large 100x200x300:128 x=fp8 scales=block out=f32 print=stablehlo
module @octile_dma_large {
  func.func @main(%x: tensor<100x300xf8E4M3FN>, %w_q: tensor<200x300xf8E4M3FN>, %w_scale: tensor<2x3xf32>, %x_scale: tensor<1x3xf32>) -> (tensor<100x200xf32>) {
    %0 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<f8E4M3FN>} : () -> tensor<f8E4M3FN>
    %1 = "stablehlo.pad"(%x, %0) {edge_padding_low = array<i64: 0, 0>, edge_padding_high = array<i64: 28, 84>, interior_padding = array<i64: 0, 0>} : (tensor<100x300xf8E4M3FN>, tensor<f8E4M3FN>) -> tensor<128x384xf8E4M3FN>
    %2 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<f8E4M3FN>} : () -> tensor<f8E4M3FN>
    %3 = "stablehlo.pad"(%w_q, %2) {edge_padding_low = array<i64: 0, 0>, edge_padding_high = array<i64: 56, 84>, interior_padding = array<i64: 0, 0>} : (tensor<200x300xf8E4M3FN>, tensor<f8E4M3FN>) -> tensor<256x384xf8E4M3FN>
    %4 = "stablehlo.reshape"(%w_scale) : (tensor<2x3xf32>) -> tensor<1x2x1x3xf32>
    %5 = "stablehlo.transpose"(%4) {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x2x1x3xf32>) -> tensor<1x1x2x3xf32>
    %6 = "stablehlo.reshape"(%x_scale) : (tensor<1x3xf32>) -> tensor<1x1x1x3xf32>
    %7 = "stablehlo.transpose"(%6) {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x1x1x3xf32>) -> tensor<1x1x1x3xf32>
    %8 = "stablehlo.custom_call"(%1, %3, %5, %7) {call_target_name = "tpu_custom_call", backend_config = "{\"custom_call_config\":{\"body\":\"...\",\"cost_estimate\":{\"bytes_accessed\":278564,\"flops\":25165824,\"transcendentals\":0},\"disable_bounds_checks\":true,\"disable_semaphore_checks\":false,\"input_memory_space_colors\":[{\"color\":0,\"operand_index\":0},{\"color\":0,\"operand_index\":1},{\"color\":0,\"operand_index\":2},{\"color\":0,\"operand_index\":3}],\"needs_layout_passes\":true,\"output_memory_space_colors\":[{\"color\":0}]},\"scoped_memory_configs\":[{\"memory_space\":1,\"offset\":0,\"size\":33554432}]}", kernel_name = "octile_dma_large", operand_layouts = [dense<[1, 0]> : tensor<2xindex>, dense<[1, 0]> : tensor<2xindex>, dense<[3, 2, 1, 0]> : tensor<4xindex>, dense<[3, 2, 1, 0]> : tensor<4xindex>], result_layouts = [dense<[1, 0]> : tensor<2xindex>]} : (tensor<128x384xf8E4M3FN>, tensor<256x384xf8E4M3FN>, tensor<1x1x2x3xf32>, tensor<1x1x1x3xf32>) -> tensor<128x256xf32> loc("jit(octile_dma_large)/octile_dma_large")
    %9 = "stablehlo.slice"(%8) {start_indices = array<i64: 0, 0>, limit_indices = array<i64: 100, 200>, strides = array<i64: 1, 1>} : (tensor<128x256xf32>) -> tensor<100x200xf32>
    return %9 : tensor<100x200xf32>
  }
}
