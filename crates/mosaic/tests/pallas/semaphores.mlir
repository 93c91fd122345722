module {
  func.func @sem(%arg0: memref<256x128xf32, #tpu.memory_space<any>>, %arg1: memref<256x128xf32, #tpu.memory_space<any>>, %arg2: memref<256x128xf32, #tpu.memory_space<vmem>>, %arg3: memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, %arg4: memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>) attributes {dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 3 : i64, tpu.core_type = #tpu.core_type<tc>} {
    %cst = arith.constant dense<2.000000e+00> : vector<256x128xf32>
    %c0 = arith.constant 0 : index
    %c2_i32 = arith.constant 2 : i32
    tpu.enqueue_dma source(%arg0 : memref<256x128xf32, #tpu.memory_space<any>>) target(%arg2 : memref<256x128xf32, #tpu.memory_space<vmem>>) target_semaphore(%arg3 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)
    tpu.sem_signal %arg4, %c2_i32 : memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>
    tpu.wait_dma2 semaphore(%arg3 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%arg0 : memref<256x128xf32, #tpu.memory_space<any>>) dst(%arg2 : memref<256x128xf32, #tpu.memory_space<vmem>>)
    tpu.sem_wait %arg4, %c2_i32 : memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>
    "tpu.region"() ({
      %alloca = memref.alloca() : memref<256x128xf32, #tpu.memory_space<vmem>>
      %0 = vector.load %arg2[%c0, %c0] : memref<256x128xf32, #tpu.memory_space<vmem>>, vector<256x128xf32>
      %1 = arith.mulf %0, %cst : vector<256x128xf32>
      tpu.vector_store %alloca[%c0, %c0], %1 {strides = array<i32>} : memref<256x128xf32, #tpu.memory_space<vmem>>, vector<256x128xf32>, 
      "tpu.region"() ({
        %2 = tpu.sem_alloc : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        tpu.enqueue_dma source(%alloca : memref<256x128xf32, #tpu.memory_space<vmem>>) target(%arg1 : memref<256x128xf32, #tpu.memory_space<any>>) target_semaphore(%2 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)
        tpu.wait_dma2 semaphore(%2 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%alloca : memref<256x128xf32, #tpu.memory_space<vmem>>) dst(%arg1 : memref<256x128xf32, #tpu.memory_space<any>>)
        tpu.yield
      }) : () -> ()
      tpu.yield
    }) : () -> ()
    return
  }
}
