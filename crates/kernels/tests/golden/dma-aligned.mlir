// dma aligned 256x256x384:128 x=fp8 scales=block out=f32 print=mosaic
module attributes {stable_mosaic.version = 15 : i64} {
  func.func @octile_dma_aligned(%m: i32, %n: i32, %k: i32, %x: memref<256x384xf8E4M3FN, #tpu.memory_space<hbm>>, %w_q: memref<256x384xf8E4M3FN, #tpu.memory_space<hbm>>, %w_scale: memref<2x3x1x1xf32, #tpu.memory_space<hbm>>, %x_scale: memref<2x3x1x1xf32, #tpu.memory_space<hbm>>, %out: memref<256x256xf32, #tpu.memory_space<hbm>>, %x_x2: memref<2x128x128xf8E4M3FN, #tpu.memory_space<vmem>>, %w_q_x2: memref<2x128x128xf8E4M3FN, #tpu.memory_space<vmem>>, %w_scale_x2: memref<2x1x1xf32, #tpu.memory_space<vmem>>, %x_scale_x2: memref<2x1x1xf32, #tpu.memory_space<vmem>>, %out_x2: memref<2x128x128xf32, #tpu.memory_space<vmem>>, %semaphores: memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, %acc: memref<128x128xf32, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [#tpu.dimension_semantics<arbitrary>, #tpu.dimension_semantics<arbitrary>, #tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 2, 2, 3>, scalar_prefetch = 0 : i64, scratch_operands = 7 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{}, {}, {}, {}, {}]} {
    %c2_i32 = arith.constant 2 : i32
    %c3_i32 = arith.constant 3 : i32
    %c1_i32 = arith.constant 1 : i32
    %c0_i32 = arith.constant 0 : i32
    %c128_i32 = arith.constant 128 : i32
    %c12_i32 = arith.constant 12 : i32
    %cst = arith.constant dense<0.000000e+00> : vector<128x128xf32>
    %c0 = arith.constant 0 : index
    %c4_i32 = arith.constant 4 : i32
    %0 = arith.muli %m, %c2_i32 : i32
    %tile = arith.addi %0, %n : i32
    %1 = arith.muli %tile, %c3_i32 : i32
    %step = arith.addi %1, %k : i32
    %slot = arith.remsi %step, %c2_i32 : i32
    %2 = arith.cmpi eq, %step, %c0_i32 : i32
    scf.if %2 {
      %3 = arith.muli %m, %c128_i32 : i32
      %4 = arith.muli %k, %c128_i32 : i32
      %5 = tpu.memref_slice %x[%3, %4] : memref<256x384xf8E4M3FN, #tpu.memory_space<hbm>> -> memref<128x128xf8E4M3FN, #tpu.memory_space<hbm>>
      %6 = tpu.memref_slice %x_x2[%slot, %c0_i32, %c0_i32] : memref<2x128x128xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<1x128x128xf8E4M3FN, #tpu.memory_space<vmem>>
      %7 = tpu.memref_squeeze %6 : memref<1x128x128xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<128x128xf8E4M3FN, #tpu.memory_space<vmem>>
      %8 = tpu.memref_slice %semaphores[%slot, %c0_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %9 = tpu.memref_squeeze %8 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%5 : memref<128x128xf8E4M3FN, #tpu.memory_space<hbm>>) target(%7 : memref<128x128xf8E4M3FN, #tpu.memory_space<vmem>>) target_semaphore(%9 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start x")
      %10 = arith.muli %n, %c128_i32 : i32
      %11 = arith.muli %k, %c128_i32 : i32
      %12 = tpu.memref_slice %w_q[%10, %11] : memref<256x384xf8E4M3FN, #tpu.memory_space<hbm>> -> memref<128x128xf8E4M3FN, #tpu.memory_space<hbm>>
      %13 = tpu.memref_slice %w_q_x2[%slot, %c0_i32, %c0_i32] : memref<2x128x128xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<1x128x128xf8E4M3FN, #tpu.memory_space<vmem>>
      %14 = tpu.memref_squeeze %13 : memref<1x128x128xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<128x128xf8E4M3FN, #tpu.memory_space<vmem>>
      %15 = tpu.memref_slice %semaphores[%slot, %c1_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %16 = tpu.memref_squeeze %15 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%12 : memref<128x128xf8E4M3FN, #tpu.memory_space<hbm>>) target(%14 : memref<128x128xf8E4M3FN, #tpu.memory_space<vmem>>) target_semaphore(%16 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start w_q")
      %17 = tpu.memref_slice %w_scale[%n, %k, %c0_i32, %c0_i32] : memref<2x3x1x1xf32, #tpu.memory_space<hbm>> -> memref<1x1x1x1xf32, #tpu.memory_space<hbm>>
      %18 = tpu.memref_squeeze %17 : memref<1x1x1x1xf32, #tpu.memory_space<hbm>> -> memref<1x1xf32, #tpu.memory_space<hbm>>
      %19 = tpu.memref_slice %w_scale_x2[%slot, %c0_i32, %c0_i32] : memref<2x1x1xf32, #tpu.memory_space<vmem>> -> memref<1x1x1xf32, #tpu.memory_space<vmem>>
      %20 = tpu.memref_squeeze %19 : memref<1x1x1xf32, #tpu.memory_space<vmem>> -> memref<1x1xf32, #tpu.memory_space<vmem>>
      %21 = tpu.memref_slice %semaphores[%slot, %c2_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %22 = tpu.memref_squeeze %21 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%18 : memref<1x1xf32, #tpu.memory_space<hbm>>) target(%20 : memref<1x1xf32, #tpu.memory_space<vmem>>) target_semaphore(%22 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start w_scale")
      %23 = tpu.memref_slice %x_scale[%m, %k, %c0_i32, %c0_i32] : memref<2x3x1x1xf32, #tpu.memory_space<hbm>> -> memref<1x1x1x1xf32, #tpu.memory_space<hbm>>
      %24 = tpu.memref_squeeze %23 : memref<1x1x1x1xf32, #tpu.memory_space<hbm>> -> memref<1x1xf32, #tpu.memory_space<hbm>>
      %25 = tpu.memref_slice %x_scale_x2[%slot, %c0_i32, %c0_i32] : memref<2x1x1xf32, #tpu.memory_space<vmem>> -> memref<1x1x1xf32, #tpu.memory_space<vmem>>
      %26 = tpu.memref_squeeze %25 : memref<1x1x1xf32, #tpu.memory_space<vmem>> -> memref<1x1xf32, #tpu.memory_space<vmem>>
      %27 = tpu.memref_slice %semaphores[%slot, %c3_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %28 = tpu.memref_squeeze %27 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%24 : memref<1x1xf32, #tpu.memory_space<hbm>>) target(%26 : memref<1x1xf32, #tpu.memory_space<vmem>>) target_semaphore(%28 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start x_scale")
    }
    %next_slot = arith.subi %c1_i32, %slot : i32
    %29 = arith.addi %k, %c1_i32 : i32
    %30 = arith.cmpi eq, %29, %c3_i32 : i32
    %31 = arith.select %30, %c0_i32, %29 : i32
    %32 = arith.addi %n, %c1_i32 : i32
    %33 = arith.select %30, %32, %n : i32
    %34 = arith.cmpi eq, %33, %c2_i32 : i32
    %35 = arith.select %34, %c0_i32, %33 : i32
    %36 = arith.addi %m, %c1_i32 : i32
    %37 = arith.select %34, %36, %m : i32
    %38 = arith.addi %step, %c1_i32 : i32
    %39 = arith.cmpi slt, %38, %c12_i32 : i32
    scf.if %39 {
      %40 = arith.muli %37, %c128_i32 : i32
      %41 = arith.muli %31, %c128_i32 : i32
      %42 = tpu.memref_slice %x[%40, %41] : memref<256x384xf8E4M3FN, #tpu.memory_space<hbm>> -> memref<128x128xf8E4M3FN, #tpu.memory_space<hbm>>
      %43 = tpu.memref_slice %x_x2[%next_slot, %c0_i32, %c0_i32] : memref<2x128x128xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<1x128x128xf8E4M3FN, #tpu.memory_space<vmem>>
      %44 = tpu.memref_squeeze %43 : memref<1x128x128xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<128x128xf8E4M3FN, #tpu.memory_space<vmem>>
      %45 = tpu.memref_slice %semaphores[%next_slot, %c0_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %46 = tpu.memref_squeeze %45 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%42 : memref<128x128xf8E4M3FN, #tpu.memory_space<hbm>>) target(%44 : memref<128x128xf8E4M3FN, #tpu.memory_space<vmem>>) target_semaphore(%46 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start x")
      %47 = arith.muli %35, %c128_i32 : i32
      %48 = arith.muli %31, %c128_i32 : i32
      %49 = tpu.memref_slice %w_q[%47, %48] : memref<256x384xf8E4M3FN, #tpu.memory_space<hbm>> -> memref<128x128xf8E4M3FN, #tpu.memory_space<hbm>>
      %50 = tpu.memref_slice %w_q_x2[%next_slot, %c0_i32, %c0_i32] : memref<2x128x128xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<1x128x128xf8E4M3FN, #tpu.memory_space<vmem>>
      %51 = tpu.memref_squeeze %50 : memref<1x128x128xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<128x128xf8E4M3FN, #tpu.memory_space<vmem>>
      %52 = tpu.memref_slice %semaphores[%next_slot, %c1_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %53 = tpu.memref_squeeze %52 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%49 : memref<128x128xf8E4M3FN, #tpu.memory_space<hbm>>) target(%51 : memref<128x128xf8E4M3FN, #tpu.memory_space<vmem>>) target_semaphore(%53 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start w_q")
      %54 = tpu.memref_slice %w_scale[%35, %31, %c0_i32, %c0_i32] : memref<2x3x1x1xf32, #tpu.memory_space<hbm>> -> memref<1x1x1x1xf32, #tpu.memory_space<hbm>>
      %55 = tpu.memref_squeeze %54 : memref<1x1x1x1xf32, #tpu.memory_space<hbm>> -> memref<1x1xf32, #tpu.memory_space<hbm>>
      %56 = tpu.memref_slice %w_scale_x2[%next_slot, %c0_i32, %c0_i32] : memref<2x1x1xf32, #tpu.memory_space<vmem>> -> memref<1x1x1xf32, #tpu.memory_space<vmem>>
      %57 = tpu.memref_squeeze %56 : memref<1x1x1xf32, #tpu.memory_space<vmem>> -> memref<1x1xf32, #tpu.memory_space<vmem>>
      %58 = tpu.memref_slice %semaphores[%next_slot, %c2_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %59 = tpu.memref_squeeze %58 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%55 : memref<1x1xf32, #tpu.memory_space<hbm>>) target(%57 : memref<1x1xf32, #tpu.memory_space<vmem>>) target_semaphore(%59 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start w_scale")
      %60 = tpu.memref_slice %x_scale[%37, %31, %c0_i32, %c0_i32] : memref<2x3x1x1xf32, #tpu.memory_space<hbm>> -> memref<1x1x1x1xf32, #tpu.memory_space<hbm>>
      %61 = tpu.memref_squeeze %60 : memref<1x1x1x1xf32, #tpu.memory_space<hbm>> -> memref<1x1xf32, #tpu.memory_space<hbm>>
      %62 = tpu.memref_slice %x_scale_x2[%next_slot, %c0_i32, %c0_i32] : memref<2x1x1xf32, #tpu.memory_space<vmem>> -> memref<1x1x1xf32, #tpu.memory_space<vmem>>
      %63 = tpu.memref_squeeze %62 : memref<1x1x1xf32, #tpu.memory_space<vmem>> -> memref<1x1xf32, #tpu.memory_space<vmem>>
      %64 = tpu.memref_slice %semaphores[%next_slot, %c3_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %65 = tpu.memref_squeeze %64 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%61 : memref<1x1xf32, #tpu.memory_space<hbm>>) target(%63 : memref<1x1xf32, #tpu.memory_space<vmem>>) target_semaphore(%65 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start x_scale")
    }
    %66 = arith.muli %m, %c128_i32 : i32
    %67 = arith.muli %k, %c128_i32 : i32
    %68 = tpu.memref_slice %x[%66, %67] : memref<256x384xf8E4M3FN, #tpu.memory_space<hbm>> -> memref<128x128xf8E4M3FN, #tpu.memory_space<hbm>>
    %69 = tpu.memref_slice %x_x2[%slot, %c0_i32, %c0_i32] : memref<2x128x128xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<1x128x128xf8E4M3FN, #tpu.memory_space<vmem>>
    %70 = tpu.memref_squeeze %69 : memref<1x128x128xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<128x128xf8E4M3FN, #tpu.memory_space<vmem>>
    %71 = tpu.memref_slice %semaphores[%slot, %c0_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    %72 = tpu.memref_squeeze %71 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    tpu.wait_dma2 semaphore(%72 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%68 : memref<128x128xf8E4M3FN, #tpu.memory_space<hbm>>) dst(%70 : memref<128x128xf8E4M3FN, #tpu.memory_space<vmem>>) loc("wait x")
    %73 = arith.muli %n, %c128_i32 : i32
    %74 = arith.muli %k, %c128_i32 : i32
    %75 = tpu.memref_slice %w_q[%73, %74] : memref<256x384xf8E4M3FN, #tpu.memory_space<hbm>> -> memref<128x128xf8E4M3FN, #tpu.memory_space<hbm>>
    %76 = tpu.memref_slice %w_q_x2[%slot, %c0_i32, %c0_i32] : memref<2x128x128xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<1x128x128xf8E4M3FN, #tpu.memory_space<vmem>>
    %77 = tpu.memref_squeeze %76 : memref<1x128x128xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<128x128xf8E4M3FN, #tpu.memory_space<vmem>>
    %78 = tpu.memref_slice %semaphores[%slot, %c1_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    %79 = tpu.memref_squeeze %78 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    tpu.wait_dma2 semaphore(%79 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%75 : memref<128x128xf8E4M3FN, #tpu.memory_space<hbm>>) dst(%77 : memref<128x128xf8E4M3FN, #tpu.memory_space<vmem>>) loc("wait w_q")
    %80 = tpu.memref_slice %w_scale[%n, %k, %c0_i32, %c0_i32] : memref<2x3x1x1xf32, #tpu.memory_space<hbm>> -> memref<1x1x1x1xf32, #tpu.memory_space<hbm>>
    %81 = tpu.memref_squeeze %80 : memref<1x1x1x1xf32, #tpu.memory_space<hbm>> -> memref<1x1xf32, #tpu.memory_space<hbm>>
    %82 = tpu.memref_slice %w_scale_x2[%slot, %c0_i32, %c0_i32] : memref<2x1x1xf32, #tpu.memory_space<vmem>> -> memref<1x1x1xf32, #tpu.memory_space<vmem>>
    %83 = tpu.memref_squeeze %82 : memref<1x1x1xf32, #tpu.memory_space<vmem>> -> memref<1x1xf32, #tpu.memory_space<vmem>>
    %84 = tpu.memref_slice %semaphores[%slot, %c2_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    %85 = tpu.memref_squeeze %84 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    tpu.wait_dma2 semaphore(%85 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%81 : memref<1x1xf32, #tpu.memory_space<hbm>>) dst(%83 : memref<1x1xf32, #tpu.memory_space<vmem>>) loc("wait w_scale")
    %86 = tpu.memref_slice %x_scale[%m, %k, %c0_i32, %c0_i32] : memref<2x3x1x1xf32, #tpu.memory_space<hbm>> -> memref<1x1x1x1xf32, #tpu.memory_space<hbm>>
    %87 = tpu.memref_squeeze %86 : memref<1x1x1x1xf32, #tpu.memory_space<hbm>> -> memref<1x1xf32, #tpu.memory_space<hbm>>
    %88 = tpu.memref_slice %x_scale_x2[%slot, %c0_i32, %c0_i32] : memref<2x1x1xf32, #tpu.memory_space<vmem>> -> memref<1x1x1xf32, #tpu.memory_space<vmem>>
    %89 = tpu.memref_squeeze %88 : memref<1x1x1xf32, #tpu.memory_space<vmem>> -> memref<1x1xf32, #tpu.memory_space<vmem>>
    %90 = tpu.memref_slice %semaphores[%slot, %c3_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    %91 = tpu.memref_squeeze %90 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    tpu.wait_dma2 semaphore(%91 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%87 : memref<1x1xf32, #tpu.memory_space<hbm>>) dst(%89 : memref<1x1xf32, #tpu.memory_space<vmem>>) loc("wait x_scale")
    %92 = arith.cmpi eq, %k, %c0_i32 : i32
    scf.if %92 {
      tpu.vector_store %acc[%c0, %c0], %cst {strides = array<i32>} : memref<128x128xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>,
    }
    %93 = arith.index_cast %slot : i32 to index
    %94 = arith.index_cast %slot : i32 to index
    %95 = arith.index_cast %slot : i32 to index
    %96 = arith.index_cast %slot : i32 to index
    %97 = vector.load %x_x2[%93, %c0, %c0] : memref<2x128x128xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %98 = vector.shape_cast %97 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %99 = vector.load %w_q_x2[%94, %c0, %c0] : memref<2x128x128xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %100 = vector.shape_cast %99 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %101 = tpu.matmul %98, %100, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<128x128xf8E4M3FN>, vector<128x128xf8E4M3FN>, vector<128x128xf32> -> vector<128x128xf32>
    %102 = vector.load %x_scale_x2[%96, %c0, %c0] : memref<2x1x1xf32, #tpu.memory_space<vmem>>, vector<1x1x1xf32>
    %103 = vector.shape_cast %102 : vector<1x1x1xf32> to vector<1x1xf32>
    %104 = vector.load %w_scale_x2[%95, %c0, %c0] : memref<2x1x1xf32, #tpu.memory_space<vmem>>, vector<1x1x1xf32>
    %105 = vector.shape_cast %104 : vector<1x1x1xf32> to vector<1x1xf32>
    %106 = arith.mulf %103, %105 : vector<1x1xf32>
    %107 = vector.broadcast %106 : vector<1x1xf32> to vector<128x128xf32>
    %108 = arith.mulf %101, %107 : vector<128x128xf32>
    %109 = vector.load %acc[%c0, %c0] : memref<128x128xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>
    %110 = arith.addf %109, %108 : vector<128x128xf32>
    tpu.vector_store %acc[%c0, %c0], %110 {strides = array<i32>} : memref<128x128xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>,
    %111 = arith.cmpi eq, %k, %c2_i32 : i32
    scf.if %111 {
      %out_slot = arith.remsi %tile, %c2_i32 : i32
      %112 = arith.cmpi sge, %tile, %c2_i32 : i32
      scf.if %112 {
        %113 = arith.subi %tile, %c2_i32 : i32
        %114 = arith.divsi %113, %c2_i32 : i32
        %115 = arith.remsi %113, %c2_i32 : i32
        %116 = arith.muli %114, %c128_i32 : i32
        %117 = arith.muli %115, %c128_i32 : i32
        %118 = tpu.memref_slice %out[%116, %117] : memref<256x256xf32, #tpu.memory_space<hbm>> -> memref<128x128xf32, #tpu.memory_space<hbm>>
        %119 = tpu.memref_slice %out_x2[%out_slot, %c0_i32, %c0_i32] : memref<2x128x128xf32, #tpu.memory_space<vmem>> -> memref<1x128x128xf32, #tpu.memory_space<vmem>>
        %120 = tpu.memref_squeeze %119 : memref<1x128x128xf32, #tpu.memory_space<vmem>> -> memref<128x128xf32, #tpu.memory_space<vmem>>
        %121 = tpu.memref_slice %semaphores[%out_slot, %c4_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        %122 = tpu.memref_squeeze %121 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        tpu.wait_dma2 semaphore(%122 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%120 : memref<128x128xf32, #tpu.memory_space<vmem>>) dst(%118 : memref<128x128xf32, #tpu.memory_space<hbm>>) loc("wait out")
      }
      %123 = arith.index_cast %out_slot : i32 to index
      %124 = vector.load %acc[%c0, %c0] : memref<128x128xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>
      %125 = vector.shape_cast %124 : vector<128x128xf32> to vector<1x128x128xf32>
      tpu.vector_store %out_x2[%123, %c0, %c0], %125 {strides = array<i32>} : memref<2x128x128xf32, #tpu.memory_space<vmem>>, vector<1x128x128xf32>,
      %126 = arith.muli %m, %c128_i32 : i32
      %127 = arith.muli %n, %c128_i32 : i32
      %128 = tpu.memref_slice %out[%126, %127] : memref<256x256xf32, #tpu.memory_space<hbm>> -> memref<128x128xf32, #tpu.memory_space<hbm>>
      %129 = tpu.memref_slice %out_x2[%out_slot, %c0_i32, %c0_i32] : memref<2x128x128xf32, #tpu.memory_space<vmem>> -> memref<1x128x128xf32, #tpu.memory_space<vmem>>
      %130 = tpu.memref_squeeze %129 : memref<1x128x128xf32, #tpu.memory_space<vmem>> -> memref<128x128xf32, #tpu.memory_space<vmem>>
      %131 = tpu.memref_slice %semaphores[%out_slot, %c4_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %132 = tpu.memref_squeeze %131 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%130 : memref<128x128xf32, #tpu.memory_space<vmem>>) target(%128 : memref<128x128xf32, #tpu.memory_space<hbm>>) target_semaphore(%132 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start out")
      %133 = arith.cmpi eq, %tile, %c3_i32 : i32
      scf.if %133 {
        %134 = arith.divsi %tile, %c2_i32 : i32
        %135 = arith.remsi %tile, %c2_i32 : i32
        %136 = arith.muli %134, %c128_i32 : i32
        %137 = arith.muli %135, %c128_i32 : i32
        %138 = tpu.memref_slice %out[%136, %137] : memref<256x256xf32, #tpu.memory_space<hbm>> -> memref<128x128xf32, #tpu.memory_space<hbm>>
        %139 = tpu.memref_slice %out_x2[%out_slot, %c0_i32, %c0_i32] : memref<2x128x128xf32, #tpu.memory_space<vmem>> -> memref<1x128x128xf32, #tpu.memory_space<vmem>>
        %140 = tpu.memref_squeeze %139 : memref<1x128x128xf32, #tpu.memory_space<vmem>> -> memref<128x128xf32, #tpu.memory_space<vmem>>
        %141 = tpu.memref_slice %semaphores[%out_slot, %c4_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        %142 = tpu.memref_squeeze %141 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        tpu.wait_dma2 semaphore(%142 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%140 : memref<128x128xf32, #tpu.memory_space<vmem>>) dst(%138 : memref<128x128xf32, #tpu.memory_space<hbm>>) loc("wait out")
        %143 = arith.subi %tile, %c1_i32 : i32
        %144 = arith.subi %c1_i32, %out_slot : i32
        %145 = arith.divsi %143, %c2_i32 : i32
        %146 = arith.remsi %143, %c2_i32 : i32
        %147 = arith.muli %145, %c128_i32 : i32
        %148 = arith.muli %146, %c128_i32 : i32
        %149 = tpu.memref_slice %out[%147, %148] : memref<256x256xf32, #tpu.memory_space<hbm>> -> memref<128x128xf32, #tpu.memory_space<hbm>>
        %150 = tpu.memref_slice %out_x2[%144, %c0_i32, %c0_i32] : memref<2x128x128xf32, #tpu.memory_space<vmem>> -> memref<1x128x128xf32, #tpu.memory_space<vmem>>
        %151 = tpu.memref_squeeze %150 : memref<1x128x128xf32, #tpu.memory_space<vmem>> -> memref<128x128xf32, #tpu.memory_space<vmem>>
        %152 = tpu.memref_slice %semaphores[%144, %c4_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        %153 = tpu.memref_squeeze %152 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        tpu.wait_dma2 semaphore(%153 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%151 : memref<128x128xf32, #tpu.memory_space<vmem>>) dst(%149 : memref<128x128xf32, #tpu.memory_space<hbm>>) loc("wait out")
      }
    }
    return
  }
}
