// strip large 16x1024x256:128 x=fp8 scales=block out=f32 print=mosaic
module attributes {stable_mosaic.version = 15 : i64} {
  func.func @octile_strip_large(%m: i32, %n: i32, %k: i32, %x: memref<16x256xf8E4M3FN, #tpu.memory_space<hbm>>, %w_q: memref<1024x256xf8E4M3FN, #tpu.memory_space<hbm>>, %w_scale: memref<8x2xf32, #tpu.memory_space<hbm>>, %x_scale: memref<1x2xf32, #tpu.memory_space<hbm>>, %out: memref<16x1024xf32, #tpu.memory_space<hbm>>, %x_kept: memref<16x256xf8E4M3FN, #tpu.memory_space<vmem>>, %w_ring: memref<2x512x256xf8E4M3FN, #tpu.memory_space<vmem>>, %w_scale_kept: memref<8x2xf32, #tpu.memory_space<smem>>, %x_scale_kept: memref<1x2xf32, #tpu.memory_space<smem>>, %out_kept: memref<16x1024xf32, #tpu.memory_space<vmem>>, %semaphores: memref<6x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) attributes {dimension_semantics = [#tpu.dimension_semantics<arbitrary>, #tpu.dimension_semantics<arbitrary>, #tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 1, 1, 1>, scalar_prefetch = 0 : i64, scratch_operands = 6 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{}, {}, {}, {}, {}]} {
    %c0_i32 = arith.constant 0 : i32
    %c1_i32 = arith.constant 1 : i32
    %c2_i32 = arith.constant 2 : i32
    %c512_i32 = arith.constant 512 : i32
    %c4_i32 = arith.constant 4 : i32
    %c8_i32 = arith.constant 8 : i32
    %c0 = arith.constant 0 : index
    %cst = arith.constant dense<0.000000e+00> : vector<16x512xf32>
    %c3_i32 = arith.constant 3 : i32
    %c128 = arith.constant 128 : index
    %c1 = arith.constant 1 : index
    %c1024_i32 = arith.constant 1024 : i32
    %c128_i32 = arith.constant 128 : i32
    %c256_i32 = arith.constant 256 : i32
    %c384_i32 = arith.constant 384 : i32
    %c5_i32 = arith.constant 5 : i32
    %c6_i32 = arith.constant 6 : i32
    %c7_i32 = arith.constant 7 : i32
    %c640_i32 = arith.constant 640 : i32
    %c768_i32 = arith.constant 768 : i32
    %c896_i32 = arith.constant 896 : i32
    %0 = arith.cmpi eq, %n, %c0_i32 : i32
    scf.if %0 {
      %1 = tpu.memref_slice %semaphores[%c0_i32] : memref<6x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %2 = tpu.memref_squeeze %1 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %3 = tpu.memref_slice %semaphores[%c1_i32] : memref<6x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %4 = tpu.memref_squeeze %3 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %5 = tpu.memref_slice %semaphores[%c2_i32] : memref<6x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %6 = tpu.memref_squeeze %5 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%x : memref<16x256xf8E4M3FN, #tpu.memory_space<hbm>>) target(%x_kept : memref<16x256xf8E4M3FN, #tpu.memory_space<vmem>>) target_semaphore(%2 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start x")
      tpu.enqueue_dma source(%w_scale : memref<8x2xf32, #tpu.memory_space<hbm>>) target(%w_scale_kept : memref<8x2xf32, #tpu.memory_space<smem>>) target_semaphore(%4 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start w_scale")
      tpu.enqueue_dma source(%x_scale : memref<1x2xf32, #tpu.memory_space<hbm>>) target(%x_scale_kept : memref<1x2xf32, #tpu.memory_space<smem>>) target_semaphore(%6 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start x_scale")
      scf.for %piece = %c0_i32 to %c2_i32 step %c1_i32 : i32 {
        %7 = arith.muli %piece, %c512_i32 : i32
        %8 = arith.addi %piece, %c4_i32 : i32
        %9 = tpu.memref_slice %w_q[%7, %c0_i32] : memref<1024x256xf8E4M3FN, #tpu.memory_space<hbm>> -> memref<512x256xf8E4M3FN, #tpu.memory_space<hbm>>
        %10 = tpu.memref_slice %w_ring[%piece, %c0_i32, %c0_i32] : memref<2x512x256xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<1x512x256xf8E4M3FN, #tpu.memory_space<vmem>>
        %11 = tpu.memref_squeeze %10 : memref<1x512x256xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<512x256xf8E4M3FN, #tpu.memory_space<vmem>>
        %12 = tpu.memref_slice %semaphores[%8] : memref<6x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        %13 = tpu.memref_squeeze %12 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        tpu.enqueue_dma source(%9 : memref<512x256xf8E4M3FN, #tpu.memory_space<hbm>>) target(%11 : memref<512x256xf8E4M3FN, #tpu.memory_space<vmem>>) target_semaphore(%13 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start w_q")
      }
      tpu.wait_dma2 semaphore(%2 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%x : memref<16x256xf8E4M3FN, #tpu.memory_space<hbm>>) dst(%x_kept : memref<16x256xf8E4M3FN, #tpu.memory_space<vmem>>) loc("wait x")
      tpu.wait_dma2 semaphore(%4 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%w_scale : memref<8x2xf32, #tpu.memory_space<hbm>>) dst(%w_scale_kept : memref<8x2xf32, #tpu.memory_space<smem>>) loc("wait w_scale")
      tpu.wait_dma2 semaphore(%6 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%x_scale : memref<1x2xf32, #tpu.memory_space<hbm>>) dst(%x_scale_kept : memref<1x2xf32, #tpu.memory_space<smem>>) loc("wait x_scale")
    }
    %14 = arith.muli %n, %c2_i32 : i32
    %15 = arith.muli %n, %c8_i32 : i32
    %16 = arith.addi %14, %c0_i32 : i32
    %17 = arith.remsi %16, %c2_i32 : i32
    %18 = arith.muli %16, %c512_i32 : i32
    %19 = arith.addi %17, %c4_i32 : i32
    %20 = tpu.memref_slice %w_q[%18, %c0_i32] : memref<1024x256xf8E4M3FN, #tpu.memory_space<hbm>> -> memref<512x256xf8E4M3FN, #tpu.memory_space<hbm>>
    %21 = tpu.memref_slice %w_ring[%17, %c0_i32, %c0_i32] : memref<2x512x256xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<1x512x256xf8E4M3FN, #tpu.memory_space<vmem>>
    %22 = tpu.memref_squeeze %21 : memref<1x512x256xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<512x256xf8E4M3FN, #tpu.memory_space<vmem>>
    %23 = tpu.memref_slice %semaphores[%19] : memref<6x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    %24 = tpu.memref_squeeze %23 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    tpu.wait_dma2 semaphore(%24 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%20 : memref<512x256xf8E4M3FN, #tpu.memory_space<hbm>>) dst(%22 : memref<512x256xf8E4M3FN, #tpu.memory_space<vmem>>) loc("wait w_q")
    %25 = arith.index_cast %17 : i32 to index
    %26 = vector.load %x_kept[%c0, %c0] : memref<16x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<16x128xf8E4M3FN>
    %27 = vector.load %w_ring[%25, %c0, %c0] : memref<2x512x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x512x128xf8E4M3FN>
    %28 = vector.shape_cast %27 : vector<1x512x128xf8E4M3FN> to vector<512x128xf8E4M3FN>
    %29 = tpu.matmul %26, %28, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<16x128xf8E4M3FN>, vector<512x128xf8E4M3FN>, vector<16x512xf32> -> vector<16x512xf32>
    %30 = memref.load %x_scale_kept[%c0, %c0] : memref<1x2xf32, #tpu.memory_space<smem>>
    %31 = vector.extract_strided_slice %29 {offsets = [0 : i64, 0 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %32 = arith.addi %15, %c0_i32 : i32
    %33 = arith.index_cast %32 : i32 to index
    %34 = arith.addi %c0_i32, %c0_i32 : i32
    %35 = arith.index_cast %34 : i32 to index
    %36 = memref.load %w_scale_kept[%33, %35] : memref<8x2xf32, #tpu.memory_space<smem>>
    %37 = arith.mulf %30, %36 : f32
    %38 = vector.broadcast %37 : f32 to vector<16x128xf32>
    %39 = arith.mulf %31, %38 : vector<16x128xf32>
    %40 = vector.extract_strided_slice %29 {offsets = [0 : i64, 128 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %41 = arith.addi %15, %c1_i32 : i32
    %42 = arith.index_cast %41 : i32 to index
    %43 = arith.addi %c0_i32, %c0_i32 : i32
    %44 = arith.index_cast %43 : i32 to index
    %45 = memref.load %w_scale_kept[%42, %44] : memref<8x2xf32, #tpu.memory_space<smem>>
    %46 = arith.mulf %30, %45 : f32
    %47 = vector.broadcast %46 : f32 to vector<16x128xf32>
    %48 = arith.mulf %40, %47 : vector<16x128xf32>
    %49 = vector.extract_strided_slice %29 {offsets = [0 : i64, 256 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %50 = arith.addi %15, %c2_i32 : i32
    %51 = arith.index_cast %50 : i32 to index
    %52 = arith.addi %c0_i32, %c0_i32 : i32
    %53 = arith.index_cast %52 : i32 to index
    %54 = memref.load %w_scale_kept[%51, %53] : memref<8x2xf32, #tpu.memory_space<smem>>
    %55 = arith.mulf %30, %54 : f32
    %56 = vector.broadcast %55 : f32 to vector<16x128xf32>
    %57 = arith.mulf %49, %56 : vector<16x128xf32>
    %58 = vector.extract_strided_slice %29 {offsets = [0 : i64, 384 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %59 = arith.addi %15, %c3_i32 : i32
    %60 = arith.index_cast %59 : i32 to index
    %61 = arith.addi %c0_i32, %c0_i32 : i32
    %62 = arith.index_cast %61 : i32 to index
    %63 = memref.load %w_scale_kept[%60, %62] : memref<8x2xf32, #tpu.memory_space<smem>>
    %64 = arith.mulf %30, %63 : f32
    %65 = vector.broadcast %64 : f32 to vector<16x128xf32>
    %66 = arith.mulf %58, %65 : vector<16x128xf32>
    %67 = vector.load %x_kept[%c0, %c128] : memref<16x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<16x128xf8E4M3FN>
    %68 = vector.load %w_ring[%25, %c0, %c128] : memref<2x512x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x512x128xf8E4M3FN>
    %69 = vector.shape_cast %68 : vector<1x512x128xf8E4M3FN> to vector<512x128xf8E4M3FN>
    %70 = tpu.matmul %67, %69, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<16x128xf8E4M3FN>, vector<512x128xf8E4M3FN>, vector<16x512xf32> -> vector<16x512xf32>
    %71 = memref.load %x_scale_kept[%c0, %c1] : memref<1x2xf32, #tpu.memory_space<smem>>
    %72 = vector.extract_strided_slice %70 {offsets = [0 : i64, 0 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %73 = arith.addi %15, %c0_i32 : i32
    %74 = arith.index_cast %73 : i32 to index
    %75 = arith.addi %c0_i32, %c1_i32 : i32
    %76 = arith.index_cast %75 : i32 to index
    %77 = memref.load %w_scale_kept[%74, %76] : memref<8x2xf32, #tpu.memory_space<smem>>
    %78 = arith.mulf %71, %77 : f32
    %79 = vector.broadcast %78 : f32 to vector<16x128xf32>
    %80 = arith.mulf %72, %79 : vector<16x128xf32>
    %81 = vector.extract_strided_slice %70 {offsets = [0 : i64, 128 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %82 = arith.addi %15, %c1_i32 : i32
    %83 = arith.index_cast %82 : i32 to index
    %84 = arith.addi %c0_i32, %c1_i32 : i32
    %85 = arith.index_cast %84 : i32 to index
    %86 = memref.load %w_scale_kept[%83, %85] : memref<8x2xf32, #tpu.memory_space<smem>>
    %87 = arith.mulf %71, %86 : f32
    %88 = vector.broadcast %87 : f32 to vector<16x128xf32>
    %89 = arith.mulf %81, %88 : vector<16x128xf32>
    %90 = vector.extract_strided_slice %70 {offsets = [0 : i64, 256 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %91 = arith.addi %15, %c2_i32 : i32
    %92 = arith.index_cast %91 : i32 to index
    %93 = arith.addi %c0_i32, %c1_i32 : i32
    %94 = arith.index_cast %93 : i32 to index
    %95 = memref.load %w_scale_kept[%92, %94] : memref<8x2xf32, #tpu.memory_space<smem>>
    %96 = arith.mulf %71, %95 : f32
    %97 = vector.broadcast %96 : f32 to vector<16x128xf32>
    %98 = arith.mulf %90, %97 : vector<16x128xf32>
    %99 = vector.extract_strided_slice %70 {offsets = [0 : i64, 384 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %100 = arith.addi %15, %c3_i32 : i32
    %101 = arith.index_cast %100 : i32 to index
    %102 = arith.addi %c0_i32, %c1_i32 : i32
    %103 = arith.index_cast %102 : i32 to index
    %104 = memref.load %w_scale_kept[%101, %103] : memref<8x2xf32, #tpu.memory_space<smem>>
    %105 = arith.mulf %71, %104 : f32
    %106 = vector.broadcast %105 : f32 to vector<16x128xf32>
    %107 = arith.mulf %99, %106 : vector<16x128xf32>
    %108 = arith.addf %39, %80 : vector<16x128xf32>
    %109 = arith.addf %48, %89 : vector<16x128xf32>
    %110 = arith.addf %57, %98 : vector<16x128xf32>
    %111 = arith.addf %66, %107 : vector<16x128xf32>
    %112 = arith.muli %n, %c1024_i32 : i32
    %113 = arith.addi %112, %c0_i32 : i32
    %114 = tpu.assume_multiple %113, 128 : i32
    %115 = arith.index_cast %114 : i32 to index
    tpu.vector_store %out_kept[%c0, %115], %108 {strides = array<i32>} : memref<16x1024xf32, #tpu.memory_space<vmem>>, vector<16x128xf32>,
    %116 = arith.muli %n, %c1024_i32 : i32
    %117 = arith.addi %116, %c128_i32 : i32
    %118 = tpu.assume_multiple %117, 128 : i32
    %119 = arith.index_cast %118 : i32 to index
    tpu.vector_store %out_kept[%c0, %119], %109 {strides = array<i32>} : memref<16x1024xf32, #tpu.memory_space<vmem>>, vector<16x128xf32>,
    %120 = arith.muli %n, %c1024_i32 : i32
    %121 = arith.addi %120, %c256_i32 : i32
    %122 = tpu.assume_multiple %121, 128 : i32
    %123 = arith.index_cast %122 : i32 to index
    tpu.vector_store %out_kept[%c0, %123], %110 {strides = array<i32>} : memref<16x1024xf32, #tpu.memory_space<vmem>>, vector<16x128xf32>,
    %124 = arith.muli %n, %c1024_i32 : i32
    %125 = arith.addi %124, %c384_i32 : i32
    %126 = tpu.assume_multiple %125, 128 : i32
    %127 = arith.index_cast %126 : i32 to index
    tpu.vector_store %out_kept[%c0, %127], %111 {strides = array<i32>} : memref<16x1024xf32, #tpu.memory_space<vmem>>, vector<16x128xf32>,
    %128 = arith.muli %16, %c512_i32 : i32
    %129 = tpu.memref_slice %out_kept[%c0_i32, %128] : memref<16x1024xf32, #tpu.memory_space<vmem>> -> memref<16x512xf32, #tpu.memory_space<vmem>>
    %130 = tpu.memref_slice %out[%c0_i32, %128] : memref<16x1024xf32, #tpu.memory_space<hbm>> -> memref<16x512xf32, #tpu.memory_space<hbm>>
    %131 = tpu.memref_slice %semaphores[%c3_i32] : memref<6x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    %132 = tpu.memref_squeeze %131 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    tpu.enqueue_dma source(%129 : memref<16x512xf32, #tpu.memory_space<vmem>>) target(%130 : memref<16x512xf32, #tpu.memory_space<hbm>>) target_semaphore(%132 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start out")
    %133 = arith.addi %14, %c1_i32 : i32
    %134 = arith.remsi %133, %c2_i32 : i32
    %135 = arith.muli %133, %c512_i32 : i32
    %136 = arith.addi %134, %c4_i32 : i32
    %137 = tpu.memref_slice %w_q[%135, %c0_i32] : memref<1024x256xf8E4M3FN, #tpu.memory_space<hbm>> -> memref<512x256xf8E4M3FN, #tpu.memory_space<hbm>>
    %138 = tpu.memref_slice %w_ring[%134, %c0_i32, %c0_i32] : memref<2x512x256xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<1x512x256xf8E4M3FN, #tpu.memory_space<vmem>>
    %139 = tpu.memref_squeeze %138 : memref<1x512x256xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<512x256xf8E4M3FN, #tpu.memory_space<vmem>>
    %140 = tpu.memref_slice %semaphores[%136] : memref<6x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    %141 = tpu.memref_squeeze %140 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    tpu.wait_dma2 semaphore(%141 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%137 : memref<512x256xf8E4M3FN, #tpu.memory_space<hbm>>) dst(%139 : memref<512x256xf8E4M3FN, #tpu.memory_space<vmem>>) loc("wait w_q")
    %142 = arith.index_cast %134 : i32 to index
    %143 = vector.load %x_kept[%c0, %c0] : memref<16x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<16x128xf8E4M3FN>
    %144 = vector.load %w_ring[%142, %c0, %c0] : memref<2x512x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x512x128xf8E4M3FN>
    %145 = vector.shape_cast %144 : vector<1x512x128xf8E4M3FN> to vector<512x128xf8E4M3FN>
    %146 = tpu.matmul %143, %145, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<16x128xf8E4M3FN>, vector<512x128xf8E4M3FN>, vector<16x512xf32> -> vector<16x512xf32>
    %147 = memref.load %x_scale_kept[%c0, %c0] : memref<1x2xf32, #tpu.memory_space<smem>>
    %148 = vector.extract_strided_slice %146 {offsets = [0 : i64, 0 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %149 = arith.addi %15, %c4_i32 : i32
    %150 = arith.index_cast %149 : i32 to index
    %151 = arith.addi %c0_i32, %c0_i32 : i32
    %152 = arith.index_cast %151 : i32 to index
    %153 = memref.load %w_scale_kept[%150, %152] : memref<8x2xf32, #tpu.memory_space<smem>>
    %154 = arith.mulf %147, %153 : f32
    %155 = vector.broadcast %154 : f32 to vector<16x128xf32>
    %156 = arith.mulf %148, %155 : vector<16x128xf32>
    %157 = vector.extract_strided_slice %146 {offsets = [0 : i64, 128 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %158 = arith.addi %15, %c5_i32 : i32
    %159 = arith.index_cast %158 : i32 to index
    %160 = arith.addi %c0_i32, %c0_i32 : i32
    %161 = arith.index_cast %160 : i32 to index
    %162 = memref.load %w_scale_kept[%159, %161] : memref<8x2xf32, #tpu.memory_space<smem>>
    %163 = arith.mulf %147, %162 : f32
    %164 = vector.broadcast %163 : f32 to vector<16x128xf32>
    %165 = arith.mulf %157, %164 : vector<16x128xf32>
    %166 = vector.extract_strided_slice %146 {offsets = [0 : i64, 256 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %167 = arith.addi %15, %c6_i32 : i32
    %168 = arith.index_cast %167 : i32 to index
    %169 = arith.addi %c0_i32, %c0_i32 : i32
    %170 = arith.index_cast %169 : i32 to index
    %171 = memref.load %w_scale_kept[%168, %170] : memref<8x2xf32, #tpu.memory_space<smem>>
    %172 = arith.mulf %147, %171 : f32
    %173 = vector.broadcast %172 : f32 to vector<16x128xf32>
    %174 = arith.mulf %166, %173 : vector<16x128xf32>
    %175 = vector.extract_strided_slice %146 {offsets = [0 : i64, 384 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %176 = arith.addi %15, %c7_i32 : i32
    %177 = arith.index_cast %176 : i32 to index
    %178 = arith.addi %c0_i32, %c0_i32 : i32
    %179 = arith.index_cast %178 : i32 to index
    %180 = memref.load %w_scale_kept[%177, %179] : memref<8x2xf32, #tpu.memory_space<smem>>
    %181 = arith.mulf %147, %180 : f32
    %182 = vector.broadcast %181 : f32 to vector<16x128xf32>
    %183 = arith.mulf %175, %182 : vector<16x128xf32>
    %184 = vector.load %x_kept[%c0, %c128] : memref<16x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<16x128xf8E4M3FN>
    %185 = vector.load %w_ring[%142, %c0, %c128] : memref<2x512x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x512x128xf8E4M3FN>
    %186 = vector.shape_cast %185 : vector<1x512x128xf8E4M3FN> to vector<512x128xf8E4M3FN>
    %187 = tpu.matmul %184, %186, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<16x128xf8E4M3FN>, vector<512x128xf8E4M3FN>, vector<16x512xf32> -> vector<16x512xf32>
    %188 = memref.load %x_scale_kept[%c0, %c1] : memref<1x2xf32, #tpu.memory_space<smem>>
    %189 = vector.extract_strided_slice %187 {offsets = [0 : i64, 0 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %190 = arith.addi %15, %c4_i32 : i32
    %191 = arith.index_cast %190 : i32 to index
    %192 = arith.addi %c0_i32, %c1_i32 : i32
    %193 = arith.index_cast %192 : i32 to index
    %194 = memref.load %w_scale_kept[%191, %193] : memref<8x2xf32, #tpu.memory_space<smem>>
    %195 = arith.mulf %188, %194 : f32
    %196 = vector.broadcast %195 : f32 to vector<16x128xf32>
    %197 = arith.mulf %189, %196 : vector<16x128xf32>
    %198 = vector.extract_strided_slice %187 {offsets = [0 : i64, 128 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %199 = arith.addi %15, %c5_i32 : i32
    %200 = arith.index_cast %199 : i32 to index
    %201 = arith.addi %c0_i32, %c1_i32 : i32
    %202 = arith.index_cast %201 : i32 to index
    %203 = memref.load %w_scale_kept[%200, %202] : memref<8x2xf32, #tpu.memory_space<smem>>
    %204 = arith.mulf %188, %203 : f32
    %205 = vector.broadcast %204 : f32 to vector<16x128xf32>
    %206 = arith.mulf %198, %205 : vector<16x128xf32>
    %207 = vector.extract_strided_slice %187 {offsets = [0 : i64, 256 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %208 = arith.addi %15, %c6_i32 : i32
    %209 = arith.index_cast %208 : i32 to index
    %210 = arith.addi %c0_i32, %c1_i32 : i32
    %211 = arith.index_cast %210 : i32 to index
    %212 = memref.load %w_scale_kept[%209, %211] : memref<8x2xf32, #tpu.memory_space<smem>>
    %213 = arith.mulf %188, %212 : f32
    %214 = vector.broadcast %213 : f32 to vector<16x128xf32>
    %215 = arith.mulf %207, %214 : vector<16x128xf32>
    %216 = vector.extract_strided_slice %187 {offsets = [0 : i64, 384 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %217 = arith.addi %15, %c7_i32 : i32
    %218 = arith.index_cast %217 : i32 to index
    %219 = arith.addi %c0_i32, %c1_i32 : i32
    %220 = arith.index_cast %219 : i32 to index
    %221 = memref.load %w_scale_kept[%218, %220] : memref<8x2xf32, #tpu.memory_space<smem>>
    %222 = arith.mulf %188, %221 : f32
    %223 = vector.broadcast %222 : f32 to vector<16x128xf32>
    %224 = arith.mulf %216, %223 : vector<16x128xf32>
    %225 = arith.addf %156, %197 : vector<16x128xf32>
    %226 = arith.addf %165, %206 : vector<16x128xf32>
    %227 = arith.addf %174, %215 : vector<16x128xf32>
    %228 = arith.addf %183, %224 : vector<16x128xf32>
    %229 = arith.muli %n, %c1024_i32 : i32
    %230 = arith.addi %229, %c512_i32 : i32
    %231 = tpu.assume_multiple %230, 128 : i32
    %232 = arith.index_cast %231 : i32 to index
    tpu.vector_store %out_kept[%c0, %232], %225 {strides = array<i32>} : memref<16x1024xf32, #tpu.memory_space<vmem>>, vector<16x128xf32>,
    %233 = arith.muli %n, %c1024_i32 : i32
    %234 = arith.addi %233, %c640_i32 : i32
    %235 = tpu.assume_multiple %234, 128 : i32
    %236 = arith.index_cast %235 : i32 to index
    tpu.vector_store %out_kept[%c0, %236], %226 {strides = array<i32>} : memref<16x1024xf32, #tpu.memory_space<vmem>>, vector<16x128xf32>,
    %237 = arith.muli %n, %c1024_i32 : i32
    %238 = arith.addi %237, %c768_i32 : i32
    %239 = tpu.assume_multiple %238, 128 : i32
    %240 = arith.index_cast %239 : i32 to index
    tpu.vector_store %out_kept[%c0, %240], %227 {strides = array<i32>} : memref<16x1024xf32, #tpu.memory_space<vmem>>, vector<16x128xf32>,
    %241 = arith.muli %n, %c1024_i32 : i32
    %242 = arith.addi %241, %c896_i32 : i32
    %243 = tpu.assume_multiple %242, 128 : i32
    %244 = arith.index_cast %243 : i32 to index
    tpu.vector_store %out_kept[%c0, %244], %228 {strides = array<i32>} : memref<16x1024xf32, #tpu.memory_space<vmem>>, vector<16x128xf32>,
    %245 = arith.muli %133, %c512_i32 : i32
    %246 = tpu.memref_slice %out_kept[%c0_i32, %245] : memref<16x1024xf32, #tpu.memory_space<vmem>> -> memref<16x512xf32, #tpu.memory_space<vmem>>
    %247 = tpu.memref_slice %out[%c0_i32, %245] : memref<16x1024xf32, #tpu.memory_space<hbm>> -> memref<16x512xf32, #tpu.memory_space<hbm>>
    %248 = tpu.memref_slice %semaphores[%c3_i32] : memref<6x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    %249 = tpu.memref_squeeze %248 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    tpu.enqueue_dma source(%246 : memref<16x512xf32, #tpu.memory_space<vmem>>) target(%247 : memref<16x512xf32, #tpu.memory_space<hbm>>) target_semaphore(%249 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start out")
    %250 = arith.cmpi eq, %n, %c0_i32 : i32
    scf.if %250 {
      scf.for %piece_v1 = %c0_i32 to %c2_i32 step %c1_i32 : i32 {
        %251 = arith.muli %piece_v1, %c512_i32 : i32
        %252 = tpu.memref_slice %out_kept[%c0_i32, %251] : memref<16x1024xf32, #tpu.memory_space<vmem>> -> memref<16x512xf32, #tpu.memory_space<vmem>>
        %253 = tpu.memref_slice %out[%c0_i32, %251] : memref<16x1024xf32, #tpu.memory_space<hbm>> -> memref<16x512xf32, #tpu.memory_space<hbm>>
        %254 = tpu.memref_slice %semaphores[%c3_i32] : memref<6x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        %255 = tpu.memref_squeeze %254 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
        tpu.wait_dma2 semaphore(%255 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%252 : memref<16x512xf32, #tpu.memory_space<vmem>>) dst(%253 : memref<16x512xf32, #tpu.memory_space<hbm>>) loc("wait out")
      }
    }
    return
  }
}
