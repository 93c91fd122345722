// strip aligned 128x256x128:128 x=bf16 scales=block out=f32 print=mosaic
module attributes {stable_mosaic.version = 15 : i64} {
  func.func @octile_strip_aligned(%m: i32, %n: i32, %k: i32, %x: memref<128x128xbf16, #tpu.memory_space<hbm>>, %w_q: memref<256x128xf8E4M3FN, #tpu.memory_space<hbm>>, %w_scale: memref<2x1xf32, #tpu.memory_space<hbm>>, %x_abs_max: memref<1x1xf32, #tpu.memory_space<hbm>>, %out: memref<128x256xf32, #tpu.memory_space<hbm>>, %x_kept: memref<128x128xbf16, #tpu.memory_space<vmem>>, %w_ring: memref<2x128x128xf8E4M3FN, #tpu.memory_space<vmem>>, %w_scale_kept: memref<2x1xf32, #tpu.memory_space<smem>>, %x_scale_kept: memref<1x1xf32, #tpu.memory_space<smem>>, %out_kept: memref<128x256xf32, #tpu.memory_space<vmem>>, %semaphores: memref<7x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>, %x_q: memref<1x128x128xf8E4M3FN, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [#tpu.dimension_semantics<arbitrary>, #tpu.dimension_semantics<arbitrary>, #tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 1, 2, 1>, scalar_prefetch = 0 : i64, scratch_operands = 7 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{}, {}, {}, {}, {}]} {
    %c0_i32 = arith.constant 0 : i32
    %c2_i32 = arith.constant 2 : i32
    %c3_i32 = arith.constant 3 : i32
    %c1_i32 = arith.constant 1 : i32
    %c128_i32 = arith.constant 128 : i32
    %c5_i32 = arith.constant 5 : i32
    %c0 = arith.constant 0 : index
    %cst = arith.constant 4.480000e+02 : f32
    %cst_v1 = arith.constant 1.1754943508222875e-38 : f32
    %cst_v2 = arith.constant 1.000000e+00 : f32
    %cst_v3 = arith.constant dense<0.000000e+00> : vector<128x128xf32>
    %c4_i32 = arith.constant 4 : i32
    %0 = arith.cmpi eq, %n, %c0_i32 : i32
    scf.if %0 {
      %1 = tpu.memref_slice %semaphores[%c0_i32] : memref<7x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %2 = tpu.memref_squeeze %1 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %3 = tpu.memref_slice %semaphores[%c2_i32] : memref<7x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %4 = tpu.memref_squeeze %3 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %5 = tpu.memref_slice %semaphores[%c3_i32] : memref<7x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %6 = tpu.memref_squeeze %5 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%x : memref<128x128xbf16, #tpu.memory_space<hbm>>) target(%x_kept : memref<128x128xbf16, #tpu.memory_space<vmem>>) target_semaphore(%2 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start x")
      tpu.enqueue_dma source(%w_scale : memref<2x1xf32, #tpu.memory_space<hbm>>) target(%w_scale_kept : memref<2x1xf32, #tpu.memory_space<smem>>) target_semaphore(%4 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start w_scale")
      tpu.enqueue_dma source(%x_abs_max : memref<1x1xf32, #tpu.memory_space<hbm>>) target(%x_scale_kept : memref<1x1xf32, #tpu.memory_space<smem>>) target_semaphore(%6 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start x_scale")
      scf.for %piece = %c0_i32 to %c2_i32 step %c1_i32 : i32 {
        %7 = arith.muli %piece, %c128_i32 : i32
        %8 = arith.addi %piece, %c5_i32 : i32
        %9 = tpu.memref_slice %w_q[%7, %c0_i32] : memref<256x128xf8E4M3FN, #tpu.memory_space<hbm>> -> memref<128x128xf8E4M3FN, #tpu.memory_space<hbm>>
        %10 = tpu.memref_slice %w_ring[%piece, %c0_i32, %c0_i32] : memref<2x128x128xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<1x128x128xf8E4M3FN, #tpu.memory_space<vmem>>
        %11 = tpu.memref_squeeze %10 : memref<1x128x128xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<128x128xf8E4M3FN, #tpu.memory_space<vmem>>
        %12 = tpu.memref_slice %semaphores[%8] : memref<7x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        %13 = tpu.memref_squeeze %12 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        tpu.enqueue_dma source(%9 : memref<128x128xf8E4M3FN, #tpu.memory_space<hbm>>) target(%11 : memref<128x128xf8E4M3FN, #tpu.memory_space<vmem>>) target_semaphore(%13 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start w_q")
      }
      tpu.wait_dma2 semaphore(%2 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%x : memref<128x128xbf16, #tpu.memory_space<hbm>>) dst(%x_kept : memref<128x128xbf16, #tpu.memory_space<vmem>>) loc("wait x")
      tpu.wait_dma2 semaphore(%4 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%w_scale : memref<2x1xf32, #tpu.memory_space<hbm>>) dst(%w_scale_kept : memref<2x1xf32, #tpu.memory_space<smem>>) loc("wait w_scale")
      tpu.wait_dma2 semaphore(%6 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%x_abs_max : memref<1x1xf32, #tpu.memory_space<hbm>>) dst(%x_scale_kept : memref<1x1xf32, #tpu.memory_space<smem>>) loc("wait x_scale")
    }
    %14 = arith.index_cast %k : i32 to index
    %15 = arith.cmpi eq, %n, %c0_i32 : i32
    scf.if %15 {
      %16 = vector.load %x_kept[%c0, %c0] : memref<128x128xbf16, #tpu.memory_space<vmem>>, vector<128x128xbf16>
      %17 = arith.extf %16 : vector<128x128xbf16> to vector<128x128xf32>
      %18 = memref.load %x_scale_kept[%c0, %c0] : memref<1x1xf32, #tpu.memory_space<smem>>
      %19 = arith.divf %18, %cst : f32
      %20 = arith.maximumf %19, %cst_v1 : f32
      %21 = arith.divf %cst_v2, %20 : f32
      %22 = vector.broadcast %21 : f32 to vector<128x128xf32>
      %23 = arith.mulf %17, %22 : vector<128x128xf32>
      %24 = arith.truncf %23 : vector<128x128xf32> to vector<128x128xf8E4M3FN>
      %25 = vector.shape_cast %24 : vector<128x128xf8E4M3FN> to vector<1x128x128xf8E4M3FN>
      tpu.vector_store %x_q[%14, %c0, %c0], %25 {strides = array<i32>} : memref<1x128x128xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>,
    }
    %26 = arith.muli %n, %c1_i32 : i32
    %27 = arith.muli %n, %c1_i32 : i32
    %28 = arith.addi %27, %c0_i32 : i32
    %29 = arith.remsi %28, %c2_i32 : i32
    %30 = arith.muli %28, %c128_i32 : i32
    %31 = arith.addi %29, %c5_i32 : i32
    %32 = tpu.memref_slice %w_q[%30, %c0_i32] : memref<256x128xf8E4M3FN, #tpu.memory_space<hbm>> -> memref<128x128xf8E4M3FN, #tpu.memory_space<hbm>>
    %33 = tpu.memref_slice %w_ring[%29, %c0_i32, %c0_i32] : memref<2x128x128xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<1x128x128xf8E4M3FN, #tpu.memory_space<vmem>>
    %34 = tpu.memref_squeeze %33 : memref<1x128x128xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<128x128xf8E4M3FN, #tpu.memory_space<vmem>>
    %35 = tpu.memref_slice %semaphores[%31] : memref<7x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    %36 = tpu.memref_squeeze %35 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    tpu.wait_dma2 semaphore(%36 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%32 : memref<128x128xf8E4M3FN, #tpu.memory_space<hbm>>) dst(%34 : memref<128x128xf8E4M3FN, #tpu.memory_space<vmem>>) loc("wait w_q")
    %37 = arith.index_cast %29 : i32 to index
    %38 = vector.load %x_q[%14, %c0, %c0] : memref<1x128x128xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %39 = vector.shape_cast %38 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %40 = vector.load %w_ring[%37, %c0, %c0] : memref<2x128x128xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x128x128xf8E4M3FN>
    %41 = vector.shape_cast %40 : vector<1x128x128xf8E4M3FN> to vector<128x128xf8E4M3FN>
    %42 = tpu.matmul %39, %41, %cst_v3 {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<128x128xf8E4M3FN>, vector<128x128xf8E4M3FN>, vector<128x128xf32> -> vector<128x128xf32>
    %43 = memref.load %x_scale_kept[%c0, %c0] : memref<1x1xf32, #tpu.memory_space<smem>>
    %44 = arith.divf %43, %cst : f32
    %45 = arith.maximumf %44, %cst_v1 : f32
    %46 = arith.addi %26, %c0_i32 : i32
    %47 = arith.index_cast %46 : i32 to index
    %48 = arith.addi %c0_i32, %c0_i32 : i32
    %49 = arith.index_cast %48 : i32 to index
    %50 = memref.load %w_scale_kept[%47, %49] : memref<2x1xf32, #tpu.memory_space<smem>>
    %51 = arith.mulf %45, %50 : f32
    %52 = vector.broadcast %51 : f32 to vector<128x128xf32>
    %53 = arith.mulf %42, %52 : vector<128x128xf32>
    %54 = arith.muli %n, %c128_i32 : i32
    %55 = arith.addi %54, %c0_i32 : i32
    %56 = tpu.assume_multiple %55, 128 : i32
    %57 = arith.index_cast %56 : i32 to index
    tpu.vector_store %out_kept[%c0, %57], %53 {strides = array<i32>} : memref<128x256xf32, #tpu.memory_space<vmem>>, vector<128x128xf32>,
    %58 = arith.muli %28, %c128_i32 : i32
    %59 = tpu.memref_slice %out_kept[%c0_i32, %58] : memref<128x256xf32, #tpu.memory_space<vmem>> -> memref<128x128xf32, #tpu.memory_space<vmem>>
    %60 = tpu.memref_slice %out[%c0_i32, %58] : memref<128x256xf32, #tpu.memory_space<hbm>> -> memref<128x128xf32, #tpu.memory_space<hbm>>
    %61 = tpu.memref_slice %semaphores[%c4_i32] : memref<7x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    %62 = tpu.memref_squeeze %61 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    tpu.enqueue_dma source(%59 : memref<128x128xf32, #tpu.memory_space<vmem>>) target(%60 : memref<128x128xf32, #tpu.memory_space<hbm>>) target_semaphore(%62 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start out")
    %63 = arith.cmpi eq, %n, %c1_i32 : i32
    scf.if %63 {
      scf.for %piece_v1 = %c0_i32 to %c2_i32 step %c1_i32 : i32 {
        %64 = arith.muli %piece_v1, %c128_i32 : i32
        %65 = tpu.memref_slice %out_kept[%c0_i32, %64] : memref<128x256xf32, #tpu.memory_space<vmem>> -> memref<128x128xf32, #tpu.memory_space<vmem>>
        %66 = tpu.memref_slice %out[%c0_i32, %64] : memref<128x256xf32, #tpu.memory_space<hbm>> -> memref<128x128xf32, #tpu.memory_space<hbm>>
        %67 = tpu.memref_slice %semaphores[%c4_i32] : memref<7x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        %68 = tpu.memref_squeeze %67 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        tpu.wait_dma2 semaphore(%68 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%65 : memref<128x128xf32, #tpu.memory_space<vmem>>) dst(%66 : memref<128x128xf32, #tpu.memory_space<hbm>>) loc("wait out")
      }
    }
    return
  }
}
