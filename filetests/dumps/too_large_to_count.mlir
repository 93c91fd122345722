// run: check fits-on-chip
// expect: fits-on-chip Pass: 4096 of 33554432 bytes of VMEM in the buffers that the kernel declares
// More bytes than can be counted do not fit.
module {
  func.func @main(%arg0: memref<8x128xf32, #tpu.memory_space<vmem>>) attributes {scratch_operands = 1 : i64, window_params = []} {
    // instead   func.func @main(%arg0: memref<4294967296x4294967296x128xf32, #tpu.memory_space<vmem>>) attributes {scratch_operands = 1 : i64, window_params = []} { => fits-on-chip Fail: more than 2^64 bytes of VMEM in the buffers that the kernel declares, where 33554432 are allowed
    // instead   func.func @main(%arg0: memref<65536x128xf32, #tpu.memory_space<vmem>>) attributes {scratch_operands = 1 : i64, window_params = []} { => fits-on-chip Pass: 33554432 of 33554432 bytes of VMEM in the buffers that the kernel declares
    return
  }
}
