module {
  func.func @double_buffer(%arg0: memref<32x128xf32, #tpu.memory_space<any>>, %arg1: memref<32x128xf32, #tpu.memory_space<any>>, %arg2: memref<2x8x128xf32, #tpu.memory_space<vmem>>, %arg3: memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, %arg4: memref<8x128xf32, #tpu.memory_space<vmem>>, %arg5: memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) attributes {dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 4 : i64, tpu.core_type = #tpu.core_type<tc>} {
    %cst = arith.constant dense<1.000000e+00> : vector<8x128xf32>
    %cst_0 = arith.constant dense<3.000000e+00> : vector<8x128xf32>
    %c0 = arith.constant 0 : index
    %c8_i32 = arith.constant 8 : i32
    %c2_i32 = arith.constant 2 : i32
    %c1_i32 = arith.constant 1 : i32
    %c4_i32 = arith.constant 4 : i32
    %c0_i32 = arith.constant 0 : i32
    %0 = tpu.memref_slice %arg3[%c0_i32] : memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    %1 = tpu.memref_squeeze %0 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    %2 = tpu.memref_slice %arg2[%c0_i32, %c0_i32, %c0_i32] : memref<2x8x128xf32, #tpu.memory_space<vmem>> -> memref<1x8x128xf32, #tpu.memory_space<vmem>>
    %3 = tpu.memref_squeeze %2 : memref<1x8x128xf32, #tpu.memory_space<vmem>> -> memref<8x128xf32, #tpu.memory_space<vmem>>
    %4 = tpu.memref_slice %arg0[%c0_i32, %c0_i32] : memref<32x128xf32, #tpu.memory_space<any>> -> memref<8x128xf32, #tpu.memory_space<any>>
    tpu.enqueue_dma source(%4 : memref<8x128xf32, #tpu.memory_space<any>>) target(%3 : memref<8x128xf32, #tpu.memory_space<vmem>>) target_semaphore(%1 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)
    scf.for %arg6 = %c0_i32 to %c4_i32 step %c1_i32  : i32 {
      %5 = arith.remsi %arg6, %c2_i32 : i32
      %6 = arith.addi %arg6, %c1_i32 : i32
      %7 = arith.cmpi slt, %6, %c4_i32 : i32
      scf.if %7 {
        %22 = arith.addi %arg6, %c1_i32 : i32
        %23 = arith.subi %c1_i32, %5 : i32
        %24 = arith.muli %22, %c8_i32 : i32
        %25 = tpu.memref_slice %arg3[%23] : memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        %26 = tpu.memref_squeeze %25 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        %27 = tpu.memref_slice %arg2[%23, %c0_i32, %c0_i32] : memref<2x8x128xf32, #tpu.memory_space<vmem>> -> memref<1x8x128xf32, #tpu.memory_space<vmem>>
        %28 = tpu.memref_squeeze %27 : memref<1x8x128xf32, #tpu.memory_space<vmem>> -> memref<8x128xf32, #tpu.memory_space<vmem>>
        %29 = tpu.memref_slice %arg0[%24, %c0_i32] : memref<32x128xf32, #tpu.memory_space<any>> -> memref<8x128xf32, #tpu.memory_space<any>>
        tpu.enqueue_dma source(%29 : memref<8x128xf32, #tpu.memory_space<any>>) target(%28 : memref<8x128xf32, #tpu.memory_space<vmem>>) target_semaphore(%26 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)
      }
      %8 = arith.index_cast %5 : i32 to index
      %9 = vector.load %arg2[%8, %c0, %c0] : memref<2x8x128xf32, #tpu.memory_space<vmem>>, vector<1x8x128xf32>
      %10 = vector.shape_cast %9 : vector<1x8x128xf32> to vector<8x128xf32>
      %11 = arith.mulf %10, %cst_0 : vector<8x128xf32>
      %12 = arith.addf %11, %cst : vector<8x128xf32>
      tpu.vector_store %arg4[%c0, %c0], %12 {strides = array<i32>} : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>, 
      %13 = arith.muli %arg6, %c8_i32 : i32
      %14 = tpu.memref_slice %arg3[%5] : memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %15 = tpu.memref_squeeze %14 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %16 = tpu.memref_slice %arg2[%5, %c0_i32, %c0_i32] : memref<2x8x128xf32, #tpu.memory_space<vmem>> -> memref<1x8x128xf32, #tpu.memory_space<vmem>>
      %17 = tpu.memref_squeeze %16 : memref<1x8x128xf32, #tpu.memory_space<vmem>> -> memref<8x128xf32, #tpu.memory_space<vmem>>
      %18 = tpu.memref_slice %arg0[%13, %c0_i32] : memref<32x128xf32, #tpu.memory_space<any>> -> memref<8x128xf32, #tpu.memory_space<any>>
      tpu.wait_dma2 semaphore(%15 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%18 : memref<8x128xf32, #tpu.memory_space<any>>) dst(%17 : memref<8x128xf32, #tpu.memory_space<vmem>>)
      %19 = arith.muli %arg6, %c8_i32 : i32
      %20 = tpu.memref_slice %arg1[%19, %c0_i32] : memref<32x128xf32, #tpu.memory_space<any>> -> memref<8x128xf32, #tpu.memory_space<any>>
      tpu.enqueue_dma source(%arg4 : memref<8x128xf32, #tpu.memory_space<vmem>>) target(%20 : memref<8x128xf32, #tpu.memory_space<any>>) target_semaphore(%arg5 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)
      %21 = tpu.memref_slice %arg1[%19, %c0_i32] : memref<32x128xf32, #tpu.memory_space<any>> -> memref<8x128xf32, #tpu.memory_space<any>>
      tpu.wait_dma2 semaphore(%arg5 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%arg4 : memref<8x128xf32, #tpu.memory_space<vmem>>) dst(%21 : memref<8x128xf32, #tpu.memory_space<any>>)
    }
    return
  }
}
