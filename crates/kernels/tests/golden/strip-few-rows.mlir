// strip large 16x1024x256:128 x=fp8 scales=block out=f32 print=mosaic
module attributes {stable_mosaic.version = 15 : i64} {
  func.func @octile_strip_large(%m: i32, %n: i32, %k: i32, %x: memref<16x256xf8E4M3FN, #tpu.memory_space<hbm>>, %w_q: memref<1024x256xf8E4M3FN, #tpu.memory_space<hbm>>, %w_scale: memref<8x2xf32, #tpu.memory_space<hbm>>, %x_scale: memref<1x2xf32, #tpu.memory_space<hbm>>, %out: memref<16x1024xf32, #tpu.memory_space<hbm>>, %x_kept: memref<16x256xf8E4M3FN, #tpu.memory_space<vmem>>, %w_ring: memref<1x1024x256xf8E4M3FN, #tpu.memory_space<vmem>>, %w_scale_kept: memref<8x2xf32, #tpu.memory_space<smem>>, %x_scale_kept: memref<1x2xf32, #tpu.memory_space<smem>>, %out_kept: memref<16x1024xf32, #tpu.memory_space<vmem>>, %semaphores: memref<5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) attributes {dimension_semantics = [#tpu.dimension_semantics<arbitrary>, #tpu.dimension_semantics<arbitrary>, #tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 1, 1, 1>, scalar_prefetch = 0 : i64, scratch_operands = 6 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{}, {}, {}, {}, {}]} {
    %c0_i32 = arith.constant 0 : i32
    %c1_i32 = arith.constant 1 : i32
    %c2_i32 = arith.constant 2 : i32
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
    %c512 = arith.constant 512 : index
    %c5_i32 = arith.constant 5 : i32
    %c6_i32 = arith.constant 6 : i32
    %c7_i32 = arith.constant 7 : i32
    %c512_i32 = arith.constant 512 : i32
    %c640_i32 = arith.constant 640 : i32
    %c768_i32 = arith.constant 768 : i32
    %c896_i32 = arith.constant 896 : i32
    %0 = arith.cmpi eq, %n, %c0_i32 : i32
    scf.if %0 {
      %1 = tpu.memref_slice %semaphores[%c0_i32] : memref<5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %2 = tpu.memref_squeeze %1 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %3 = tpu.memref_slice %semaphores[%c1_i32] : memref<5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %4 = tpu.memref_squeeze %3 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %5 = tpu.memref_slice %semaphores[%c2_i32] : memref<5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %6 = tpu.memref_squeeze %5 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%x : memref<16x256xf8E4M3FN, #tpu.memory_space<hbm>>) target(%x_kept : memref<16x256xf8E4M3FN, #tpu.memory_space<vmem>>) target_semaphore(%2 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start x")
      tpu.enqueue_dma source(%w_scale : memref<8x2xf32, #tpu.memory_space<hbm>>) target(%w_scale_kept : memref<8x2xf32, #tpu.memory_space<smem>>) target_semaphore(%4 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start w_scale")
      tpu.enqueue_dma source(%x_scale : memref<1x2xf32, #tpu.memory_space<hbm>>) target(%x_scale_kept : memref<1x2xf32, #tpu.memory_space<smem>>) target_semaphore(%6 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start x_scale")
      %7 = arith.addi %c0_i32, %c4_i32 : i32
      %8 = tpu.memref_slice %w_q[%c0_i32, %c0_i32] : memref<1024x256xf8E4M3FN, #tpu.memory_space<hbm>> -> memref<1024x256xf8E4M3FN, #tpu.memory_space<hbm>>
      %9 = tpu.memref_slice %w_ring[%c0_i32, %c0_i32, %c0_i32] : memref<1x1024x256xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<1x1024x256xf8E4M3FN, #tpu.memory_space<vmem>>
      %10 = tpu.memref_squeeze %9 : memref<1x1024x256xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<1024x256xf8E4M3FN, #tpu.memory_space<vmem>>
      %11 = tpu.memref_slice %semaphores[%7] : memref<5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %12 = tpu.memref_squeeze %11 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%8 : memref<1024x256xf8E4M3FN, #tpu.memory_space<hbm>>) target(%10 : memref<1024x256xf8E4M3FN, #tpu.memory_space<vmem>>) target_semaphore(%12 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start w_q")
      tpu.wait_dma2 semaphore(%2 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%x : memref<16x256xf8E4M3FN, #tpu.memory_space<hbm>>) dst(%x_kept : memref<16x256xf8E4M3FN, #tpu.memory_space<vmem>>) loc("wait x")
      tpu.wait_dma2 semaphore(%4 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%w_scale : memref<8x2xf32, #tpu.memory_space<hbm>>) dst(%w_scale_kept : memref<8x2xf32, #tpu.memory_space<smem>>) loc("wait w_scale")
      tpu.wait_dma2 semaphore(%6 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%x_scale : memref<1x2xf32, #tpu.memory_space<hbm>>) dst(%x_scale_kept : memref<1x2xf32, #tpu.memory_space<smem>>) loc("wait x_scale")
    }
    %13 = arith.muli %n, %c8_i32 : i32
    %14 = arith.muli %n, %c1_i32 : i32
    %15 = arith.addi %14, %c0_i32 : i32
    %16 = arith.remsi %15, %c1_i32 : i32
    %17 = arith.addi %c0_i32, %c4_i32 : i32
    %18 = tpu.memref_slice %w_q[%c0_i32, %c0_i32] : memref<1024x256xf8E4M3FN, #tpu.memory_space<hbm>> -> memref<1024x256xf8E4M3FN, #tpu.memory_space<hbm>>
    %19 = tpu.memref_slice %w_ring[%c0_i32, %c0_i32, %c0_i32] : memref<1x1024x256xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<1x1024x256xf8E4M3FN, #tpu.memory_space<vmem>>
    %20 = tpu.memref_squeeze %19 : memref<1x1024x256xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<1024x256xf8E4M3FN, #tpu.memory_space<vmem>>
    %21 = tpu.memref_slice %semaphores[%17] : memref<5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    %22 = tpu.memref_squeeze %21 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    tpu.wait_dma2 semaphore(%22 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%18 : memref<1024x256xf8E4M3FN, #tpu.memory_space<hbm>>) dst(%20 : memref<1024x256xf8E4M3FN, #tpu.memory_space<vmem>>) loc("wait w_q")
    %23 = arith.index_cast %c0_i32 : i32 to index
    %24 = vector.load %x_kept[%c0, %c0] : memref<16x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<16x128xf8E4M3FN>
    %25 = vector.load %w_ring[%23, %c0, %c0] : memref<1x1024x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x512x128xf8E4M3FN>
    %26 = vector.shape_cast %25 : vector<1x512x128xf8E4M3FN> to vector<512x128xf8E4M3FN>
    %27 = tpu.matmul %24, %26, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<16x128xf8E4M3FN>, vector<512x128xf8E4M3FN>, vector<16x512xf32> -> vector<16x512xf32>
    %28 = memref.load %x_scale_kept[%c0, %c0] : memref<1x2xf32, #tpu.memory_space<smem>>
    %29 = vector.extract_strided_slice %27 {offsets = [0 : i64, 0 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %30 = arith.addi %13, %c0_i32 : i32
    %31 = arith.index_cast %30 : i32 to index
    %32 = arith.addi %c0_i32, %c0_i32 : i32
    %33 = arith.index_cast %32 : i32 to index
    %34 = memref.load %w_scale_kept[%31, %33] : memref<8x2xf32, #tpu.memory_space<smem>>
    %35 = arith.mulf %28, %34 : f32
    %36 = vector.broadcast %35 : f32 to vector<16x128xf32>
    %37 = arith.mulf %29, %36 : vector<16x128xf32>
    %38 = vector.extract_strided_slice %27 {offsets = [0 : i64, 128 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %39 = arith.addi %13, %c1_i32 : i32
    %40 = arith.index_cast %39 : i32 to index
    %41 = arith.addi %c0_i32, %c0_i32 : i32
    %42 = arith.index_cast %41 : i32 to index
    %43 = memref.load %w_scale_kept[%40, %42] : memref<8x2xf32, #tpu.memory_space<smem>>
    %44 = arith.mulf %28, %43 : f32
    %45 = vector.broadcast %44 : f32 to vector<16x128xf32>
    %46 = arith.mulf %38, %45 : vector<16x128xf32>
    %47 = vector.extract_strided_slice %27 {offsets = [0 : i64, 256 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %48 = arith.addi %13, %c2_i32 : i32
    %49 = arith.index_cast %48 : i32 to index
    %50 = arith.addi %c0_i32, %c0_i32 : i32
    %51 = arith.index_cast %50 : i32 to index
    %52 = memref.load %w_scale_kept[%49, %51] : memref<8x2xf32, #tpu.memory_space<smem>>
    %53 = arith.mulf %28, %52 : f32
    %54 = vector.broadcast %53 : f32 to vector<16x128xf32>
    %55 = arith.mulf %47, %54 : vector<16x128xf32>
    %56 = vector.extract_strided_slice %27 {offsets = [0 : i64, 384 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %57 = arith.addi %13, %c3_i32 : i32
    %58 = arith.index_cast %57 : i32 to index
    %59 = arith.addi %c0_i32, %c0_i32 : i32
    %60 = arith.index_cast %59 : i32 to index
    %61 = memref.load %w_scale_kept[%58, %60] : memref<8x2xf32, #tpu.memory_space<smem>>
    %62 = arith.mulf %28, %61 : f32
    %63 = vector.broadcast %62 : f32 to vector<16x128xf32>
    %64 = arith.mulf %56, %63 : vector<16x128xf32>
    %65 = vector.load %x_kept[%c0, %c128] : memref<16x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<16x128xf8E4M3FN>
    %66 = vector.load %w_ring[%23, %c0, %c128] : memref<1x1024x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x512x128xf8E4M3FN>
    %67 = vector.shape_cast %66 : vector<1x512x128xf8E4M3FN> to vector<512x128xf8E4M3FN>
    %68 = tpu.matmul %65, %67, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<16x128xf8E4M3FN>, vector<512x128xf8E4M3FN>, vector<16x512xf32> -> vector<16x512xf32>
    %69 = memref.load %x_scale_kept[%c0, %c1] : memref<1x2xf32, #tpu.memory_space<smem>>
    %70 = vector.extract_strided_slice %68 {offsets = [0 : i64, 0 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %71 = arith.addi %13, %c0_i32 : i32
    %72 = arith.index_cast %71 : i32 to index
    %73 = arith.addi %c0_i32, %c1_i32 : i32
    %74 = arith.index_cast %73 : i32 to index
    %75 = memref.load %w_scale_kept[%72, %74] : memref<8x2xf32, #tpu.memory_space<smem>>
    %76 = arith.mulf %69, %75 : f32
    %77 = vector.broadcast %76 : f32 to vector<16x128xf32>
    %78 = arith.mulf %70, %77 : vector<16x128xf32>
    %79 = vector.extract_strided_slice %68 {offsets = [0 : i64, 128 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %80 = arith.addi %13, %c1_i32 : i32
    %81 = arith.index_cast %80 : i32 to index
    %82 = arith.addi %c0_i32, %c1_i32 : i32
    %83 = arith.index_cast %82 : i32 to index
    %84 = memref.load %w_scale_kept[%81, %83] : memref<8x2xf32, #tpu.memory_space<smem>>
    %85 = arith.mulf %69, %84 : f32
    %86 = vector.broadcast %85 : f32 to vector<16x128xf32>
    %87 = arith.mulf %79, %86 : vector<16x128xf32>
    %88 = vector.extract_strided_slice %68 {offsets = [0 : i64, 256 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %89 = arith.addi %13, %c2_i32 : i32
    %90 = arith.index_cast %89 : i32 to index
    %91 = arith.addi %c0_i32, %c1_i32 : i32
    %92 = arith.index_cast %91 : i32 to index
    %93 = memref.load %w_scale_kept[%90, %92] : memref<8x2xf32, #tpu.memory_space<smem>>
    %94 = arith.mulf %69, %93 : f32
    %95 = vector.broadcast %94 : f32 to vector<16x128xf32>
    %96 = arith.mulf %88, %95 : vector<16x128xf32>
    %97 = vector.extract_strided_slice %68 {offsets = [0 : i64, 384 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %98 = arith.addi %13, %c3_i32 : i32
    %99 = arith.index_cast %98 : i32 to index
    %100 = arith.addi %c0_i32, %c1_i32 : i32
    %101 = arith.index_cast %100 : i32 to index
    %102 = memref.load %w_scale_kept[%99, %101] : memref<8x2xf32, #tpu.memory_space<smem>>
    %103 = arith.mulf %69, %102 : f32
    %104 = vector.broadcast %103 : f32 to vector<16x128xf32>
    %105 = arith.mulf %97, %104 : vector<16x128xf32>
    %106 = arith.addf %37, %78 : vector<16x128xf32>
    %107 = arith.addf %46, %87 : vector<16x128xf32>
    %108 = arith.addf %55, %96 : vector<16x128xf32>
    %109 = arith.addf %64, %105 : vector<16x128xf32>
    %110 = arith.muli %n, %c1024_i32 : i32
    %111 = arith.addi %110, %c0_i32 : i32
    %112 = tpu.assume_multiple %111, 128 : i32
    %113 = arith.index_cast %112 : i32 to index
    tpu.vector_store %out_kept[%c0, %113], %106 {strides = array<i32>} : memref<16x1024xf32, #tpu.memory_space<vmem>>, vector<16x128xf32>,
    %114 = arith.muli %n, %c1024_i32 : i32
    %115 = arith.addi %114, %c128_i32 : i32
    %116 = tpu.assume_multiple %115, 128 : i32
    %117 = arith.index_cast %116 : i32 to index
    tpu.vector_store %out_kept[%c0, %117], %107 {strides = array<i32>} : memref<16x1024xf32, #tpu.memory_space<vmem>>, vector<16x128xf32>,
    %118 = arith.muli %n, %c1024_i32 : i32
    %119 = arith.addi %118, %c256_i32 : i32
    %120 = tpu.assume_multiple %119, 128 : i32
    %121 = arith.index_cast %120 : i32 to index
    tpu.vector_store %out_kept[%c0, %121], %108 {strides = array<i32>} : memref<16x1024xf32, #tpu.memory_space<vmem>>, vector<16x128xf32>,
    %122 = arith.muli %n, %c1024_i32 : i32
    %123 = arith.addi %122, %c384_i32 : i32
    %124 = tpu.assume_multiple %123, 128 : i32
    %125 = arith.index_cast %124 : i32 to index
    tpu.vector_store %out_kept[%c0, %125], %109 {strides = array<i32>} : memref<16x1024xf32, #tpu.memory_space<vmem>>, vector<16x128xf32>,
    %126 = vector.load %x_kept[%c0, %c0] : memref<16x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<16x128xf8E4M3FN>
    %127 = vector.load %w_ring[%23, %c512, %c0] : memref<1x1024x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x512x128xf8E4M3FN>
    %128 = vector.shape_cast %127 : vector<1x512x128xf8E4M3FN> to vector<512x128xf8E4M3FN>
    %129 = tpu.matmul %126, %128, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<16x128xf8E4M3FN>, vector<512x128xf8E4M3FN>, vector<16x512xf32> -> vector<16x512xf32>
    %130 = memref.load %x_scale_kept[%c0, %c0] : memref<1x2xf32, #tpu.memory_space<smem>>
    %131 = vector.extract_strided_slice %129 {offsets = [0 : i64, 0 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %132 = arith.addi %13, %c4_i32 : i32
    %133 = arith.index_cast %132 : i32 to index
    %134 = arith.addi %c0_i32, %c0_i32 : i32
    %135 = arith.index_cast %134 : i32 to index
    %136 = memref.load %w_scale_kept[%133, %135] : memref<8x2xf32, #tpu.memory_space<smem>>
    %137 = arith.mulf %130, %136 : f32
    %138 = vector.broadcast %137 : f32 to vector<16x128xf32>
    %139 = arith.mulf %131, %138 : vector<16x128xf32>
    %140 = vector.extract_strided_slice %129 {offsets = [0 : i64, 128 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %141 = arith.addi %13, %c5_i32 : i32
    %142 = arith.index_cast %141 : i32 to index
    %143 = arith.addi %c0_i32, %c0_i32 : i32
    %144 = arith.index_cast %143 : i32 to index
    %145 = memref.load %w_scale_kept[%142, %144] : memref<8x2xf32, #tpu.memory_space<smem>>
    %146 = arith.mulf %130, %145 : f32
    %147 = vector.broadcast %146 : f32 to vector<16x128xf32>
    %148 = arith.mulf %140, %147 : vector<16x128xf32>
    %149 = vector.extract_strided_slice %129 {offsets = [0 : i64, 256 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %150 = arith.addi %13, %c6_i32 : i32
    %151 = arith.index_cast %150 : i32 to index
    %152 = arith.addi %c0_i32, %c0_i32 : i32
    %153 = arith.index_cast %152 : i32 to index
    %154 = memref.load %w_scale_kept[%151, %153] : memref<8x2xf32, #tpu.memory_space<smem>>
    %155 = arith.mulf %130, %154 : f32
    %156 = vector.broadcast %155 : f32 to vector<16x128xf32>
    %157 = arith.mulf %149, %156 : vector<16x128xf32>
    %158 = vector.extract_strided_slice %129 {offsets = [0 : i64, 384 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %159 = arith.addi %13, %c7_i32 : i32
    %160 = arith.index_cast %159 : i32 to index
    %161 = arith.addi %c0_i32, %c0_i32 : i32
    %162 = arith.index_cast %161 : i32 to index
    %163 = memref.load %w_scale_kept[%160, %162] : memref<8x2xf32, #tpu.memory_space<smem>>
    %164 = arith.mulf %130, %163 : f32
    %165 = vector.broadcast %164 : f32 to vector<16x128xf32>
    %166 = arith.mulf %158, %165 : vector<16x128xf32>
    %167 = vector.load %x_kept[%c0, %c128] : memref<16x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<16x128xf8E4M3FN>
    %168 = vector.load %w_ring[%23, %c512, %c128] : memref<1x1024x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x512x128xf8E4M3FN>
    %169 = vector.shape_cast %168 : vector<1x512x128xf8E4M3FN> to vector<512x128xf8E4M3FN>
    %170 = tpu.matmul %167, %169, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<16x128xf8E4M3FN>, vector<512x128xf8E4M3FN>, vector<16x512xf32> -> vector<16x512xf32>
    %171 = memref.load %x_scale_kept[%c0, %c1] : memref<1x2xf32, #tpu.memory_space<smem>>
    %172 = vector.extract_strided_slice %170 {offsets = [0 : i64, 0 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %173 = arith.addi %13, %c4_i32 : i32
    %174 = arith.index_cast %173 : i32 to index
    %175 = arith.addi %c0_i32, %c1_i32 : i32
    %176 = arith.index_cast %175 : i32 to index
    %177 = memref.load %w_scale_kept[%174, %176] : memref<8x2xf32, #tpu.memory_space<smem>>
    %178 = arith.mulf %171, %177 : f32
    %179 = vector.broadcast %178 : f32 to vector<16x128xf32>
    %180 = arith.mulf %172, %179 : vector<16x128xf32>
    %181 = vector.extract_strided_slice %170 {offsets = [0 : i64, 128 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %182 = arith.addi %13, %c5_i32 : i32
    %183 = arith.index_cast %182 : i32 to index
    %184 = arith.addi %c0_i32, %c1_i32 : i32
    %185 = arith.index_cast %184 : i32 to index
    %186 = memref.load %w_scale_kept[%183, %185] : memref<8x2xf32, #tpu.memory_space<smem>>
    %187 = arith.mulf %171, %186 : f32
    %188 = vector.broadcast %187 : f32 to vector<16x128xf32>
    %189 = arith.mulf %181, %188 : vector<16x128xf32>
    %190 = vector.extract_strided_slice %170 {offsets = [0 : i64, 256 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %191 = arith.addi %13, %c6_i32 : i32
    %192 = arith.index_cast %191 : i32 to index
    %193 = arith.addi %c0_i32, %c1_i32 : i32
    %194 = arith.index_cast %193 : i32 to index
    %195 = memref.load %w_scale_kept[%192, %194] : memref<8x2xf32, #tpu.memory_space<smem>>
    %196 = arith.mulf %171, %195 : f32
    %197 = vector.broadcast %196 : f32 to vector<16x128xf32>
    %198 = arith.mulf %190, %197 : vector<16x128xf32>
    %199 = vector.extract_strided_slice %170 {offsets = [0 : i64, 384 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %200 = arith.addi %13, %c7_i32 : i32
    %201 = arith.index_cast %200 : i32 to index
    %202 = arith.addi %c0_i32, %c1_i32 : i32
    %203 = arith.index_cast %202 : i32 to index
    %204 = memref.load %w_scale_kept[%201, %203] : memref<8x2xf32, #tpu.memory_space<smem>>
    %205 = arith.mulf %171, %204 : f32
    %206 = vector.broadcast %205 : f32 to vector<16x128xf32>
    %207 = arith.mulf %199, %206 : vector<16x128xf32>
    %208 = arith.addf %139, %180 : vector<16x128xf32>
    %209 = arith.addf %148, %189 : vector<16x128xf32>
    %210 = arith.addf %157, %198 : vector<16x128xf32>
    %211 = arith.addf %166, %207 : vector<16x128xf32>
    %212 = arith.muli %n, %c1024_i32 : i32
    %213 = arith.addi %212, %c512_i32 : i32
    %214 = tpu.assume_multiple %213, 128 : i32
    %215 = arith.index_cast %214 : i32 to index
    tpu.vector_store %out_kept[%c0, %215], %208 {strides = array<i32>} : memref<16x1024xf32, #tpu.memory_space<vmem>>, vector<16x128xf32>,
    %216 = arith.muli %n, %c1024_i32 : i32
    %217 = arith.addi %216, %c640_i32 : i32
    %218 = tpu.assume_multiple %217, 128 : i32
    %219 = arith.index_cast %218 : i32 to index
    tpu.vector_store %out_kept[%c0, %219], %209 {strides = array<i32>} : memref<16x1024xf32, #tpu.memory_space<vmem>>, vector<16x128xf32>,
    %220 = arith.muli %n, %c1024_i32 : i32
    %221 = arith.addi %220, %c768_i32 : i32
    %222 = tpu.assume_multiple %221, 128 : i32
    %223 = arith.index_cast %222 : i32 to index
    tpu.vector_store %out_kept[%c0, %223], %210 {strides = array<i32>} : memref<16x1024xf32, #tpu.memory_space<vmem>>, vector<16x128xf32>,
    %224 = arith.muli %n, %c1024_i32 : i32
    %225 = arith.addi %224, %c896_i32 : i32
    %226 = tpu.assume_multiple %225, 128 : i32
    %227 = arith.index_cast %226 : i32 to index
    tpu.vector_store %out_kept[%c0, %227], %211 {strides = array<i32>} : memref<16x1024xf32, #tpu.memory_space<vmem>>, vector<16x128xf32>,
    %228 = tpu.memref_slice %out_kept[%c0_i32, %c0_i32] : memref<16x1024xf32, #tpu.memory_space<vmem>> -> memref<16x1024xf32, #tpu.memory_space<vmem>>
    %229 = tpu.memref_slice %out[%c0_i32, %c0_i32] : memref<16x1024xf32, #tpu.memory_space<hbm>> -> memref<16x1024xf32, #tpu.memory_space<hbm>>
    %230 = tpu.memref_slice %semaphores[%c3_i32] : memref<5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    %231 = tpu.memref_squeeze %230 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    tpu.enqueue_dma source(%228 : memref<16x1024xf32, #tpu.memory_space<vmem>>) target(%229 : memref<16x1024xf32, #tpu.memory_space<hbm>>) target_semaphore(%231 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start out")
    %232 = arith.cmpi eq, %n, %c0_i32 : i32
    scf.if %232 {
      %233 = tpu.memref_slice %out_kept[%c0_i32, %c0_i32] : memref<16x1024xf32, #tpu.memory_space<vmem>> -> memref<16x1024xf32, #tpu.memory_space<vmem>>
      %234 = tpu.memref_slice %out[%c0_i32, %c0_i32] : memref<16x1024xf32, #tpu.memory_space<hbm>> -> memref<16x1024xf32, #tpu.memory_space<hbm>>
      %235 = tpu.memref_slice %semaphores[%c3_i32] : memref<5x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %236 = tpu.memref_squeeze %235 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.wait_dma2 semaphore(%236 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%233 : memref<16x1024xf32, #tpu.memory_space<vmem>>) dst(%234 : memref<16x1024xf32, #tpu.memory_space<hbm>>) loc("wait out")
    }
    return
  }
}
