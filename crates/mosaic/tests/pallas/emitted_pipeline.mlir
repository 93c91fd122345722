module {
  func.func @pipe(%arg0: memref<256x128xf32, #tpu.memory_space<any>>, %arg1: memref<256x128xf32, #tpu.memory_space<any>>) attributes {dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>} {
    %cst = arith.constant dense<1.000000e+00> : vector<64x128xf32>
    %c0 = arith.constant 0 : index
    %c64_i32 = arith.constant 64 : i32
    %c2_i32 = arith.constant 2 : i32
    %c4_i32 = arith.constant 4 : i32
    %c1_i32 = arith.constant 1 : i32
    %c3_i32 = arith.constant 3 : i32
    %c-1_i32 = arith.constant -1 : i32
    %c0_i32 = arith.constant 0 : i32
    "tpu.region"() ({
      %alloca = memref.alloca() : memref<2x64x128xf32, #tpu.memory_space<vmem>>
      %0 = tpu.sem_alloc : memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %alloca_0 = memref.alloca() : memref<2x64x128xf32, #tpu.memory_space<vmem>>
      %1 = tpu.sem_alloc : memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      "tpu.trace_start"() <{level = 10 : i32, message = "ep_initialize_0"}> : () -> ()
      %2 = tpu.memref_slice %0[%c0_i32] : memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %3 = tpu.memref_squeeze %2 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %4 = tpu.memref_slice %alloca[%c0_i32, %c0_i32, %c0_i32] : memref<2x64x128xf32, #tpu.memory_space<vmem>> -> memref<1x64x128xf32, #tpu.memory_space<vmem>>
      %5 = tpu.memref_squeeze %4 : memref<1x64x128xf32, #tpu.memory_space<vmem>> -> memref<64x128xf32, #tpu.memory_space<vmem>>
      %6 = tpu.memref_slice %arg0[%c0_i32, %c0_i32] : memref<256x128xf32, #tpu.memory_space<any>> -> memref<64x128xf32, #tpu.memory_space<any>>
      tpu.enqueue_dma source(%6 : memref<64x128xf32, #tpu.memory_space<any>>) target(%5 : memref<64x128xf32, #tpu.memory_space<vmem>>) target_semaphore(%3 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)
      "tpu.trace_stop"() : () -> ()
      %7:5 = scf.for %arg2 = %c0_i32 to %c4_i32 step %c1_i32 iter_args(%arg3 = %c1_i32, %arg4 = %c0_i32, %arg5 = %c0_i32, %arg6 = %c0_i32, %arg7 = %c0_i32) -> (i32, i32, i32, i32, i32)  : i32 {
        %18 = arith.cmpi eq, %arg2, %c0_i32 : i32
        %19 = arith.cmpi eq, %arg2, %c3_i32 : i32
        %20 = arith.subi %arg7, %c1_i32 : i32
        %21 = arith.cmpi eq, %20, %c-1_i32 : i32
        %22 = arith.select %21, %c3_i32, %20 : i32
        %23 = arith.addi %arg7, %c1_i32 : i32
        %24 = arith.cmpi eq, %23, %c4_i32 : i32
        %25 = arith.select %24, %c0_i32, %23 : i32
        %26 = arith.cmpi ne, %arg7, %25 : i32
        %27 = arith.cmpi slt, %arg2, %c3_i32 : i32
        %28 = arith.andi %26, %27 : i1
        scf.if %28 {
          "tpu.trace_start"() <{level = 10 : i32, message = "ep_copy_in"}> : () -> ()
          %57 = arith.remui %arg3, %c2_i32 : i32
          %58 = arith.muli %25, %c64_i32 : i32
          %59 = tpu.memref_slice %0[%57] : memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %60 = tpu.memref_squeeze %59 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %61 = tpu.memref_slice %alloca[%57, %c0_i32, %c0_i32] : memref<2x64x128xf32, #tpu.memory_space<vmem>> -> memref<1x64x128xf32, #tpu.memory_space<vmem>>
          %62 = tpu.memref_squeeze %61 : memref<1x64x128xf32, #tpu.memory_space<vmem>> -> memref<64x128xf32, #tpu.memory_space<vmem>>
          %63 = tpu.memref_slice %arg0[%58, %c0_i32] : memref<256x128xf32, #tpu.memory_space<any>> -> memref<64x128xf32, #tpu.memory_space<any>>
          tpu.enqueue_dma source(%63 : memref<64x128xf32, #tpu.memory_space<any>>) target(%62 : memref<64x128xf32, #tpu.memory_space<vmem>>) target_semaphore(%60 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)
          "tpu.trace_stop"() : () -> ()
        }
        %29 = arith.addi %arg3, %c1_i32 : i32
        %30 = arith.select %28, %29, %arg3 : i32
        %31 = arith.cmpi ne, %arg7, %22 : i32
        %32 = arith.ori %31, %18 : i1
        scf.if %32 {
          "tpu.trace_start"() <{level = 10 : i32, message = "ep_wait_in"}> : () -> ()
          %57 = arith.muli %arg7, %c64_i32 : i32
          %58 = arith.remui %arg4, %c2_i32 : i32
          %59 = tpu.memref_slice %0[%58] : memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %60 = tpu.memref_squeeze %59 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %61 = tpu.memref_slice %alloca[%58, %c0_i32, %c0_i32] : memref<2x64x128xf32, #tpu.memory_space<vmem>> -> memref<1x64x128xf32, #tpu.memory_space<vmem>>
          %62 = tpu.memref_squeeze %61 : memref<1x64x128xf32, #tpu.memory_space<vmem>> -> memref<64x128xf32, #tpu.memory_space<vmem>>
          %63 = tpu.memref_slice %arg0[%57, %c0_i32] : memref<256x128xf32, #tpu.memory_space<any>> -> memref<64x128xf32, #tpu.memory_space<any>>
          tpu.wait_dma2 semaphore(%60 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%63 : memref<64x128xf32, #tpu.memory_space<any>>) dst(%62 : memref<64x128xf32, #tpu.memory_space<vmem>>)
          "tpu.trace_stop"() : () -> ()
        }
        %33 = arith.remui %arg4, %c2_i32 : i32
        %34 = arith.remui %arg5, %c2_i32 : i32
        "tpu.trace_start"() <{level = 10 : i32, message = "ep_run_kernel"}> : () -> ()
        %35 = arith.index_cast %33 : i32 to index
        %36 = vector.load %alloca[%35, %c0, %c0] : memref<2x64x128xf32, #tpu.memory_space<vmem>>, vector<1x64x128xf32>
        %37 = vector.shape_cast %36 : vector<1x64x128xf32> to vector<64x128xf32>
        %38 = arith.addf %37, %cst : vector<64x128xf32>
        %39 = arith.index_cast %34 : i32 to index
        %40 = vector.shape_cast %38 : vector<64x128xf32> to vector<1x64x128xf32>
        tpu.vector_store %alloca_0[%39, %c0, %c0], %40 {strides = array<i32>} : memref<2x64x128xf32, #tpu.memory_space<vmem>>, vector<1x64x128xf32>, 
        "tpu.trace_stop"() : () -> ()
        %41 = arith.cmpi ne, %arg7, %25 : i32
        %42 = arith.ori %41, %19 : i1
        scf.if %42 {
          "tpu.trace_start"() <{level = 10 : i32, message = "ep_copy_out"}> : () -> ()
          %57 = arith.remui %arg5, %c2_i32 : i32
          %58 = arith.muli %arg7, %c64_i32 : i32
          %59 = tpu.memref_slice %1[%57] : memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %60 = tpu.memref_squeeze %59 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %61 = tpu.memref_slice %arg1[%58, %c0_i32] : memref<256x128xf32, #tpu.memory_space<any>> -> memref<64x128xf32, #tpu.memory_space<any>>
          %62 = tpu.memref_slice %alloca_0[%57, %c0_i32, %c0_i32] : memref<2x64x128xf32, #tpu.memory_space<vmem>> -> memref<1x64x128xf32, #tpu.memory_space<vmem>>
          %63 = tpu.memref_squeeze %62 : memref<1x64x128xf32, #tpu.memory_space<vmem>> -> memref<64x128xf32, #tpu.memory_space<vmem>>
          tpu.enqueue_dma source(%63 : memref<64x128xf32, #tpu.memory_space<vmem>>) target(%61 : memref<64x128xf32, #tpu.memory_space<any>>) target_semaphore(%60 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)
          "tpu.trace_stop"() : () -> ()
        }
        %43 = arith.addi %arg5, %c1_i32 : i32
        %44 = arith.select %42, %43, %arg5 : i32
        %45 = arith.cmpi ne, %arg7, %22 : i32
        %46 = arith.cmpi ne, %arg2, %c0_i32 : i32
        %47 = arith.andi %45, %46 : i1
        scf.if %47 {
          "tpu.trace_start"() <{level = 10 : i32, message = "ep_wait_out"}> : () -> ()
          %57 = arith.remui %arg6, %c2_i32 : i32
          %58 = arith.muli %22, %c64_i32 : i32
          %59 = tpu.memref_slice %1[%57] : memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %60 = tpu.memref_squeeze %59 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
          %61 = tpu.memref_slice %arg1[%58, %c0_i32] : memref<256x128xf32, #tpu.memory_space<any>> -> memref<64x128xf32, #tpu.memory_space<any>>
          %62 = tpu.memref_slice %alloca_0[%57, %c0_i32, %c0_i32] : memref<2x64x128xf32, #tpu.memory_space<vmem>> -> memref<1x64x128xf32, #tpu.memory_space<vmem>>
          %63 = tpu.memref_squeeze %62 : memref<1x64x128xf32, #tpu.memory_space<vmem>> -> memref<64x128xf32, #tpu.memory_space<vmem>>
          tpu.wait_dma2 semaphore(%60 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%63 : memref<64x128xf32, #tpu.memory_space<vmem>>) dst(%61 : memref<64x128xf32, #tpu.memory_space<any>>)
          "tpu.trace_stop"() : () -> ()
        }
        %48 = arith.addi %arg6, %c1_i32 : i32
        %49 = arith.select %47, %48, %arg6 : i32
        %50 = arith.cmpi ne, %arg7, %25 : i32
        %51 = arith.ori %50, %19 : i1
        %52 = arith.addi %arg4, %c1_i32 : i32
        %53 = arith.select %51, %52, %arg4 : i32
        %54 = arith.addi %arg7, %c1_i32 : i32
        %55 = arith.cmpi eq, %54, %c4_i32 : i32
        %56 = arith.select %55, %c0_i32, %54 : i32
        scf.yield %30, %53, %44, %49, %56 : i32, i32, i32, i32, i32
      }
      %8 = arith.subi %7#4, %c1_i32 : i32
      %9 = arith.cmpi eq, %8, %c-1_i32 : i32
      %10 = arith.select %9, %c3_i32, %8 : i32
      "tpu.trace_start"() <{level = 10 : i32, message = "ep_finalize"}> : () -> ()
      %11 = arith.remui %7#3, %c2_i32 : i32
      %12 = arith.muli %10, %c64_i32 : i32
      %13 = tpu.memref_slice %1[%11] : memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %14 = tpu.memref_squeeze %13 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %15 = tpu.memref_slice %arg1[%12, %c0_i32] : memref<256x128xf32, #tpu.memory_space<any>> -> memref<64x128xf32, #tpu.memory_space<any>>
      %16 = tpu.memref_slice %alloca_0[%11, %c0_i32, %c0_i32] : memref<2x64x128xf32, #tpu.memory_space<vmem>> -> memref<1x64x128xf32, #tpu.memory_space<vmem>>
      %17 = tpu.memref_squeeze %16 : memref<1x64x128xf32, #tpu.memory_space<vmem>> -> memref<64x128xf32, #tpu.memory_space<vmem>>
      tpu.wait_dma2 semaphore(%14 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%17 : memref<64x128xf32, #tpu.memory_space<vmem>>) dst(%15 : memref<64x128xf32, #tpu.memory_space<any>>)
      "tpu.trace_stop"() : () -> ()
      tpu.yield
    }) : () -> ()
    return
  }
}
