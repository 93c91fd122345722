// run: check native-fp8 no-f32-matmul
// expect: native-fp8 Fail: mosaic.mlir multiplies nothing: it is no kernel of a product; no-f32-matmul Fail: mosaic.mlir multiplies nothing: it is no kernel of a product
// A kernel that multiplies nothing is refuted, not waved through.
module {
  func.func @main(%arg0: memref<8x128xf32, #tpu.memory_space<vmem>>) {
    return
  }
}
