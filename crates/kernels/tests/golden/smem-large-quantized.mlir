// smem large 256x1024x256:128 x=bf16 scales=block out=f32 print=mosaic
module attributes {stable_mosaic.version = 15 : i64} {
  func.func @octile_smem_large(%m: i32, %n: i32, %k: i32, %x: memref<256x256xbf16, #tpu.memory_space<hbm>>, %w_q: memref<1024x256xf8E4M3FN, #tpu.memory_space<hbm>>, %w_scale: memref<2x1x4x2xf32, #tpu.memory_space<hbm>>, %x_abs_max: memref<1x1x2x2xf32, #tpu.memory_space<hbm>>, %out: memref<256x1024xf32, #tpu.memory_space<hbm>>, %x_x2: memref<2x256x256xbf16, #tpu.memory_space<vmem>>, %w_q_x2: memref<2x512x256xf8E4M3FN, #tpu.memory_space<vmem>>, %w_scale_x2: memref<2x4x2xf32, #tpu.memory_space<smem>>, %x_scale_x2: memref<2x2x2xf32, #tpu.memory_space<smem>>, %out_x2: memref<2x256x512xf32, #tpu.memory_space<vmem>>, %semaphores: memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, %acc: memref<256x512xf32, #tpu.memory_space<vmem>>, %x_q: memref<1x256x256xf8E4M3FN, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [#tpu.dimension_semantics<arbitrary>, #tpu.dimension_semantics<arbitrary>, #tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 1, 2, 1>, scalar_prefetch = 0 : i64, scratch_operands = 8 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{}, {}, {}, {}, {}]} {
    %c2_i32 = arith.constant 2 : i32
    %c1_i32 = arith.constant 1 : i32
    %c0_i32 = arith.constant 0 : i32
    %c256_i32 = arith.constant 256 : i32
    %c512_i32 = arith.constant 512 : i32
    %c3_i32 = arith.constant 3 : i32
    %cst = arith.constant dense<0.000000e+00> : vector<256x512xf32>
    %c0 = arith.constant 0 : index
    %cst_v1 = arith.constant 4.480000e+02 : f32
    %cst_v2 = arith.constant 1.1754943508222875e-38 : f32
    %cst_v3 = arith.constant 1.000000e+00 : f32
    %c128 = arith.constant 128 : index
    %c1 = arith.constant 1 : index
    %cst_v4 = arith.constant dense<0.000000e+00> : vector<128x128xf32>
    %c256 = arith.constant 256 : index
    %c2 = arith.constant 2 : index
    %c384 = arith.constant 384 : index
    %c3 = arith.constant 3 : index
    %c4_i32 = arith.constant 4 : i32
    %0 = arith.muli %m, %c2_i32 : i32
    %tile = arith.addi %0, %n : i32
    %1 = arith.muli %tile, %c1_i32 : i32
    %step = arith.addi %1, %k : i32
    %slot = arith.remsi %step, %c2_i32 : i32
    %2 = arith.cmpi eq, %step, %c0_i32 : i32
    scf.if %2 {
      %3 = arith.cmpi eq, %n, %c0_i32 : i32
      scf.if %3 {
        %4 = arith.muli %m, %c256_i32 : i32
        %5 = arith.muli %k, %c256_i32 : i32
        %6 = tpu.memref_slice %x[%4, %5] : memref<256x256xbf16, #tpu.memory_space<hbm>> -> memref<256x256xbf16, #tpu.memory_space<hbm>>
        %7 = tpu.memref_slice %x_x2[%slot, %c0_i32, %c0_i32] : memref<2x256x256xbf16, #tpu.memory_space<vmem>> -> memref<1x256x256xbf16, #tpu.memory_space<vmem>>
        %8 = tpu.memref_squeeze %7 : memref<1x256x256xbf16, #tpu.memory_space<vmem>> -> memref<256x256xbf16, #tpu.memory_space<vmem>>
        %9 = tpu.memref_slice %semaphores[%slot, %c0_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        %10 = tpu.memref_squeeze %9 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        tpu.enqueue_dma source(%6 : memref<256x256xbf16, #tpu.memory_space<hbm>>) target(%8 : memref<256x256xbf16, #tpu.memory_space<vmem>>) target_semaphore(%10 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start x")
      }
      %11 = arith.muli %n, %c512_i32 : i32
      %12 = arith.muli %k, %c256_i32 : i32
      %13 = tpu.memref_slice %w_q[%11, %12] : memref<1024x256xf8E4M3FN, #tpu.memory_space<hbm>> -> memref<512x256xf8E4M3FN, #tpu.memory_space<hbm>>
      %14 = tpu.memref_slice %w_q_x2[%slot, %c0_i32, %c0_i32] : memref<2x512x256xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<1x512x256xf8E4M3FN, #tpu.memory_space<vmem>>
      %15 = tpu.memref_squeeze %14 : memref<1x512x256xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<512x256xf8E4M3FN, #tpu.memory_space<vmem>>
      %16 = tpu.memref_slice %semaphores[%slot, %c1_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %17 = tpu.memref_squeeze %16 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%13 : memref<512x256xf8E4M3FN, #tpu.memory_space<hbm>>) target(%15 : memref<512x256xf8E4M3FN, #tpu.memory_space<vmem>>) target_semaphore(%17 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start w_q")
      %18 = tpu.memref_slice %w_scale[%n, %k, %c0_i32, %c0_i32] : memref<2x1x4x2xf32, #tpu.memory_space<hbm>> -> memref<1x1x4x2xf32, #tpu.memory_space<hbm>>
      %19 = tpu.memref_squeeze %18 : memref<1x1x4x2xf32, #tpu.memory_space<hbm>> -> memref<4x2xf32, #tpu.memory_space<hbm>>
      %20 = tpu.memref_slice %w_scale_x2[%slot, %c0_i32, %c0_i32] : memref<2x4x2xf32, #tpu.memory_space<smem>> -> memref<1x4x2xf32, #tpu.memory_space<smem>>
      %21 = tpu.memref_squeeze %20 : memref<1x4x2xf32, #tpu.memory_space<smem>> -> memref<4x2xf32, #tpu.memory_space<smem>>
      %22 = tpu.memref_slice %semaphores[%slot, %c2_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %23 = tpu.memref_squeeze %22 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%19 : memref<4x2xf32, #tpu.memory_space<hbm>>) target(%21 : memref<4x2xf32, #tpu.memory_space<smem>>) target_semaphore(%23 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start w_scale")
      %24 = tpu.memref_slice %x_abs_max[%m, %k, %c0_i32, %c0_i32] : memref<1x1x2x2xf32, #tpu.memory_space<hbm>> -> memref<1x1x2x2xf32, #tpu.memory_space<hbm>>
      %25 = tpu.memref_squeeze %24 : memref<1x1x2x2xf32, #tpu.memory_space<hbm>> -> memref<2x2xf32, #tpu.memory_space<hbm>>
      %26 = tpu.memref_slice %x_scale_x2[%slot, %c0_i32, %c0_i32] : memref<2x2x2xf32, #tpu.memory_space<smem>> -> memref<1x2x2xf32, #tpu.memory_space<smem>>
      %27 = tpu.memref_squeeze %26 : memref<1x2x2xf32, #tpu.memory_space<smem>> -> memref<2x2xf32, #tpu.memory_space<smem>>
      %28 = tpu.memref_slice %semaphores[%slot, %c3_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %29 = tpu.memref_squeeze %28 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%25 : memref<2x2xf32, #tpu.memory_space<hbm>>) target(%27 : memref<2x2xf32, #tpu.memory_space<smem>>) target_semaphore(%29 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start x_scale")
    }
    %next_slot = arith.subi %c1_i32, %slot : i32
    %30 = arith.addi %k, %c1_i32 : i32
    %31 = arith.cmpi eq, %30, %c1_i32 : i32
    %32 = arith.select %31, %c0_i32, %30 : i32
    %33 = arith.addi %n, %c1_i32 : i32
    %34 = arith.select %31, %33, %n : i32
    %35 = arith.cmpi eq, %34, %c2_i32 : i32
    %36 = arith.select %35, %c0_i32, %34 : i32
    %37 = arith.addi %step, %c1_i32 : i32
    %38 = arith.cmpi slt, %37, %c2_i32 : i32
    scf.if %38 {
      %39 = arith.cmpi eq, %36, %c0_i32 : i32
      scf.if %39 {
        %40 = arith.muli %m, %c256_i32 : i32
        %41 = arith.muli %32, %c256_i32 : i32
        %42 = tpu.memref_slice %x[%40, %41] : memref<256x256xbf16, #tpu.memory_space<hbm>> -> memref<256x256xbf16, #tpu.memory_space<hbm>>
        %43 = tpu.memref_slice %x_x2[%next_slot, %c0_i32, %c0_i32] : memref<2x256x256xbf16, #tpu.memory_space<vmem>> -> memref<1x256x256xbf16, #tpu.memory_space<vmem>>
        %44 = tpu.memref_squeeze %43 : memref<1x256x256xbf16, #tpu.memory_space<vmem>> -> memref<256x256xbf16, #tpu.memory_space<vmem>>
        %45 = tpu.memref_slice %semaphores[%next_slot, %c0_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        %46 = tpu.memref_squeeze %45 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        tpu.enqueue_dma source(%42 : memref<256x256xbf16, #tpu.memory_space<hbm>>) target(%44 : memref<256x256xbf16, #tpu.memory_space<vmem>>) target_semaphore(%46 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start x")
      }
      %47 = arith.muli %36, %c512_i32 : i32
      %48 = arith.muli %32, %c256_i32 : i32
      %49 = tpu.memref_slice %w_q[%47, %48] : memref<1024x256xf8E4M3FN, #tpu.memory_space<hbm>> -> memref<512x256xf8E4M3FN, #tpu.memory_space<hbm>>
      %50 = tpu.memref_slice %w_q_x2[%next_slot, %c0_i32, %c0_i32] : memref<2x512x256xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<1x512x256xf8E4M3FN, #tpu.memory_space<vmem>>
      %51 = tpu.memref_squeeze %50 : memref<1x512x256xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<512x256xf8E4M3FN, #tpu.memory_space<vmem>>
      %52 = tpu.memref_slice %semaphores[%next_slot, %c1_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %53 = tpu.memref_squeeze %52 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%49 : memref<512x256xf8E4M3FN, #tpu.memory_space<hbm>>) target(%51 : memref<512x256xf8E4M3FN, #tpu.memory_space<vmem>>) target_semaphore(%53 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start w_q")
      %54 = tpu.memref_slice %w_scale[%36, %32, %c0_i32, %c0_i32] : memref<2x1x4x2xf32, #tpu.memory_space<hbm>> -> memref<1x1x4x2xf32, #tpu.memory_space<hbm>>
      %55 = tpu.memref_squeeze %54 : memref<1x1x4x2xf32, #tpu.memory_space<hbm>> -> memref<4x2xf32, #tpu.memory_space<hbm>>
      %56 = tpu.memref_slice %w_scale_x2[%next_slot, %c0_i32, %c0_i32] : memref<2x4x2xf32, #tpu.memory_space<smem>> -> memref<1x4x2xf32, #tpu.memory_space<smem>>
      %57 = tpu.memref_squeeze %56 : memref<1x4x2xf32, #tpu.memory_space<smem>> -> memref<4x2xf32, #tpu.memory_space<smem>>
      %58 = tpu.memref_slice %semaphores[%next_slot, %c2_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %59 = tpu.memref_squeeze %58 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%55 : memref<4x2xf32, #tpu.memory_space<hbm>>) target(%57 : memref<4x2xf32, #tpu.memory_space<smem>>) target_semaphore(%59 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start w_scale")
      %60 = tpu.memref_slice %x_abs_max[%m, %32, %c0_i32, %c0_i32] : memref<1x1x2x2xf32, #tpu.memory_space<hbm>> -> memref<1x1x2x2xf32, #tpu.memory_space<hbm>>
      %61 = tpu.memref_squeeze %60 : memref<1x1x2x2xf32, #tpu.memory_space<hbm>> -> memref<2x2xf32, #tpu.memory_space<hbm>>
      %62 = tpu.memref_slice %x_scale_x2[%next_slot, %c0_i32, %c0_i32] : memref<2x2x2xf32, #tpu.memory_space<smem>> -> memref<1x2x2xf32, #tpu.memory_space<smem>>
      %63 = tpu.memref_squeeze %62 : memref<1x2x2xf32, #tpu.memory_space<smem>> -> memref<2x2xf32, #tpu.memory_space<smem>>
      %64 = tpu.memref_slice %semaphores[%next_slot, %c3_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %65 = tpu.memref_squeeze %64 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%61 : memref<2x2xf32, #tpu.memory_space<hbm>>) target(%63 : memref<2x2xf32, #tpu.memory_space<smem>>) target_semaphore(%65 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start x_scale")
    }
    %66 = arith.cmpi eq, %n, %c0_i32 : i32
    scf.if %66 {
      %67 = arith.muli %m, %c256_i32 : i32
      %68 = arith.muli %k, %c256_i32 : i32
      %69 = tpu.memref_slice %x[%67, %68] : memref<256x256xbf16, #tpu.memory_space<hbm>> -> memref<256x256xbf16, #tpu.memory_space<hbm>>
      %70 = tpu.memref_slice %x_x2[%slot, %c0_i32, %c0_i32] : memref<2x256x256xbf16, #tpu.memory_space<vmem>> -> memref<1x256x256xbf16, #tpu.memory_space<vmem>>
      %71 = tpu.memref_squeeze %70 : memref<1x256x256xbf16, #tpu.memory_space<vmem>> -> memref<256x256xbf16, #tpu.memory_space<vmem>>
      %72 = tpu.memref_slice %semaphores[%slot, %c0_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %73 = tpu.memref_squeeze %72 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.wait_dma2 semaphore(%73 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%69 : memref<256x256xbf16, #tpu.memory_space<hbm>>) dst(%71 : memref<256x256xbf16, #tpu.memory_space<vmem>>) loc("wait x")
    }
    %74 = arith.muli %n, %c512_i32 : i32
    %75 = arith.muli %k, %c256_i32 : i32
    %76 = tpu.memref_slice %w_q[%74, %75] : memref<1024x256xf8E4M3FN, #tpu.memory_space<hbm>> -> memref<512x256xf8E4M3FN, #tpu.memory_space<hbm>>
    %77 = tpu.memref_slice %w_q_x2[%slot, %c0_i32, %c0_i32] : memref<2x512x256xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<1x512x256xf8E4M3FN, #tpu.memory_space<vmem>>
    %78 = tpu.memref_squeeze %77 : memref<1x512x256xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<512x256xf8E4M3FN, #tpu.memory_space<vmem>>
    %79 = tpu.memref_slice %semaphores[%slot, %c1_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    %80 = tpu.memref_squeeze %79 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    tpu.wait_dma2 semaphore(%80 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%76 : memref<512x256xf8E4M3FN, #tpu.memory_space<hbm>>) dst(%78 : memref<512x256xf8E4M3FN, #tpu.memory_space<vmem>>) loc("wait w_q")
    %81 = tpu.memref_slice %w_scale[%n, %k, %c0_i32, %c0_i32] : memref<2x1x4x2xf32, #tpu.memory_space<hbm>> -> memref<1x1x4x2xf32, #tpu.memory_space<hbm>>
    %82 = tpu.memref_squeeze %81 : memref<1x1x4x2xf32, #tpu.memory_space<hbm>> -> memref<4x2xf32, #tpu.memory_space<hbm>>
    %83 = tpu.memref_slice %w_scale_x2[%slot, %c0_i32, %c0_i32] : memref<2x4x2xf32, #tpu.memory_space<smem>> -> memref<1x4x2xf32, #tpu.memory_space<smem>>
    %84 = tpu.memref_squeeze %83 : memref<1x4x2xf32, #tpu.memory_space<smem>> -> memref<4x2xf32, #tpu.memory_space<smem>>
    %85 = tpu.memref_slice %semaphores[%slot, %c2_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    %86 = tpu.memref_squeeze %85 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    tpu.wait_dma2 semaphore(%86 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%82 : memref<4x2xf32, #tpu.memory_space<hbm>>) dst(%84 : memref<4x2xf32, #tpu.memory_space<smem>>) loc("wait w_scale")
    %87 = tpu.memref_slice %x_abs_max[%m, %k, %c0_i32, %c0_i32] : memref<1x1x2x2xf32, #tpu.memory_space<hbm>> -> memref<1x1x2x2xf32, #tpu.memory_space<hbm>>
    %88 = tpu.memref_squeeze %87 : memref<1x1x2x2xf32, #tpu.memory_space<hbm>> -> memref<2x2xf32, #tpu.memory_space<hbm>>
    %89 = tpu.memref_slice %x_scale_x2[%slot, %c0_i32, %c0_i32] : memref<2x2x2xf32, #tpu.memory_space<smem>> -> memref<1x2x2xf32, #tpu.memory_space<smem>>
    %90 = tpu.memref_squeeze %89 : memref<1x2x2xf32, #tpu.memory_space<smem>> -> memref<2x2xf32, #tpu.memory_space<smem>>
    %91 = tpu.memref_slice %semaphores[%slot, %c3_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    %92 = tpu.memref_squeeze %91 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    tpu.wait_dma2 semaphore(%92 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%88 : memref<2x2xf32, #tpu.memory_space<hbm>>) dst(%90 : memref<2x2xf32, #tpu.memory_space<smem>>) loc("wait x_scale")
    %93 = arith.cmpi eq, %k, %c0_i32 : i32
    scf.if %93 {
      tpu.vector_store %acc[%c0, %c0], %cst {strides = array<i32>} : memref<256x512xf32, #tpu.memory_space<vmem>>, vector<256x512xf32>,
    }
    %94 = arith.index_cast %slot : i32 to index
    %95 = arith.index_cast %slot : i32 to index
    %96 = arith.index_cast %slot : i32 to index
    %97 = arith.index_cast %slot : i32 to index
    %98 = arith.index_cast %k : i32 to index
    %99 = arith.cmpi eq, %n, %c0_i32 : i32
    scf.if %99 {
      %100 = vector.load %x_x2[%94, %c0, %c0] : memref<2x256x256xbf16, #tpu.memory_space<vmem>>, vector<1x128x128xbf16>
      %101 = vector.shape_cast %100 : vector<1x128x128xbf16> to vector<128x128xbf16>
      %102 = arith.extf %101 : vector<128x128xbf16> to vector<128x128xf32>
      %103 = memref.load %x_scale_x2[%97, %c0, %c0] : memref<2x2x2xf32, #tpu.memory_space<smem>>
      %104 = arith.divf %103, %cst_v1 : f32
      %105 = arith.maximumf %104, %cst_v2 : f32
      %106 = arith.divf %cst_v3, %105 : f32
      %107 = vector.broadcast %106 : f32 to vector<128x128xf32>
      %108 = arith.mulf %102, %107 : vector<128x128xf32>
      %109 = arith.truncf %108 : vector<128x128xf32> to vector<128x128xf8E4M3FN>
      %110 = vector.shape_cast %109 : vector<128x128xf8E4M3FN> to vector<1x128x128xf8E4M3FN>
      tpu.vector_store %x_q[%98, %c0, %c0], %110 {strides = array<i32>} : memref<1x256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>,
      %111 = vector.load %x_x2[%94, %c0, %c128] : memref<2x256x256xbf16, #tpu.memory_space<vmem>>, vector<1x128x128xbf16>
      %112 = vector.shape_cast %111 : vector<1x128x128xbf16> to vector<128x128xbf16>
      %113 = arith.extf %112 : vector<128x128xbf16> to vector<128x128xf32>
      %114 = memref.load %x_scale_x2[%97, %c0, %c1] : memref<2x2x2xf32, #tpu.memory_space<smem>>
      %115 = arith.divf %114, %cst_v1 : f32
      %116 = arith.maximumf %115, %cst_v2 : f32
      %117 = arith.divf %cst_v3, %116 : f32
      %118 = vector.broadcast %117 : f32 to vector<128x128xf32>
      %119 = arith.mulf %113, %118 : vector<128x128xf32>
      %120 = arith.truncf %119 : vector<128x128xf32> to vector<128x128xf8E4M3FN>
      %121 = vector.shape_cast %120 : vector<128x128xf8E4M3FN> to vector<1x128x128xf8E4M3FN>
      tpu.vector_store %x_q[%98, %c0, %c128], %121 {strides = array<i32>} : memref<1x256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>,
      %122 = vector.load %x_x2[%94, %c128, %c0] : memref<2x256x256xbf16, #tpu.memory_space<vmem>>, vector<1x128x128xbf16>
      %123 = vector.shape_cast %122 : vector<1x128x128xbf16> to vector<128x128xbf16>
      %124 = arith.extf %123 : vector<128x128xbf16> to vector<128x128xf32>
      %125 = memref.load %x_scale_x2[%97, %c1, %c0] : memref<2x2x2xf32, #tpu.memory_space<smem>>
      %126 = arith.divf %125, %cst_v1 : f32
      %127 = arith.maximumf %126, %cst_v2 : f32
      %128 = arith.divf %cst_v3, %127 : f32
      %129 = vector.broadcast %128 : f32 to vector<128x128xf32>
      %130 = arith.mulf %124, %129 : vector<128x128xf32>
      %131 = arith.truncf %130 : vector<128x128xf32> to vector<128x128xf8E4M3FN>
      %132 = vector.shape_cast %131 : vector<128x128xf8E4M3FN> to vector<1x128x128xf8E4M3FN>
      tpu.vector_store %x_q[%98, %c128, %c0], %132 {strides = array<i32>} : memref<1x256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>,
      %133 = vector.load %x_x2[%94, %c128, %c128] : memref<2x256x256xbf16, #tpu.memory_space<vmem>>, vector<1x128x128xbf16>
      %134 = vector.shape_cast %133 : vector<1x128x128xbf16> to vector<128x128xbf16>
      %135 = arith.extf %134 : vector<128x128xbf16> to vector<128x128xf32>
      %136 = memref.load %x_scale_x2[%97, %c1, %c1] : memref<2x2x2xf32, #tpu.memory_space<smem>>
      %137 = arith.divf %136, %cst_v1 : f32
      %138 = arith.maximumf %137, %cst_v2 : f32
      %139 = arith.divf %cst_v3, %138 : f32
      %140 = vector.broadcast %139 : f32 to vector<128x128xf32>
      %141 = arith.mulf %135, %140 : vector<128x128xf32>
      %142 = arith.truncf %141 : vector<128x128xf32> to vector<128x128xf8E4M3FN>
      %143 = vector.shape_cast %142 : vector<128x128xf8E4M3FN> to vector<1x128x128xf8E4M3FN>
      tpu.vector_store %x_q[%98, %c128, %c128], %143 {strides = array<i32>} : memref<1x256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>,
    }
    %144 = vector.load %x_q[%98, %c0, %c0] : memref<1x256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %145 = vector.shape_cast %144 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %146 = vector.load %w_q_x2[%95, %c0, %c0] : memref<2x512x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %147 = vector.shape_cast %146 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %148 = tpu.matmul %145, %147, %cst_v4 {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<128x128xf8E4M3FN>, vector<128x128xf8E4M3FN>, vector<128x128xf32> -> vector<128x128xf32>
    %149 = memref.load %x_scale_x2[%97, %c0, %c0] : memref<2x2x2xf32, #tpu.memory_space<smem>>
    %150 = arith.divf %149, %cst_v1 : f32
    %151 = arith.maximumf %150, %cst_v2 : f32
    %152 = memref.load %w_scale_x2[%96, %c0, %c0] : memref<2x4x2xf32, #tpu.memory_space<smem>>
    %153 = arith.mulf %151, %152 : f32
    %154 = vector.broadcast %153 : f32 to vector<128x128xf32>
    %155 = arith.mulf %148, %154 : vector<128x128xf32>
    %156 = vector.load %x_q[%98, %c0, %c128] : memref<1x256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %157 = vector.shape_cast %156 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %158 = vector.load %w_q_x2[%95, %c0, %c128] : memref<2x512x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %159 = vector.shape_cast %158 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %160 = tpu.matmul %157, %159, %cst_v4 {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<128x128xf8E4M3FN>, vector<128x128xf8E4M3FN>, vector<128x128xf32> -> vector<128x128xf32>
    %161 = memref.load %x_scale_x2[%97, %c0, %c1] : memref<2x2x2xf32, #tpu.memory_space<smem>>
    %162 = arith.divf %161, %cst_v1 : f32
    %163 = arith.maximumf %162, %cst_v2 : f32
    %164 = memref.load %w_scale_x2[%96, %c0, %c1] : memref<2x4x2xf32, #tpu.memory_space<smem>>
    %165 = arith.mulf %163, %164 : f32
    %166 = vector.broadcast %165 : f32 to vector<128x128xf32>
    %167 = arith.mulf %160, %166 : vector<128x128xf32>
    %168 = arith.addf %155, %167 : vector<128x128xf32>
    %169 = vector.load %acc[%c0, %c0] : memref<256x512xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>
    %170 = arith.addf %169, %168 : vector<128x128xf32>
    tpu.vector_store %acc[%c0, %c0], %170 {strides = array<i32>} : memref<256x512xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>,
    %171 = vector.load %x_q[%98, %c128, %c0] : memref<1x256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %172 = vector.shape_cast %171 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %173 = vector.load %w_q_x2[%95, %c0, %c0] : memref<2x512x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %174 = vector.shape_cast %173 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %175 = tpu.matmul %172, %174, %cst_v4 {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<128x128xf8E4M3FN>, vector<128x128xf8E4M3FN>, vector<128x128xf32> -> vector<128x128xf32>
    %176 = memref.load %x_scale_x2[%97, %c1, %c0] : memref<2x2x2xf32, #tpu.memory_space<smem>>
    %177 = arith.divf %176, %cst_v1 : f32
    %178 = arith.maximumf %177, %cst_v2 : f32
    %179 = memref.load %w_scale_x2[%96, %c0, %c0] : memref<2x4x2xf32, #tpu.memory_space<smem>>
    %180 = arith.mulf %178, %179 : f32
    %181 = vector.broadcast %180 : f32 to vector<128x128xf32>
    %182 = arith.mulf %175, %181 : vector<128x128xf32>
    %183 = vector.load %x_q[%98, %c128, %c128] : memref<1x256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %184 = vector.shape_cast %183 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %185 = vector.load %w_q_x2[%95, %c0, %c128] : memref<2x512x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %186 = vector.shape_cast %185 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %187 = tpu.matmul %184, %186, %cst_v4 {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<128x128xf8E4M3FN>, vector<128x128xf8E4M3FN>, vector<128x128xf32> -> vector<128x128xf32>
    %188 = memref.load %x_scale_x2[%97, %c1, %c1] : memref<2x2x2xf32, #tpu.memory_space<smem>>
    %189 = arith.divf %188, %cst_v1 : f32
    %190 = arith.maximumf %189, %cst_v2 : f32
    %191 = memref.load %w_scale_x2[%96, %c0, %c1] : memref<2x4x2xf32, #tpu.memory_space<smem>>
    %192 = arith.mulf %190, %191 : f32
    %193 = vector.broadcast %192 : f32 to vector<128x128xf32>
    %194 = arith.mulf %187, %193 : vector<128x128xf32>
    %195 = arith.addf %182, %194 : vector<128x128xf32>
    %196 = vector.load %acc[%c128, %c0] : memref<256x512xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>
    %197 = arith.addf %196, %195 : vector<128x128xf32>
    tpu.vector_store %acc[%c128, %c0], %197 {strides = array<i32>} : memref<256x512xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>,
    %198 = vector.load %x_q[%98, %c0, %c0] : memref<1x256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %199 = vector.shape_cast %198 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %200 = vector.load %w_q_x2[%95, %c128, %c0] : memref<2x512x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %201 = vector.shape_cast %200 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %202 = tpu.matmul %199, %201, %cst_v4 {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<128x128xf8E4M3FN>, vector<128x128xf8E4M3FN>, vector<128x128xf32> -> vector<128x128xf32>
    %203 = memref.load %x_scale_x2[%97, %c0, %c0] : memref<2x2x2xf32, #tpu.memory_space<smem>>
    %204 = arith.divf %203, %cst_v1 : f32
    %205 = arith.maximumf %204, %cst_v2 : f32
    %206 = memref.load %w_scale_x2[%96, %c1, %c0] : memref<2x4x2xf32, #tpu.memory_space<smem>>
    %207 = arith.mulf %205, %206 : f32
    %208 = vector.broadcast %207 : f32 to vector<128x128xf32>
    %209 = arith.mulf %202, %208 : vector<128x128xf32>
    %210 = vector.load %x_q[%98, %c0, %c128] : memref<1x256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %211 = vector.shape_cast %210 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %212 = vector.load %w_q_x2[%95, %c128, %c128] : memref<2x512x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %213 = vector.shape_cast %212 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %214 = tpu.matmul %211, %213, %cst_v4 {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<128x128xf8E4M3FN>, vector<128x128xf8E4M3FN>, vector<128x128xf32> -> vector<128x128xf32>
    %215 = memref.load %x_scale_x2[%97, %c0, %c1] : memref<2x2x2xf32, #tpu.memory_space<smem>>
    %216 = arith.divf %215, %cst_v1 : f32
    %217 = arith.maximumf %216, %cst_v2 : f32
    %218 = memref.load %w_scale_x2[%96, %c1, %c1] : memref<2x4x2xf32, #tpu.memory_space<smem>>
    %219 = arith.mulf %217, %218 : f32
    %220 = vector.broadcast %219 : f32 to vector<128x128xf32>
    %221 = arith.mulf %214, %220 : vector<128x128xf32>
    %222 = arith.addf %209, %221 : vector<128x128xf32>
    %223 = vector.load %acc[%c0, %c128] : memref<256x512xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>
    %224 = arith.addf %223, %222 : vector<128x128xf32>
    tpu.vector_store %acc[%c0, %c128], %224 {strides = array<i32>} : memref<256x512xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>,
    %225 = vector.load %x_q[%98, %c128, %c0] : memref<1x256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %226 = vector.shape_cast %225 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %227 = vector.load %w_q_x2[%95, %c128, %c0] : memref<2x512x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %228 = vector.shape_cast %227 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %229 = tpu.matmul %226, %228, %cst_v4 {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<128x128xf8E4M3FN>, vector<128x128xf8E4M3FN>, vector<128x128xf32> -> vector<128x128xf32>
    %230 = memref.load %x_scale_x2[%97, %c1, %c0] : memref<2x2x2xf32, #tpu.memory_space<smem>>
    %231 = arith.divf %230, %cst_v1 : f32
    %232 = arith.maximumf %231, %cst_v2 : f32
    %233 = memref.load %w_scale_x2[%96, %c1, %c0] : memref<2x4x2xf32, #tpu.memory_space<smem>>
    %234 = arith.mulf %232, %233 : f32
    %235 = vector.broadcast %234 : f32 to vector<128x128xf32>
    %236 = arith.mulf %229, %235 : vector<128x128xf32>
    %237 = vector.load %x_q[%98, %c128, %c128] : memref<1x256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %238 = vector.shape_cast %237 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %239 = vector.load %w_q_x2[%95, %c128, %c128] : memref<2x512x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %240 = vector.shape_cast %239 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %241 = tpu.matmul %238, %240, %cst_v4 {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<128x128xf8E4M3FN>, vector<128x128xf8E4M3FN>, vector<128x128xf32> -> vector<128x128xf32>
    %242 = memref.load %x_scale_x2[%97, %c1, %c1] : memref<2x2x2xf32, #tpu.memory_space<smem>>
    %243 = arith.divf %242, %cst_v1 : f32
    %244 = arith.maximumf %243, %cst_v2 : f32
    %245 = memref.load %w_scale_x2[%96, %c1, %c1] : memref<2x4x2xf32, #tpu.memory_space<smem>>
    %246 = arith.mulf %244, %245 : f32
    %247 = vector.broadcast %246 : f32 to vector<128x128xf32>
    %248 = arith.mulf %241, %247 : vector<128x128xf32>
    %249 = arith.addf %236, %248 : vector<128x128xf32>
    %250 = vector.load %acc[%c128, %c128] : memref<256x512xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>
    %251 = arith.addf %250, %249 : vector<128x128xf32>
    tpu.vector_store %acc[%c128, %c128], %251 {strides = array<i32>} : memref<256x512xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>,
    %252 = vector.load %x_q[%98, %c0, %c0] : memref<1x256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %253 = vector.shape_cast %252 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %254 = vector.load %w_q_x2[%95, %c256, %c0] : memref<2x512x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %255 = vector.shape_cast %254 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %256 = tpu.matmul %253, %255, %cst_v4 {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<128x128xf8E4M3FN>, vector<128x128xf8E4M3FN>, vector<128x128xf32> -> vector<128x128xf32>
    %257 = memref.load %x_scale_x2[%97, %c0, %c0] : memref<2x2x2xf32, #tpu.memory_space<smem>>
    %258 = arith.divf %257, %cst_v1 : f32
    %259 = arith.maximumf %258, %cst_v2 : f32
    %260 = memref.load %w_scale_x2[%96, %c2, %c0] : memref<2x4x2xf32, #tpu.memory_space<smem>>
    %261 = arith.mulf %259, %260 : f32
    %262 = vector.broadcast %261 : f32 to vector<128x128xf32>
    %263 = arith.mulf %256, %262 : vector<128x128xf32>
    %264 = vector.load %x_q[%98, %c0, %c128] : memref<1x256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %265 = vector.shape_cast %264 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %266 = vector.load %w_q_x2[%95, %c256, %c128] : memref<2x512x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %267 = vector.shape_cast %266 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %268 = tpu.matmul %265, %267, %cst_v4 {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<128x128xf8E4M3FN>, vector<128x128xf8E4M3FN>, vector<128x128xf32> -> vector<128x128xf32>
    %269 = memref.load %x_scale_x2[%97, %c0, %c1] : memref<2x2x2xf32, #tpu.memory_space<smem>>
    %270 = arith.divf %269, %cst_v1 : f32
    %271 = arith.maximumf %270, %cst_v2 : f32
    %272 = memref.load %w_scale_x2[%96, %c2, %c1] : memref<2x4x2xf32, #tpu.memory_space<smem>>
    %273 = arith.mulf %271, %272 : f32
    %274 = vector.broadcast %273 : f32 to vector<128x128xf32>
    %275 = arith.mulf %268, %274 : vector<128x128xf32>
    %276 = arith.addf %263, %275 : vector<128x128xf32>
    %277 = vector.load %acc[%c0, %c256] : memref<256x512xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>
    %278 = arith.addf %277, %276 : vector<128x128xf32>
    tpu.vector_store %acc[%c0, %c256], %278 {strides = array<i32>} : memref<256x512xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>,
    %279 = vector.load %x_q[%98, %c128, %c0] : memref<1x256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %280 = vector.shape_cast %279 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %281 = vector.load %w_q_x2[%95, %c256, %c0] : memref<2x512x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %282 = vector.shape_cast %281 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %283 = tpu.matmul %280, %282, %cst_v4 {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<128x128xf8E4M3FN>, vector<128x128xf8E4M3FN>, vector<128x128xf32> -> vector<128x128xf32>
    %284 = memref.load %x_scale_x2[%97, %c1, %c0] : memref<2x2x2xf32, #tpu.memory_space<smem>>
    %285 = arith.divf %284, %cst_v1 : f32
    %286 = arith.maximumf %285, %cst_v2 : f32
    %287 = memref.load %w_scale_x2[%96, %c2, %c0] : memref<2x4x2xf32, #tpu.memory_space<smem>>
    %288 = arith.mulf %286, %287 : f32
    %289 = vector.broadcast %288 : f32 to vector<128x128xf32>
    %290 = arith.mulf %283, %289 : vector<128x128xf32>
    %291 = vector.load %x_q[%98, %c128, %c128] : memref<1x256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %292 = vector.shape_cast %291 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %293 = vector.load %w_q_x2[%95, %c256, %c128] : memref<2x512x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %294 = vector.shape_cast %293 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %295 = tpu.matmul %292, %294, %cst_v4 {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<128x128xf8E4M3FN>, vector<128x128xf8E4M3FN>, vector<128x128xf32> -> vector<128x128xf32>
    %296 = memref.load %x_scale_x2[%97, %c1, %c1] : memref<2x2x2xf32, #tpu.memory_space<smem>>
    %297 = arith.divf %296, %cst_v1 : f32
    %298 = arith.maximumf %297, %cst_v2 : f32
    %299 = memref.load %w_scale_x2[%96, %c2, %c1] : memref<2x4x2xf32, #tpu.memory_space<smem>>
    %300 = arith.mulf %298, %299 : f32
    %301 = vector.broadcast %300 : f32 to vector<128x128xf32>
    %302 = arith.mulf %295, %301 : vector<128x128xf32>
    %303 = arith.addf %290, %302 : vector<128x128xf32>
    %304 = vector.load %acc[%c128, %c256] : memref<256x512xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>
    %305 = arith.addf %304, %303 : vector<128x128xf32>
    tpu.vector_store %acc[%c128, %c256], %305 {strides = array<i32>} : memref<256x512xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>,
    %306 = vector.load %x_q[%98, %c0, %c0] : memref<1x256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %307 = vector.shape_cast %306 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %308 = vector.load %w_q_x2[%95, %c384, %c0] : memref<2x512x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %309 = vector.shape_cast %308 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %310 = tpu.matmul %307, %309, %cst_v4 {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<128x128xf8E4M3FN>, vector<128x128xf8E4M3FN>, vector<128x128xf32> -> vector<128x128xf32>
    %311 = memref.load %x_scale_x2[%97, %c0, %c0] : memref<2x2x2xf32, #tpu.memory_space<smem>>
    %312 = arith.divf %311, %cst_v1 : f32
    %313 = arith.maximumf %312, %cst_v2 : f32
    %314 = memref.load %w_scale_x2[%96, %c3, %c0] : memref<2x4x2xf32, #tpu.memory_space<smem>>
    %315 = arith.mulf %313, %314 : f32
    %316 = vector.broadcast %315 : f32 to vector<128x128xf32>
    %317 = arith.mulf %310, %316 : vector<128x128xf32>
    %318 = vector.load %x_q[%98, %c0, %c128] : memref<1x256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %319 = vector.shape_cast %318 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %320 = vector.load %w_q_x2[%95, %c384, %c128] : memref<2x512x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %321 = vector.shape_cast %320 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %322 = tpu.matmul %319, %321, %cst_v4 {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<128x128xf8E4M3FN>, vector<128x128xf8E4M3FN>, vector<128x128xf32> -> vector<128x128xf32>
    %323 = memref.load %x_scale_x2[%97, %c0, %c1] : memref<2x2x2xf32, #tpu.memory_space<smem>>
    %324 = arith.divf %323, %cst_v1 : f32
    %325 = arith.maximumf %324, %cst_v2 : f32
    %326 = memref.load %w_scale_x2[%96, %c3, %c1] : memref<2x4x2xf32, #tpu.memory_space<smem>>
    %327 = arith.mulf %325, %326 : f32
    %328 = vector.broadcast %327 : f32 to vector<128x128xf32>
    %329 = arith.mulf %322, %328 : vector<128x128xf32>
    %330 = arith.addf %317, %329 : vector<128x128xf32>
    %331 = vector.load %acc[%c0, %c384] : memref<256x512xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>
    %332 = arith.addf %331, %330 : vector<128x128xf32>
    tpu.vector_store %acc[%c0, %c384], %332 {strides = array<i32>} : memref<256x512xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>,
    %333 = vector.load %x_q[%98, %c128, %c0] : memref<1x256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %334 = vector.shape_cast %333 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %335 = vector.load %w_q_x2[%95, %c384, %c0] : memref<2x512x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %336 = vector.shape_cast %335 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %337 = tpu.matmul %334, %336, %cst_v4 {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<128x128xf8E4M3FN>, vector<128x128xf8E4M3FN>, vector<128x128xf32> -> vector<128x128xf32>
    %338 = memref.load %x_scale_x2[%97, %c1, %c0] : memref<2x2x2xf32, #tpu.memory_space<smem>>
    %339 = arith.divf %338, %cst_v1 : f32
    %340 = arith.maximumf %339, %cst_v2 : f32
    %341 = memref.load %w_scale_x2[%96, %c3, %c0] : memref<2x4x2xf32, #tpu.memory_space<smem>>
    %342 = arith.mulf %340, %341 : f32
    %343 = vector.broadcast %342 : f32 to vector<128x128xf32>
    %344 = arith.mulf %337, %343 : vector<128x128xf32>
    %345 = vector.load %x_q[%98, %c128, %c128] : memref<1x256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %346 = vector.shape_cast %345 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %347 = vector.load %w_q_x2[%95, %c384, %c128] : memref<2x512x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %348 = vector.shape_cast %347 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %349 = tpu.matmul %346, %348, %cst_v4 {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<128x128xf8E4M3FN>, vector<128x128xf8E4M3FN>, vector<128x128xf32> -> vector<128x128xf32>
    %350 = memref.load %x_scale_x2[%97, %c1, %c1] : memref<2x2x2xf32, #tpu.memory_space<smem>>
    %351 = arith.divf %350, %cst_v1 : f32
    %352 = arith.maximumf %351, %cst_v2 : f32
    %353 = memref.load %w_scale_x2[%96, %c3, %c1] : memref<2x4x2xf32, #tpu.memory_space<smem>>
    %354 = arith.mulf %352, %353 : f32
    %355 = vector.broadcast %354 : f32 to vector<128x128xf32>
    %356 = arith.mulf %349, %355 : vector<128x128xf32>
    %357 = arith.addf %344, %356 : vector<128x128xf32>
    %358 = vector.load %acc[%c128, %c384] : memref<256x512xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>
    %359 = arith.addf %358, %357 : vector<128x128xf32>
    tpu.vector_store %acc[%c128, %c384], %359 {strides = array<i32>} : memref<256x512xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>,
    %360 = arith.cmpi eq, %k, %c0_i32 : i32
    scf.if %360 {
      %out_slot = arith.remsi %tile, %c2_i32 : i32
      %361 = arith.index_cast %out_slot : i32 to index
      %362 = vector.load %acc[%c0, %c0] : memref<256x512xf32, #tpu.memory_space<vmem>>, vector<256x512xf32>
      %363 = vector.shape_cast %362 : vector<256x512xf32> to vector<1x256x512xf32>
      tpu.vector_store %out_x2[%361, %c0, %c0], %363 {strides = array<i32>} : memref<2x256x512xf32, #tpu.memory_space<vmem>>, vector<1x256x512xf32>,
      %364 = arith.muli %m, %c256_i32 : i32
      %365 = arith.muli %n, %c512_i32 : i32
      %366 = tpu.memref_slice %out[%364, %365] : memref<256x1024xf32, #tpu.memory_space<hbm>> -> memref<256x512xf32, #tpu.memory_space<hbm>>
      %367 = tpu.memref_slice %out_x2[%out_slot, %c0_i32, %c0_i32] : memref<2x256x512xf32, #tpu.memory_space<vmem>> -> memref<1x256x512xf32, #tpu.memory_space<vmem>>
      %368 = tpu.memref_squeeze %367 : memref<1x256x512xf32, #tpu.memory_space<vmem>> -> memref<256x512xf32, #tpu.memory_space<vmem>>
      %369 = tpu.memref_slice %semaphores[%out_slot, %c4_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %370 = tpu.memref_squeeze %369 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%368 : memref<256x512xf32, #tpu.memory_space<vmem>>) target(%366 : memref<256x512xf32, #tpu.memory_space<hbm>>) target_semaphore(%370 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start out")
      %371 = arith.cmpi eq, %tile, %c1_i32 : i32
      scf.if %371 {
        %372 = arith.divsi %tile, %c2_i32 : i32
        %373 = arith.remsi %tile, %c2_i32 : i32
        %374 = arith.muli %372, %c256_i32 : i32
        %375 = arith.muli %373, %c512_i32 : i32
        %376 = tpu.memref_slice %out[%374, %375] : memref<256x1024xf32, #tpu.memory_space<hbm>> -> memref<256x512xf32, #tpu.memory_space<hbm>>
        %377 = tpu.memref_slice %out_x2[%out_slot, %c0_i32, %c0_i32] : memref<2x256x512xf32, #tpu.memory_space<vmem>> -> memref<1x256x512xf32, #tpu.memory_space<vmem>>
        %378 = tpu.memref_squeeze %377 : memref<1x256x512xf32, #tpu.memory_space<vmem>> -> memref<256x512xf32, #tpu.memory_space<vmem>>
        %379 = tpu.memref_slice %semaphores[%out_slot, %c4_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        %380 = tpu.memref_squeeze %379 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        tpu.wait_dma2 semaphore(%380 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%378 : memref<256x512xf32, #tpu.memory_space<vmem>>) dst(%376 : memref<256x512xf32, #tpu.memory_space<hbm>>) loc("wait out")
        %381 = arith.subi %tile, %c1_i32 : i32
        %382 = arith.subi %c1_i32, %out_slot : i32
        %383 = arith.divsi %381, %c2_i32 : i32
        %384 = arith.remsi %381, %c2_i32 : i32
        %385 = arith.muli %383, %c256_i32 : i32
        %386 = arith.muli %384, %c512_i32 : i32
        %387 = tpu.memref_slice %out[%385, %386] : memref<256x1024xf32, #tpu.memory_space<hbm>> -> memref<256x512xf32, #tpu.memory_space<hbm>>
        %388 = tpu.memref_slice %out_x2[%382, %c0_i32, %c0_i32] : memref<2x256x512xf32, #tpu.memory_space<vmem>> -> memref<1x256x512xf32, #tpu.memory_space<vmem>>
        %389 = tpu.memref_squeeze %388 : memref<1x256x512xf32, #tpu.memory_space<vmem>> -> memref<256x512xf32, #tpu.memory_space<vmem>>
        %390 = tpu.memref_slice %semaphores[%382, %c4_i32] : memref<2x5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        %391 = tpu.memref_squeeze %390 : memref<1x1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        tpu.wait_dma2 semaphore(%391 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%389 : memref<256x512xf32, #tpu.memory_space<vmem>>) dst(%387 : memref<256x512xf32, #tpu.memory_space<hbm>>) loc("wait out")
      }
    }
    return
  }
}
