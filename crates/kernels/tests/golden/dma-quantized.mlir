// dma aligned 256x256x256:128 x=f32 scales=token out=f32 print=mosaic
module attributes {stable_mosaic.version = 15 : i64} {
  func.func @octile_dma_aligned(%m: i32, %n: i32, %k: i32, %x: memref<256x256xf32, #tpu.memory_space<hbm>>, %w_q: memref<256x256xf8E4M3FN, #tpu.memory_space<hbm>>, %w_scale: memref<2x2x1x1xf32, #tpu.memory_space<hbm>>, %x_abs_max: memref<2x2x128x1xf32, #tpu.memory_space<hbm>>, %out: memref<256x256xf32, #tpu.memory_space<hbm>>, %x_x2: memref<2x128x128xf32, #tpu.memory_space<vmem>>, %w_q_x2: memref<2x128x128xf8E4M3FN, #tpu.memory_space<vmem>>, %w_scale_x2: memref<2x1x1xf32, #tpu.memory_space<vmem>>, %x_scale_x2: memref<2x128x1xf32, #tpu.memory_space<vmem>>, %out_x2: memref<2x128x128xf32, #tpu.memory_space<vmem>>, %semaphores: memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, %acc: memref<128x128xf32, #tpu.memory_space<vmem>>, %x_q: memref<2x128x128xf8E4M3FN, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [#tpu.dimension_semantics<arbitrary>, #tpu.dimension_semantics<arbitrary>, #tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 2, 2, 2>, scalar_prefetch = 0 : i64, scratch_operands = 8 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{}, {}, {}, {}, {}]} {
    %c2_i32 = arith.constant 2 : i32
    %c1_i32 = arith.constant 1 : i32
    %c0_i32 = arith.constant 0 : i32
    %c128_i32 = arith.constant 128 : i32
    %c3_i32 = arith.constant 3 : i32
    %c8_i32 = arith.constant 8 : i32
    %cst = arith.constant dense<0.000000e+00> : vector<128x128xf32>
    %c0 = arith.constant 0 : index
    %cst_v1 = arith.constant dense<4.480000e+02> : vector<128x1xf32>
    %cst_v2 = arith.constant dense<1.1754943508222875e-38> : vector<128x1xf32>
    %cst_v3 = arith.constant dense<1.000000e+00> : vector<128x1xf32>
    %c4_i32 = arith.constant 4 : i32
    %0 = arith.muli %m, %c2_i32 : i32
    %tile = arith.addi %0, %n : i32
    %1 = arith.muli %tile, %c2_i32 : i32
    %step = arith.addi %1, %k : i32
    %slot = arith.remsi %step, %c2_i32 : i32
    %2 = arith.cmpi eq, %step, %c0_i32 : i32
    scf.if %2 {
      %3 = arith.cmpi eq, %n, %c0_i32 : i32
      scf.if %3 {
        %4 = arith.muli %m, %c128_i32 : i32
        %5 = arith.muli %k, %c128_i32 : i32
        %6 = tpu.memref_slice %x[%4, %5] : memref<256x256xf32, #tpu.memory_space<hbm>> -> memref<128x128xf32, #tpu.memory_space<hbm>>
        %7 = tpu.memref_slice %x_x2[%slot, %c0_i32, %c0_i32] : memref<2x128x128xf32, #tpu.memory_space<vmem>> -> memref<1x128x128xf32, #tpu.memory_space<vmem>>
        %8 = tpu.memref_squeeze %7 : memref<1x128x128xf32, #tpu.memory_space<vmem>> -> memref<128x128xf32, #tpu.memory_space<vmem>>
        %9 = tpu.memref_slice %semaphores[%slot, %c0_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        %10 = tpu.memref_squeeze %9 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        tpu.enqueue_dma source(%6 : memref<128x128xf32, #tpu.memory_space<hbm>>) target(%8 : memref<128x128xf32, #tpu.memory_space<vmem>>) target_semaphore(%10 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start x")
      }
      %11 = arith.muli %n, %c128_i32 : i32
      %12 = arith.muli %k, %c128_i32 : i32
      %13 = tpu.memref_slice %w_q[%11, %12] : memref<256x256xf8E4M3FN, #tpu.memory_space<hbm>> -> memref<128x128xf8E4M3FN, #tpu.memory_space<hbm>>
      %14 = tpu.memref_slice %w_q_x2[%slot, %c0_i32, %c0_i32] : memref<2x128x128xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<1x128x128xf8E4M3FN, #tpu.memory_space<vmem>>
      %15 = tpu.memref_squeeze %14 : memref<1x128x128xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<128x128xf8E4M3FN, #tpu.memory_space<vmem>>
      %16 = tpu.memref_slice %semaphores[%slot, %c1_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %17 = tpu.memref_squeeze %16 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%13 : memref<128x128xf8E4M3FN, #tpu.memory_space<hbm>>) target(%15 : memref<128x128xf8E4M3FN, #tpu.memory_space<vmem>>) target_semaphore(%17 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start w_q")
      %18 = tpu.memref_slice %w_scale[%n, %k, %c0_i32, %c0_i32] : memref<2x2x1x1xf32, #tpu.memory_space<hbm>> -> memref<1x1x1x1xf32, #tpu.memory_space<hbm>>
      %19 = tpu.memref_squeeze %18 : memref<1x1x1x1xf32, #tpu.memory_space<hbm>> -> memref<1x1xf32, #tpu.memory_space<hbm>>
      %20 = tpu.memref_slice %w_scale_x2[%slot, %c0_i32, %c0_i32] : memref<2x1x1xf32, #tpu.memory_space<vmem>> -> memref<1x1x1xf32, #tpu.memory_space<vmem>>
      %21 = tpu.memref_squeeze %20 : memref<1x1x1xf32, #tpu.memory_space<vmem>> -> memref<1x1xf32, #tpu.memory_space<vmem>>
      %22 = tpu.memref_slice %semaphores[%slot, %c2_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %23 = tpu.memref_squeeze %22 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%19 : memref<1x1xf32, #tpu.memory_space<hbm>>) target(%21 : memref<1x1xf32, #tpu.memory_space<vmem>>) target_semaphore(%23 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start w_scale")
      %24 = tpu.memref_slice %x_abs_max[%m, %k, %c0_i32, %c0_i32] : memref<2x2x128x1xf32, #tpu.memory_space<hbm>> -> memref<1x1x128x1xf32, #tpu.memory_space<hbm>>
      %25 = tpu.memref_squeeze %24 : memref<1x1x128x1xf32, #tpu.memory_space<hbm>> -> memref<128x1xf32, #tpu.memory_space<hbm>>
      %26 = tpu.memref_slice %x_scale_x2[%slot, %c0_i32, %c0_i32] : memref<2x128x1xf32, #tpu.memory_space<vmem>> -> memref<1x128x1xf32, #tpu.memory_space<vmem>>
      %27 = tpu.memref_squeeze %26 : memref<1x128x1xf32, #tpu.memory_space<vmem>> -> memref<128x1xf32, #tpu.memory_space<vmem>>
      %28 = tpu.memref_slice %semaphores[%slot, %c3_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %29 = tpu.memref_squeeze %28 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%25 : memref<128x1xf32, #tpu.memory_space<hbm>>) target(%27 : memref<128x1xf32, #tpu.memory_space<vmem>>) target_semaphore(%29 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start x_scale")
    }
    %next_slot = arith.subi %c1_i32, %slot : i32
    %30 = arith.addi %k, %c1_i32 : i32
    %31 = arith.cmpi eq, %30, %c2_i32 : i32
    %32 = arith.select %31, %c0_i32, %30 : i32
    %33 = arith.addi %n, %c1_i32 : i32
    %34 = arith.select %31, %33, %n : i32
    %35 = arith.cmpi eq, %34, %c2_i32 : i32
    %36 = arith.select %35, %c0_i32, %34 : i32
    %37 = arith.addi %m, %c1_i32 : i32
    %38 = arith.select %35, %37, %m : i32
    %39 = arith.addi %step, %c1_i32 : i32
    %40 = arith.cmpi slt, %39, %c8_i32 : i32
    scf.if %40 {
      %41 = arith.cmpi eq, %36, %c0_i32 : i32
      scf.if %41 {
        %42 = arith.muli %38, %c128_i32 : i32
        %43 = arith.muli %32, %c128_i32 : i32
        %44 = tpu.memref_slice %x[%42, %43] : memref<256x256xf32, #tpu.memory_space<hbm>> -> memref<128x128xf32, #tpu.memory_space<hbm>>
        %45 = tpu.memref_slice %x_x2[%next_slot, %c0_i32, %c0_i32] : memref<2x128x128xf32, #tpu.memory_space<vmem>> -> memref<1x128x128xf32, #tpu.memory_space<vmem>>
        %46 = tpu.memref_squeeze %45 : memref<1x128x128xf32, #tpu.memory_space<vmem>> -> memref<128x128xf32, #tpu.memory_space<vmem>>
        %47 = tpu.memref_slice %semaphores[%next_slot, %c0_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        %48 = tpu.memref_squeeze %47 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        tpu.enqueue_dma source(%44 : memref<128x128xf32, #tpu.memory_space<hbm>>) target(%46 : memref<128x128xf32, #tpu.memory_space<vmem>>) target_semaphore(%48 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start x")
      }
      %49 = arith.muli %36, %c128_i32 : i32
      %50 = arith.muli %32, %c128_i32 : i32
      %51 = tpu.memref_slice %w_q[%49, %50] : memref<256x256xf8E4M3FN, #tpu.memory_space<hbm>> -> memref<128x128xf8E4M3FN, #tpu.memory_space<hbm>>
      %52 = tpu.memref_slice %w_q_x2[%next_slot, %c0_i32, %c0_i32] : memref<2x128x128xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<1x128x128xf8E4M3FN, #tpu.memory_space<vmem>>
      %53 = tpu.memref_squeeze %52 : memref<1x128x128xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<128x128xf8E4M3FN, #tpu.memory_space<vmem>>
      %54 = tpu.memref_slice %semaphores[%next_slot, %c1_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %55 = tpu.memref_squeeze %54 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%51 : memref<128x128xf8E4M3FN, #tpu.memory_space<hbm>>) target(%53 : memref<128x128xf8E4M3FN, #tpu.memory_space<vmem>>) target_semaphore(%55 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start w_q")
      %56 = tpu.memref_slice %w_scale[%36, %32, %c0_i32, %c0_i32] : memref<2x2x1x1xf32, #tpu.memory_space<hbm>> -> memref<1x1x1x1xf32, #tpu.memory_space<hbm>>
      %57 = tpu.memref_squeeze %56 : memref<1x1x1x1xf32, #tpu.memory_space<hbm>> -> memref<1x1xf32, #tpu.memory_space<hbm>>
      %58 = tpu.memref_slice %w_scale_x2[%next_slot, %c0_i32, %c0_i32] : memref<2x1x1xf32, #tpu.memory_space<vmem>> -> memref<1x1x1xf32, #tpu.memory_space<vmem>>
      %59 = tpu.memref_squeeze %58 : memref<1x1x1xf32, #tpu.memory_space<vmem>> -> memref<1x1xf32, #tpu.memory_space<vmem>>
      %60 = tpu.memref_slice %semaphores[%next_slot, %c2_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %61 = tpu.memref_squeeze %60 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%57 : memref<1x1xf32, #tpu.memory_space<hbm>>) target(%59 : memref<1x1xf32, #tpu.memory_space<vmem>>) target_semaphore(%61 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start w_scale")
      %62 = tpu.memref_slice %x_abs_max[%38, %32, %c0_i32, %c0_i32] : memref<2x2x128x1xf32, #tpu.memory_space<hbm>> -> memref<1x1x128x1xf32, #tpu.memory_space<hbm>>
      %63 = tpu.memref_squeeze %62 : memref<1x1x128x1xf32, #tpu.memory_space<hbm>> -> memref<128x1xf32, #tpu.memory_space<hbm>>
      %64 = tpu.memref_slice %x_scale_x2[%next_slot, %c0_i32, %c0_i32] : memref<2x128x1xf32, #tpu.memory_space<vmem>> -> memref<1x128x1xf32, #tpu.memory_space<vmem>>
      %65 = tpu.memref_squeeze %64 : memref<1x128x1xf32, #tpu.memory_space<vmem>> -> memref<128x1xf32, #tpu.memory_space<vmem>>
      %66 = tpu.memref_slice %semaphores[%next_slot, %c3_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %67 = tpu.memref_squeeze %66 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%63 : memref<128x1xf32, #tpu.memory_space<hbm>>) target(%65 : memref<128x1xf32, #tpu.memory_space<vmem>>) target_semaphore(%67 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start x_scale")
    }
    %68 = arith.cmpi eq, %n, %c0_i32 : i32
    scf.if %68 {
      %69 = arith.muli %m, %c128_i32 : i32
      %70 = arith.muli %k, %c128_i32 : i32
      %71 = tpu.memref_slice %x[%69, %70] : memref<256x256xf32, #tpu.memory_space<hbm>> -> memref<128x128xf32, #tpu.memory_space<hbm>>
      %72 = tpu.memref_slice %x_x2[%slot, %c0_i32, %c0_i32] : memref<2x128x128xf32, #tpu.memory_space<vmem>> -> memref<1x128x128xf32, #tpu.memory_space<vmem>>
      %73 = tpu.memref_squeeze %72 : memref<1x128x128xf32, #tpu.memory_space<vmem>> -> memref<128x128xf32, #tpu.memory_space<vmem>>
      %74 = tpu.memref_slice %semaphores[%slot, %c0_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %75 = tpu.memref_squeeze %74 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.wait_dma2 semaphore(%75 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%71 : memref<128x128xf32, #tpu.memory_space<hbm>>) dst(%73 : memref<128x128xf32, #tpu.memory_space<vmem>>) loc("wait x")
    }
    %76 = arith.muli %n, %c128_i32 : i32
    %77 = arith.muli %k, %c128_i32 : i32
    %78 = tpu.memref_slice %w_q[%76, %77] : memref<256x256xf8E4M3FN, #tpu.memory_space<hbm>> -> memref<128x128xf8E4M3FN, #tpu.memory_space<hbm>>
    %79 = tpu.memref_slice %w_q_x2[%slot, %c0_i32, %c0_i32] : memref<2x128x128xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<1x128x128xf8E4M3FN, #tpu.memory_space<vmem>>
    %80 = tpu.memref_squeeze %79 : memref<1x128x128xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<128x128xf8E4M3FN, #tpu.memory_space<vmem>>
    %81 = tpu.memref_slice %semaphores[%slot, %c1_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    %82 = tpu.memref_squeeze %81 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    tpu.wait_dma2 semaphore(%82 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%78 : memref<128x128xf8E4M3FN, #tpu.memory_space<hbm>>) dst(%80 : memref<128x128xf8E4M3FN, #tpu.memory_space<vmem>>) loc("wait w_q")
    %83 = tpu.memref_slice %w_scale[%n, %k, %c0_i32, %c0_i32] : memref<2x2x1x1xf32, #tpu.memory_space<hbm>> -> memref<1x1x1x1xf32, #tpu.memory_space<hbm>>
    %84 = tpu.memref_squeeze %83 : memref<1x1x1x1xf32, #tpu.memory_space<hbm>> -> memref<1x1xf32, #tpu.memory_space<hbm>>
    %85 = tpu.memref_slice %w_scale_x2[%slot, %c0_i32, %c0_i32] : memref<2x1x1xf32, #tpu.memory_space<vmem>> -> memref<1x1x1xf32, #tpu.memory_space<vmem>>
    %86 = tpu.memref_squeeze %85 : memref<1x1x1xf32, #tpu.memory_space<vmem>> -> memref<1x1xf32, #tpu.memory_space<vmem>>
    %87 = tpu.memref_slice %semaphores[%slot, %c2_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    %88 = tpu.memref_squeeze %87 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    tpu.wait_dma2 semaphore(%88 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%84 : memref<1x1xf32, #tpu.memory_space<hbm>>) dst(%86 : memref<1x1xf32, #tpu.memory_space<vmem>>) loc("wait w_scale")
    %89 = tpu.memref_slice %x_abs_max[%m, %k, %c0_i32, %c0_i32] : memref<2x2x128x1xf32, #tpu.memory_space<hbm>> -> memref<1x1x128x1xf32, #tpu.memory_space<hbm>>
    %90 = tpu.memref_squeeze %89 : memref<1x1x128x1xf32, #tpu.memory_space<hbm>> -> memref<128x1xf32, #tpu.memory_space<hbm>>
    %91 = tpu.memref_slice %x_scale_x2[%slot, %c0_i32, %c0_i32] : memref<2x128x1xf32, #tpu.memory_space<vmem>> -> memref<1x128x1xf32, #tpu.memory_space<vmem>>
    %92 = tpu.memref_squeeze %91 : memref<1x128x1xf32, #tpu.memory_space<vmem>> -> memref<128x1xf32, #tpu.memory_space<vmem>>
    %93 = tpu.memref_slice %semaphores[%slot, %c3_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    %94 = tpu.memref_squeeze %93 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    tpu.wait_dma2 semaphore(%94 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%90 : memref<128x1xf32, #tpu.memory_space<hbm>>) dst(%92 : memref<128x1xf32, #tpu.memory_space<vmem>>) loc("wait x_scale")
    %95 = arith.cmpi eq, %k, %c0_i32 : i32
    scf.if %95 {
      tpu.vector_store %acc[%c0, %c0], %cst {strides = array<i32>} : memref<128x128xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>,
    }
    %96 = arith.index_cast %slot : i32 to index
    %97 = arith.index_cast %slot : i32 to index
    %98 = arith.index_cast %slot : i32 to index
    %99 = arith.index_cast %slot : i32 to index
    %100 = arith.index_cast %k : i32 to index
    %101 = arith.cmpi eq, %n, %c0_i32 : i32
    scf.if %101 {
      %102 = vector.load %x_x2[%96, %c0, %c0] : memref<2x128x128xf32, #tpu.memory_space<vmem>>, vector<1x128x128xf32>
      %103 = vector.shape_cast %102 : vector<1x128x128xf32> to vector<128x128xf32>
      %104 = vector.load %x_scale_x2[%99, %c0, %c0] : memref<2x128x1xf32, #tpu.memory_space<vmem>>, vector<1x128x1xf32>
      %105 = vector.shape_cast %104 : vector<1x128x1xf32> to vector<128x1xf32>
      %106 = arith.divf %105, %cst_v1 : vector<128x1xf32>
      %107 = arith.maximumf %106, %cst_v2 : vector<128x1xf32>
      %108 = arith.divf %cst_v3, %107 : vector<128x1xf32>
      %109 = vector.broadcast %108 : vector<128x1xf32> to vector<128x128xf32>
      %110 = arith.mulf %103, %109 : vector<128x128xf32>
      %111 = arith.truncf %110 : vector<128x128xf32> to vector<128x128xf8E4M3FN>
      %112 = vector.shape_cast %111 : vector<128x128xf8E4M3FN> to vector<1x128x128xf8E4M3FN>
      tpu.vector_store %x_q[%100, %c0, %c0], %112 {strides = array<i32>} : memref<2x128x128xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>,
    }
    %113 = vector.load %x_q[%100, %c0, %c0] : memref<2x128x128xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %114 = vector.shape_cast %113 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %115 = vector.load %w_q_x2[%97, %c0, %c0] : memref<2x128x128xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %116 = vector.shape_cast %115 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %117 = tpu.matmul %114, %116, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<128x128xf8E4M3FN>, vector<128x128xf8E4M3FN>, vector<128x128xf32> -> vector<128x128xf32>
    %118 = vector.load %x_scale_x2[%99, %c0, %c0] : memref<2x128x1xf32, #tpu.memory_space<vmem>>, vector<1x128x1xf32>
    %119 = vector.shape_cast %118 : vector<1x128x1xf32> to vector<128x1xf32>
    %120 = arith.divf %119, %cst_v1 : vector<128x1xf32>
    %121 = arith.maximumf %120, %cst_v2 : vector<128x1xf32>
    %122 = vector.load %w_scale_x2[%98, %c0, %c0] : memref<2x1x1xf32, #tpu.memory_space<vmem>>, vector<1x1x1xf32>
    %123 = vector.shape_cast %122 : vector<1x1x1xf32> to vector<1x1xf32>
    %124 = vector.broadcast %123 : vector<1x1xf32> to vector<128x1xf32>
    %125 = arith.mulf %121, %124 : vector<128x1xf32>
    %126 = vector.broadcast %125 : vector<128x1xf32> to vector<128x128xf32>
    %127 = arith.mulf %117, %126 : vector<128x128xf32>
    %128 = vector.load %acc[%c0, %c0] : memref<128x128xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>
    %129 = arith.addf %128, %127 : vector<128x128xf32>
    tpu.vector_store %acc[%c0, %c0], %129 {strides = array<i32>} : memref<128x128xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>,
    %130 = arith.cmpi eq, %k, %c1_i32 : i32
    scf.if %130 {
      %out_slot = arith.remsi %tile, %c2_i32 : i32
      %131 = arith.cmpi sge, %tile, %c2_i32 : i32
      scf.if %131 {
        %132 = arith.subi %tile, %c2_i32 : i32
        %133 = arith.divsi %132, %c2_i32 : i32
        %134 = arith.remsi %132, %c2_i32 : i32
        %135 = arith.muli %133, %c128_i32 : i32
        %136 = arith.muli %134, %c128_i32 : i32
        %137 = tpu.memref_slice %out[%135, %136] : memref<256x256xf32, #tpu.memory_space<hbm>> -> memref<128x128xf32, #tpu.memory_space<hbm>>
        %138 = tpu.memref_slice %out_x2[%out_slot, %c0_i32, %c0_i32] : memref<2x128x128xf32, #tpu.memory_space<vmem>> -> memref<1x128x128xf32, #tpu.memory_space<vmem>>
        %139 = tpu.memref_squeeze %138 : memref<1x128x128xf32, #tpu.memory_space<vmem>> -> memref<128x128xf32, #tpu.memory_space<vmem>>
        %140 = tpu.memref_slice %semaphores[%out_slot, %c4_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        %141 = tpu.memref_squeeze %140 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        tpu.wait_dma2 semaphore(%141 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%139 : memref<128x128xf32, #tpu.memory_space<vmem>>) dst(%137 : memref<128x128xf32, #tpu.memory_space<hbm>>) loc("wait out")
      }
      %142 = arith.index_cast %out_slot : i32 to index
      %143 = vector.load %acc[%c0, %c0] : memref<128x128xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>
      %144 = vector.shape_cast %143 : vector<128x128xf32> to vector<1x128x128xf32>
      tpu.vector_store %out_x2[%142, %c0, %c0], %144 {strides = array<i32>} : memref<2x128x128xf32, #tpu.memory_space<vmem>>, vector<1x128x128xf32>,
      %145 = arith.muli %m, %c128_i32 : i32
      %146 = arith.muli %n, %c128_i32 : i32
      %147 = tpu.memref_slice %out[%145, %146] : memref<256x256xf32, #tpu.memory_space<hbm>> -> memref<128x128xf32, #tpu.memory_space<hbm>>
      %148 = tpu.memref_slice %out_x2[%out_slot, %c0_i32, %c0_i32] : memref<2x128x128xf32, #tpu.memory_space<vmem>> -> memref<1x128x128xf32, #tpu.memory_space<vmem>>
      %149 = tpu.memref_squeeze %148 : memref<1x128x128xf32, #tpu.memory_space<vmem>> -> memref<128x128xf32, #tpu.memory_space<vmem>>
      %150 = tpu.memref_slice %semaphores[%out_slot, %c4_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %151 = tpu.memref_squeeze %150 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%149 : memref<128x128xf32, #tpu.memory_space<vmem>>) target(%147 : memref<128x128xf32, #tpu.memory_space<hbm>>) target_semaphore(%151 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start out")
      %152 = arith.cmpi eq, %tile, %c3_i32 : i32
      scf.if %152 {
        %153 = arith.divsi %tile, %c2_i32 : i32
        %154 = arith.remsi %tile, %c2_i32 : i32
        %155 = arith.muli %153, %c128_i32 : i32
        %156 = arith.muli %154, %c128_i32 : i32
        %157 = tpu.memref_slice %out[%155, %156] : memref<256x256xf32, #tpu.memory_space<hbm>> -> memref<128x128xf32, #tpu.memory_space<hbm>>
        %158 = tpu.memref_slice %out_x2[%out_slot, %c0_i32, %c0_i32] : memref<2x128x128xf32, #tpu.memory_space<vmem>> -> memref<1x128x128xf32, #tpu.memory_space<vmem>>
        %159 = tpu.memref_squeeze %158 : memref<1x128x128xf32, #tpu.memory_space<vmem>> -> memref<128x128xf32, #tpu.memory_space<vmem>>
        %160 = tpu.memref_slice %semaphores[%out_slot, %c4_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        %161 = tpu.memref_squeeze %160 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        tpu.wait_dma2 semaphore(%161 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%159 : memref<128x128xf32, #tpu.memory_space<vmem>>) dst(%157 : memref<128x128xf32, #tpu.memory_space<hbm>>) loc("wait out")
        %162 = arith.subi %tile, %c1_i32 : i32
        %163 = arith.subi %c1_i32, %out_slot : i32
        %164 = arith.divsi %162, %c2_i32 : i32
        %165 = arith.remsi %162, %c2_i32 : i32
        %166 = arith.muli %164, %c128_i32 : i32
        %167 = arith.muli %165, %c128_i32 : i32
        %168 = tpu.memref_slice %out[%166, %167] : memref<256x256xf32, #tpu.memory_space<hbm>> -> memref<128x128xf32, #tpu.memory_space<hbm>>
        %169 = tpu.memref_slice %out_x2[%163, %c0_i32, %c0_i32] : memref<2x128x128xf32, #tpu.memory_space<vmem>> -> memref<1x128x128xf32, #tpu.memory_space<vmem>>
        %170 = tpu.memref_squeeze %169 : memref<1x128x128xf32, #tpu.memory_space<vmem>> -> memref<128x128xf32, #tpu.memory_space<vmem>>
        %171 = tpu.memref_slice %semaphores[%163, %c4_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        %172 = tpu.memref_squeeze %171 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        tpu.wait_dma2 semaphore(%172 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%170 : memref<128x128xf32, #tpu.memory_space<vmem>>) dst(%168 : memref<128x128xf32, #tpu.memory_space<hbm>>) loc("wait out")
      }
    }
    return
  }
}
