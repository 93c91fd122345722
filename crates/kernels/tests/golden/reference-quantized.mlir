// auto aligned 100x200x300:128 x=bf16 scales=block out=f32 print=reference
module @octile_reference {
  func.func @main(%x: tensor<100x300xbf16>, %w_q: tensor<200x300xf8E4M3FN>, %w_scale: tensor<2x3xf32>) -> (tensor<100x200xf32>) {
    %0 = "stablehlo.abs"(%x) : (tensor<100x300xbf16>) -> tensor<100x300xbf16>
    %1 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<bf16>} : () -> tensor<bf16>
    %2 = "stablehlo.pad"(%0, %1) {edge_padding_low = array<i64: 0, 0>, edge_padding_high = array<i64: 28, 84>, interior_padding = array<i64: 0, 0>} : (tensor<100x300xbf16>, tensor<bf16>) -> tensor<128x384xbf16>
    %3 = "stablehlo.reshape"(%2) : (tensor<128x384xbf16>) -> tensor<1x128x3x128xbf16>
    %4 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<bf16>} : () -> tensor<bf16>
    %8 = "stablehlo.reduce"(%3, %4) ({
    ^bb0(%5: tensor<bf16>, %6: tensor<bf16>):
      %7 = "stablehlo.maximum"(%5, %6) : (tensor<bf16>, tensor<bf16>) -> tensor<bf16>
      "stablehlo.return"(%7) : (tensor<bf16>) -> ()
    }) {dimensions = array<i64: 1, 3>} : (tensor<1x128x3x128xbf16>, tensor<bf16>) -> tensor<1x3xbf16>
    %9 = "stablehlo.convert"(%8) : (tensor<1x3xbf16>) -> tensor<1x3xf32>
    %10 = "stablehlo.constant"() {value = dense<4.480000e+02> : tensor<f32>} : () -> tensor<f32>
    %11 = "stablehlo.broadcast_in_dim"(%10) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<1x3xf32>
    %12 = "stablehlo.constant"() {value = dense<1.1754943508222875e-38> : tensor<f32>} : () -> tensor<f32>
    %13 = "stablehlo.broadcast_in_dim"(%12) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<1x3xf32>
    %14 = "stablehlo.divide"(%9, %11) : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<1x3xf32>
    %15 = "stablehlo.maximum"(%14, %13) : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<1x3xf32>
    %16 = "stablehlo.constant"() {value = dense<1.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %17 = "stablehlo.broadcast_in_dim"(%16) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<1x3xf32>
    %18 = "stablehlo.divide"(%17, %15) : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<1x3xf32>
    %19 = "stablehlo.broadcast_in_dim"(%18) {broadcast_dimensions = array<i64: 0, 2>} : (tensor<1x3xf32>) -> tensor<1x128x3x128xf32>
    %20 = "stablehlo.reshape"(%19) : (tensor<1x128x3x128xf32>) -> tensor<128x384xf32>
    %21 = "stablehlo.slice"(%20) {start_indices = array<i64: 0, 0>, limit_indices = array<i64: 100, 300>, strides = array<i64: 1, 1>} : (tensor<128x384xf32>) -> tensor<100x300xf32>
    %22 = "stablehlo.convert"(%x) : (tensor<100x300xbf16>) -> tensor<100x300xf32>
    %23 = "stablehlo.multiply"(%22, %21) : (tensor<100x300xf32>, tensor<100x300xf32>) -> tensor<100x300xf32>
    %24 = "stablehlo.convert"(%23) : (tensor<100x300xf32>) -> tensor<100x300xf8E4M3FN>
    %25 = "stablehlo.convert"(%24) : (tensor<100x300xf8E4M3FN>) -> tensor<100x300xf32>
    %26 = "stablehlo.broadcast_in_dim"(%15) {broadcast_dimensions = array<i64: 0, 2>} : (tensor<1x3xf32>) -> tensor<1x128x3x128xf32>
    %27 = "stablehlo.reshape"(%26) : (tensor<1x128x3x128xf32>) -> tensor<128x384xf32>
    %28 = "stablehlo.slice"(%27) {start_indices = array<i64: 0, 0>, limit_indices = array<i64: 100, 300>, strides = array<i64: 1, 1>} : (tensor<128x384xf32>) -> tensor<100x300xf32>
    %29 = "stablehlo.multiply"(%25, %28) : (tensor<100x300xf32>, tensor<100x300xf32>) -> tensor<100x300xf32>
    %30 = "stablehlo.convert"(%w_q) : (tensor<200x300xf8E4M3FN>) -> tensor<200x300xf32>
    %31 = "stablehlo.broadcast_in_dim"(%w_scale) {broadcast_dimensions = array<i64: 0, 2>} : (tensor<2x3xf32>) -> tensor<2x128x3x128xf32>
    %32 = "stablehlo.reshape"(%31) : (tensor<2x128x3x128xf32>) -> tensor<256x384xf32>
    %33 = "stablehlo.slice"(%32) {start_indices = array<i64: 0, 0>, limit_indices = array<i64: 200, 300>, strides = array<i64: 1, 1>} : (tensor<256x384xf32>) -> tensor<200x300xf32>
    %34 = "stablehlo.multiply"(%30, %33) : (tensor<200x300xf32>, tensor<200x300xf32>) -> tensor<200x300xf32>
    %35 = "stablehlo.dot_general"(%29, %34) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<100x300xf32>, tensor<200x300xf32>) -> tensor<100x200xf32>
    return %35 : tensor<100x200xf32>
  }
}
