// strip large 256x256x256:128 x=fp8 scales=block out=bf16 print=mosaic
module attributes {stable_mosaic.version = 15 : i64} {
  func.func @octile_strip_large(%m: i32, %n: i32, %k: i32, %x: memref<256x256xf8E4M3FN, #tpu.memory_space<hbm>>, %w_q: memref<256x256xf8E4M3FN, #tpu.memory_space<hbm>>, %w_scale: memref<2x2xf32, #tpu.memory_space<hbm>>, %x_scale: memref<2x256xf32, #tpu.memory_space<hbm>>, %out: memref<256x256xbf16, #tpu.memory_space<hbm>>, %x_ring: memref<1x256x256xf8E4M3FN, #tpu.memory_space<vmem>>, %w_kept: memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, %w_scale_kept: memref<2x2xf32, #tpu.memory_space<smem>>, %x_scale_ring: memref<1x2x256xf32, #tpu.memory_space<vmem>>, %out_ring: memref<1x256x256xbf16, #tpu.memory_space<vmem>>, %x_bf16: memref<2x256x256xbf16, #tpu.memory_space<vmem>>, %w_bf16: memref<2x256x256xbf16, #tpu.memory_space<vmem>>, %semaphores: memref<7x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) attributes {dimension_semantics = [#tpu.dimension_semantics<arbitrary>, #tpu.dimension_semantics<arbitrary>, #tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 1, 1, 1>, scalar_prefetch = 0 : i64, scratch_operands = 8 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{}, {}, {}, {}, {}]} {
    %c0_i32 = arith.constant 0 : i32
    %c5_i32 = arith.constant 5 : i32
    %c1_i32 = arith.constant 1 : i32
    %c4_i32 = arith.constant 4 : i32
    %c0 = arith.constant 0 : index
    %c128 = arith.constant 128 : index
    %c1 = arith.constant 1 : index
    %cst = arith.constant dense<0.000000e+00> : vector<256x256xf32>
    %0 = arith.cmpi eq, %m, %c0_i32 : i32
    scf.if %0 {
      %1 = tpu.memref_slice %semaphores[%c0_i32] : memref<7x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %2 = tpu.memref_squeeze %1 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%w_scale : memref<2x2xf32, #tpu.memory_space<hbm>>) target(%w_scale_kept : memref<2x2xf32, #tpu.memory_space<smem>>) target_semaphore(%2 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start w_scale")
      %3 = arith.addi %c5_i32, %c1_i32 : i32
      %4 = tpu.memref_slice %x_scale_ring[%c0_i32, %c0_i32, %c0_i32] : memref<1x2x256xf32, #tpu.memory_space<vmem>> -> memref<1x2x256xf32, #tpu.memory_space<vmem>>
      %5 = tpu.memref_squeeze %4 : memref<1x2x256xf32, #tpu.memory_space<vmem>> -> memref<2x256xf32, #tpu.memory_space<vmem>>
      %6 = tpu.memref_slice %x_ring[%c0_i32, %c0_i32, %c0_i32] : memref<1x256x256xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<1x256x256xf8E4M3FN, #tpu.memory_space<vmem>>
      %7 = tpu.memref_squeeze %6 : memref<1x256x256xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>
      %8 = tpu.memref_slice %x_scale[%c0_i32, %c0_i32] : memref<2x256xf32, #tpu.memory_space<hbm>> -> memref<2x256xf32, #tpu.memory_space<hbm>>
      %9 = tpu.memref_slice %semaphores[%3] : memref<7x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %10 = tpu.memref_squeeze %9 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %11 = tpu.memref_slice %x[%c0_i32, %c0_i32] : memref<256x256xf8E4M3FN, #tpu.memory_space<hbm>> -> memref<256x256xf8E4M3FN, #tpu.memory_space<hbm>>
      %12 = tpu.memref_slice %semaphores[%c5_i32] : memref<7x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %13 = tpu.memref_squeeze %12 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%8 : memref<2x256xf32, #tpu.memory_space<hbm>>) target(%5 : memref<2x256xf32, #tpu.memory_space<vmem>>) target_semaphore(%10 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start x_scale")
      tpu.enqueue_dma source(%11 : memref<256x256xf8E4M3FN, #tpu.memory_space<hbm>>) target(%7 : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>) target_semaphore(%13 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start x")
      %14 = tpu.memref_slice %w_q[%c0_i32, %c0_i32] : memref<256x256xf8E4M3FN, #tpu.memory_space<hbm>> -> memref<256x256xf8E4M3FN, #tpu.memory_space<hbm>>
      %15 = tpu.memref_slice %w_kept[%c0_i32, %c0_i32] : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>
      %16 = tpu.memref_slice %semaphores[%c4_i32] : memref<7x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %17 = tpu.memref_squeeze %16 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%14 : memref<256x256xf8E4M3FN, #tpu.memory_space<hbm>>) target(%15 : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>) target_semaphore(%17 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start w_q")
      tpu.wait_dma2 semaphore(%2 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%w_scale : memref<2x2xf32, #tpu.memory_space<hbm>>) dst(%w_scale_kept : memref<2x2xf32, #tpu.memory_space<smem>>) loc("wait w_scale")
    }
    %18 = arith.addi %c5_i32, %c1_i32 : i32
    %19 = tpu.memref_slice %x_scale_ring[%c0_i32, %c0_i32, %c0_i32] : memref<1x2x256xf32, #tpu.memory_space<vmem>> -> memref<1x2x256xf32, #tpu.memory_space<vmem>>
    %20 = tpu.memref_squeeze %19 : memref<1x2x256xf32, #tpu.memory_space<vmem>> -> memref<2x256xf32, #tpu.memory_space<vmem>>
    %21 = tpu.memref_slice %x_ring[%c0_i32, %c0_i32, %c0_i32] : memref<1x256x256xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<1x256x256xf8E4M3FN, #tpu.memory_space<vmem>>
    %22 = tpu.memref_squeeze %21 : memref<1x256x256xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>
    %23 = tpu.memref_slice %x_scale[%c0_i32, %c0_i32] : memref<2x256xf32, #tpu.memory_space<hbm>> -> memref<2x256xf32, #tpu.memory_space<hbm>>
    %24 = tpu.memref_slice %semaphores[%18] : memref<7x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    %25 = tpu.memref_squeeze %24 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    %26 = tpu.memref_slice %x[%c0_i32, %c0_i32] : memref<256x256xf8E4M3FN, #tpu.memory_space<hbm>> -> memref<256x256xf8E4M3FN, #tpu.memory_space<hbm>>
    %27 = tpu.memref_slice %semaphores[%c5_i32] : memref<7x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    %28 = tpu.memref_squeeze %27 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    tpu.wait_dma2 semaphore(%25 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%23 : memref<2x256xf32, #tpu.memory_space<hbm>>) dst(%20 : memref<2x256xf32, #tpu.memory_space<vmem>>) loc("wait x_scale")
    tpu.wait_dma2 semaphore(%28 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%26 : memref<256x256xf8E4M3FN, #tpu.memory_space<hbm>>) dst(%22 : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>) loc("wait x")
    %29 = arith.index_cast %c0_i32 : i32 to index
    %30 = arith.index_cast %c0_i32 : i32 to index
    %31 = arith.index_cast %c0_i32 : i32 to index
    %32 = tpu.memref_slice %w_q[%c0_i32, %c0_i32] : memref<256x256xf8E4M3FN, #tpu.memory_space<hbm>> -> memref<256x256xf8E4M3FN, #tpu.memory_space<hbm>>
    %33 = tpu.memref_slice %w_kept[%c0_i32, %c0_i32] : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>
    %34 = tpu.memref_slice %semaphores[%c4_i32] : memref<7x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    %35 = tpu.memref_squeeze %34 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    tpu.wait_dma2 semaphore(%35 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%32 : memref<256x256xf8E4M3FN, #tpu.memory_space<hbm>>) dst(%33 : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>) loc("wait w_q")
    %36 = arith.index_cast %c0_i32 : i32 to index
    %37 = vector.load %w_kept[%c0, %c0] : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<128x128xf8E4M3FN>
    %38 = memref.load %w_scale_kept[%c0, %c0] : memref<2x2xf32, #tpu.memory_space<smem>>
    %39 = arith.extf %37 : vector<128x128xf8E4M3FN> to vector<128x128xf32>
    %40 = vector.broadcast %38 : f32 to vector<128x128xf32>
    %41 = arith.mulf %39, %40 : vector<128x128xf32>
    %42 = arith.truncf %41 : vector<128x128xf32> to vector<128x128xbf16>
    %43 = vector.shape_cast %42 : vector<128x128xbf16> to vector<1x128x128xbf16>
    tpu.vector_store %w_bf16[%36, %c0, %c0], %43 {strides = array<i32>} : memref<2x256x256xbf16, #tpu.memory_space<vmem>>, vector<1x128x128xbf16>,
    %44 = vector.load %w_kept[%c0, %c128] : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<128x128xf8E4M3FN>
    %45 = memref.load %w_scale_kept[%c0, %c1] : memref<2x2xf32, #tpu.memory_space<smem>>
    %46 = arith.extf %44 : vector<128x128xf8E4M3FN> to vector<128x128xf32>
    %47 = vector.broadcast %45 : f32 to vector<128x128xf32>
    %48 = arith.mulf %46, %47 : vector<128x128xf32>
    %49 = arith.truncf %48 : vector<128x128xf32> to vector<128x128xbf16>
    %50 = vector.shape_cast %49 : vector<128x128xbf16> to vector<1x128x128xbf16>
    tpu.vector_store %w_bf16[%36, %c0, %c128], %50 {strides = array<i32>} : memref<2x256x256xbf16, #tpu.memory_space<vmem>>, vector<1x128x128xbf16>,
    %51 = vector.load %w_kept[%c128, %c0] : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<128x128xf8E4M3FN>
    %52 = memref.load %w_scale_kept[%c1, %c0] : memref<2x2xf32, #tpu.memory_space<smem>>
    %53 = arith.extf %51 : vector<128x128xf8E4M3FN> to vector<128x128xf32>
    %54 = vector.broadcast %52 : f32 to vector<128x128xf32>
    %55 = arith.mulf %53, %54 : vector<128x128xf32>
    %56 = arith.truncf %55 : vector<128x128xf32> to vector<128x128xbf16>
    %57 = vector.shape_cast %56 : vector<128x128xbf16> to vector<1x128x128xbf16>
    tpu.vector_store %w_bf16[%36, %c128, %c0], %57 {strides = array<i32>} : memref<2x256x256xbf16, #tpu.memory_space<vmem>>, vector<1x128x128xbf16>,
    %58 = vector.load %w_kept[%c128, %c128] : memref<256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<128x128xf8E4M3FN>
    %59 = memref.load %w_scale_kept[%c1, %c1] : memref<2x2xf32, #tpu.memory_space<smem>>
    %60 = arith.extf %58 : vector<128x128xf8E4M3FN> to vector<128x128xf32>
    %61 = vector.broadcast %59 : f32 to vector<128x128xf32>
    %62 = arith.mulf %60, %61 : vector<128x128xf32>
    %63 = arith.truncf %62 : vector<128x128xf32> to vector<128x128xbf16>
    %64 = vector.shape_cast %63 : vector<128x128xbf16> to vector<1x128x128xbf16>
    tpu.vector_store %w_bf16[%36, %c128, %c128], %64 {strides = array<i32>} : memref<2x256x256xbf16, #tpu.memory_space<vmem>>, vector<1x128x128xbf16>,
    %65 = arith.index_cast %c0_i32 : i32 to index
    %66 = vector.load %x_ring[%29, %c0, %c0] : memref<1x256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x256x128xf8E4M3FN>
    %67 = vector.shape_cast %66 : vector<1x256x128xf8E4M3FN> to vector<256x128xf8E4M3FN>
    %68 = "tpu.transpose"(%67) {permutation = array<i64: 1, 0>} : (vector<256x128xf8E4M3FN>) -> vector<128x256xf8E4M3FN>
    %69 = vector.load %x_scale_ring[%30, %c0, %c0] : memref<1x2x256xf32, #tpu.memory_space<vmem>>, vector<1x1x256xf32>
    %70 = vector.shape_cast %69 : vector<1x1x256xf32> to vector<1x256xf32>
    %71 = arith.extf %68 : vector<128x256xf8E4M3FN> to vector<128x256xf32>
    %72 = vector.broadcast %70 : vector<1x256xf32> to vector<128x256xf32>
    %73 = arith.mulf %71, %72 : vector<128x256xf32>
    %74 = arith.truncf %73 : vector<128x256xf32> to vector<128x256xbf16>
    %75 = vector.shape_cast %74 : vector<128x256xbf16> to vector<1x128x256xbf16>
    tpu.vector_store %x_bf16[%65, %c0, %c0], %75 {strides = array<i32>} : memref<2x256x256xbf16, #tpu.memory_space<vmem>>, vector<1x128x256xbf16>,
    %76 = vector.load %x_ring[%29, %c0, %c128] : memref<1x256x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x256x128xf8E4M3FN>
    %77 = vector.shape_cast %76 : vector<1x256x128xf8E4M3FN> to vector<256x128xf8E4M3FN>
    %78 = "tpu.transpose"(%77) {permutation = array<i64: 1, 0>} : (vector<256x128xf8E4M3FN>) -> vector<128x256xf8E4M3FN>
    %79 = vector.load %x_scale_ring[%30, %c1, %c0] : memref<1x2x256xf32, #tpu.memory_space<vmem>>, vector<1x1x256xf32>
    %80 = vector.shape_cast %79 : vector<1x1x256xf32> to vector<1x256xf32>
    %81 = arith.extf %78 : vector<128x256xf8E4M3FN> to vector<128x256xf32>
    %82 = vector.broadcast %80 : vector<1x256xf32> to vector<128x256xf32>
    %83 = arith.mulf %81, %82 : vector<128x256xf32>
    %84 = arith.truncf %83 : vector<128x256xf32> to vector<128x256xbf16>
    %85 = vector.shape_cast %84 : vector<128x256xbf16> to vector<1x128x256xbf16>
    tpu.vector_store %x_bf16[%65, %c128, %c0], %85 {strides = array<i32>} : memref<2x256x256xbf16, #tpu.memory_space<vmem>>, vector<1x128x256xbf16>,
    %86 = arith.index_cast %c0_i32 : i32 to index
    %87 = arith.index_cast %c0_i32 : i32 to index
    %88 = vector.load %w_bf16[%87, %c0, %c0] : memref<2x256x256xbf16, #tpu.memory_space<vmem>>, vector<1x256x256xbf16>
    %89 = vector.shape_cast %88 : vector<1x256x256xbf16> to vector<256x256xbf16>
    %90 = vector.load %x_bf16[%86, %c0, %c0] : memref<2x256x256xbf16, #tpu.memory_space<vmem>>, vector<1x256x256xbf16>
    %91 = vector.shape_cast %90 : vector<1x256x256xbf16> to vector<256x256xbf16>
    %92 = tpu.matmul %89, %91, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>, transpose_lhs_hint = false} : vector<256x256xbf16>, vector<256x256xbf16>, vector<256x256xf32> -> vector<256x256xf32>
    %93 = arith.truncf %92 : vector<256x256xf32> to vector<256x256xbf16>
    %94 = "tpu.transpose"(%93) {permutation = array<i64: 1, 0>} : (vector<256x256xbf16>) -> vector<256x256xbf16>
    %95 = vector.shape_cast %94 : vector<256x256xbf16> to vector<1x256x256xbf16>
    tpu.vector_store %out_ring[%31, %c0, %c0], %95 {strides = array<i32>} : memref<1x256x256xbf16, #tpu.memory_space<vmem>>, vector<1x256x256xbf16>,
    %96 = tpu.memref_slice %out_ring[%c0_i32, %c0_i32, %c0_i32] : memref<1x256x256xbf16, #tpu.memory_space<vmem>> -> memref<1x256x256xbf16, #tpu.memory_space<vmem>>
    %97 = tpu.memref_squeeze %96 : memref<1x256x256xbf16, #tpu.memory_space<vmem>> -> memref<256x256xbf16, #tpu.memory_space<vmem>>
    %98 = tpu.memref_slice %out[%c0_i32, %c0_i32] : memref<256x256xbf16, #tpu.memory_space<hbm>> -> memref<256x256xbf16, #tpu.memory_space<hbm>>
    %99 = tpu.memref_slice %semaphores[%c1_i32] : memref<7x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    %100 = tpu.memref_squeeze %99 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    tpu.enqueue_dma source(%97 : memref<256x256xbf16, #tpu.memory_space<vmem>>) target(%98 : memref<256x256xbf16, #tpu.memory_space<hbm>>) target_semaphore(%100 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start out")
    %101 = arith.cmpi eq, %m, %c0_i32 : i32
    scf.if %101 {
      %102 = tpu.memref_slice %out_ring[%c0_i32, %c0_i32, %c0_i32] : memref<1x256x256xbf16, #tpu.memory_space<vmem>> -> memref<1x256x256xbf16, #tpu.memory_space<vmem>>
      %103 = tpu.memref_squeeze %102 : memref<1x256x256xbf16, #tpu.memory_space<vmem>> -> memref<256x256xbf16, #tpu.memory_space<vmem>>
      %104 = tpu.memref_slice %out[%c0_i32, %c0_i32] : memref<256x256xbf16, #tpu.memory_space<hbm>> -> memref<256x256xbf16, #tpu.memory_space<hbm>>
      %105 = tpu.memref_slice %semaphores[%c1_i32] : memref<7x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %106 = tpu.memref_squeeze %105 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.wait_dma2 semaphore(%106 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%103 : memref<256x256xbf16, #tpu.memory_space<vmem>>) dst(%104 : memref<256x256xbf16, #tpu.memory_space<hbm>>) loc("wait out")
    }
    return
  }
}
