// strip large 16x1024x256:128 x=fp8 scales=block out=f32 print=mosaic
module attributes {stable_mosaic.version = 15 : i64} {
  func.func @octile_strip_large(%m: i32, %n: i32, %k: i32, %x: memref<16x256xf8E4M3FN, #tpu.memory_space<hbm>>, %w_q: memref<1024x256xf8E4M3FN, #tpu.memory_space<hbm>>, %w_scale: memref<8x2xf32, #tpu.memory_space<hbm>>, %x_scale: memref<1x2xf32, #tpu.memory_space<hbm>>, %out: memref<16x1024xf32, #tpu.memory_space<hbm>>, %x_kept: memref<32x256xf8E4M3FN, #tpu.memory_space<vmem>>, %w_ring: memref<1x1024x256xf8E4M3FN, #tpu.memory_space<vmem>>, %w_scale_kept: memref<8x2xf32, #tpu.memory_space<smem>>, %x_scale_kept: memref<1x2xf32, #tpu.memory_space<smem>>, %out_kept: memref<16x1024xf32, #tpu.memory_space<vmem>>, %semaphores: memref<6x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) attributes {dimension_semantics = [#tpu.dimension_semantics<arbitrary>, #tpu.dimension_semantics<arbitrary>, #tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 1, 1, 1>, scalar_prefetch = 0 : i64, scratch_operands = 6 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{}, {}, {}, {}, {}]} {
    %c0_i32 = arith.constant 0 : i32
    %c2_i32 = arith.constant 2 : i32
    %c3_i32 = arith.constant 3 : i32
    %c5_i32 = arith.constant 5 : i32
    %c8_i32 = arith.constant 8 : i32
    %c1_i32 = arith.constant 1 : i32
    %c0 = arith.constant 0 : index
    %cst = arith.constant dense<0.000000e+00> : vector<16x512xf32>
    %c128 = arith.constant 128 : index
    %c1 = arith.constant 1 : index
    %c1024_i32 = arith.constant 1024 : i32
    %c128_i32 = arith.constant 128 : i32
    %c256_i32 = arith.constant 256 : i32
    %c384_i32 = arith.constant 384 : i32
    %c512 = arith.constant 512 : index
    %c4_i32 = arith.constant 4 : i32
    %c6_i32 = arith.constant 6 : i32
    %c7_i32 = arith.constant 7 : i32
    %c512_i32 = arith.constant 512 : i32
    %c640_i32 = arith.constant 640 : i32
    %c768_i32 = arith.constant 768 : i32
    %c896_i32 = arith.constant 896 : i32
    %0 = arith.cmpi eq, %n, %c0_i32 : i32
    scf.if %0 {
      %1 = tpu.memref_slice %x_kept[%c0_i32, %c0_i32] : memref<32x256xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<16x256xf8E4M3FN, #tpu.memory_space<vmem>>
      %2 = tpu.memref_slice %semaphores[%c0_i32] : memref<6x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %3 = tpu.memref_squeeze %2 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %4 = tpu.memref_slice %semaphores[%c2_i32] : memref<6x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %5 = tpu.memref_squeeze %4 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %6 = tpu.memref_slice %semaphores[%c3_i32] : memref<6x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %7 = tpu.memref_squeeze %6 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%x : memref<16x256xf8E4M3FN, #tpu.memory_space<hbm>>) target(%1 : memref<16x256xf8E4M3FN, #tpu.memory_space<vmem>>) target_semaphore(%3 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start x")
      tpu.enqueue_dma source(%w_scale : memref<8x2xf32, #tpu.memory_space<hbm>>) target(%w_scale_kept : memref<8x2xf32, #tpu.memory_space<smem>>) target_semaphore(%5 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start w_scale")
      tpu.enqueue_dma source(%x_scale : memref<1x2xf32, #tpu.memory_space<hbm>>) target(%x_scale_kept : memref<1x2xf32, #tpu.memory_space<smem>>) target_semaphore(%7 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start x_scale")
      %8 = arith.addi %c0_i32, %c5_i32 : i32
      %9 = tpu.memref_slice %w_q[%c0_i32, %c0_i32] : memref<1024x256xf8E4M3FN, #tpu.memory_space<hbm>> -> memref<1024x256xf8E4M3FN, #tpu.memory_space<hbm>>
      %10 = tpu.memref_slice %w_ring[%c0_i32, %c0_i32, %c0_i32] : memref<1x1024x256xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<1x1024x256xf8E4M3FN, #tpu.memory_space<vmem>>
      %11 = tpu.memref_squeeze %10 : memref<1x1024x256xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<1024x256xf8E4M3FN, #tpu.memory_space<vmem>>
      %12 = tpu.memref_slice %semaphores[%8] : memref<6x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %13 = tpu.memref_squeeze %12 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%9 : memref<1024x256xf8E4M3FN, #tpu.memory_space<hbm>>) target(%11 : memref<1024x256xf8E4M3FN, #tpu.memory_space<vmem>>) target_semaphore(%13 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start w_q")
      tpu.wait_dma2 semaphore(%3 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%x : memref<16x256xf8E4M3FN, #tpu.memory_space<hbm>>) dst(%1 : memref<16x256xf8E4M3FN, #tpu.memory_space<vmem>>) loc("wait x")
      tpu.wait_dma2 semaphore(%5 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%w_scale : memref<8x2xf32, #tpu.memory_space<hbm>>) dst(%w_scale_kept : memref<8x2xf32, #tpu.memory_space<smem>>) loc("wait w_scale")
      tpu.wait_dma2 semaphore(%7 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%x_scale : memref<1x2xf32, #tpu.memory_space<hbm>>) dst(%x_scale_kept : memref<1x2xf32, #tpu.memory_space<smem>>) loc("wait x_scale")
    }
    %14 = arith.muli %n, %c8_i32 : i32
    %15 = arith.muli %n, %c1_i32 : i32
    %16 = arith.addi %15, %c0_i32 : i32
    %17 = arith.remsi %16, %c1_i32 : i32
    %18 = arith.addi %c0_i32, %c5_i32 : i32
    %19 = tpu.memref_slice %w_q[%c0_i32, %c0_i32] : memref<1024x256xf8E4M3FN, #tpu.memory_space<hbm>> -> memref<1024x256xf8E4M3FN, #tpu.memory_space<hbm>>
    %20 = tpu.memref_slice %w_ring[%c0_i32, %c0_i32, %c0_i32] : memref<1x1024x256xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<1x1024x256xf8E4M3FN, #tpu.memory_space<vmem>>
    %21 = tpu.memref_squeeze %20 : memref<1x1024x256xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<1024x256xf8E4M3FN, #tpu.memory_space<vmem>>
    %22 = tpu.memref_slice %semaphores[%18] : memref<6x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    %23 = tpu.memref_squeeze %22 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    tpu.wait_dma2 semaphore(%23 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%19 : memref<1024x256xf8E4M3FN, #tpu.memory_space<hbm>>) dst(%21 : memref<1024x256xf8E4M3FN, #tpu.memory_space<vmem>>) loc("wait w_q")
    %24 = arith.index_cast %c0_i32 : i32 to index
    %25 = vector.load %x_kept[%c0, %c0] : memref<32x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<16x128xf8E4M3FN>
    %26 = vector.load %w_ring[%24, %c0, %c0] : memref<1x1024x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x512x128xf8E4M3FN>
    %27 = vector.shape_cast %26 : vector<1x512x128xf8E4M3FN> to vector<512x128xf8E4M3FN>
    %28 = tpu.matmul %25, %27, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<16x128xf8E4M3FN>, vector<512x128xf8E4M3FN>, vector<16x512xf32> -> vector<16x512xf32>
    %29 = memref.load %x_scale_kept[%c0, %c0] : memref<1x2xf32, #tpu.memory_space<smem>>
    %30 = vector.extract_strided_slice %28 {offsets = [0 : i64, 0 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %31 = arith.addi %14, %c0_i32 : i32
    %32 = arith.index_cast %31 : i32 to index
    %33 = arith.addi %c0_i32, %c0_i32 : i32
    %34 = arith.index_cast %33 : i32 to index
    %35 = memref.load %w_scale_kept[%32, %34] : memref<8x2xf32, #tpu.memory_space<smem>>
    %36 = arith.mulf %29, %35 : f32
    %37 = vector.broadcast %36 : f32 to vector<16x128xf32>
    %38 = arith.mulf %30, %37 : vector<16x128xf32>
    %39 = vector.extract_strided_slice %28 {offsets = [0 : i64, 128 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %40 = arith.addi %14, %c1_i32 : i32
    %41 = arith.index_cast %40 : i32 to index
    %42 = arith.addi %c0_i32, %c0_i32 : i32
    %43 = arith.index_cast %42 : i32 to index
    %44 = memref.load %w_scale_kept[%41, %43] : memref<8x2xf32, #tpu.memory_space<smem>>
    %45 = arith.mulf %29, %44 : f32
    %46 = vector.broadcast %45 : f32 to vector<16x128xf32>
    %47 = arith.mulf %39, %46 : vector<16x128xf32>
    %48 = vector.extract_strided_slice %28 {offsets = [0 : i64, 256 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %49 = arith.addi %14, %c2_i32 : i32
    %50 = arith.index_cast %49 : i32 to index
    %51 = arith.addi %c0_i32, %c0_i32 : i32
    %52 = arith.index_cast %51 : i32 to index
    %53 = memref.load %w_scale_kept[%50, %52] : memref<8x2xf32, #tpu.memory_space<smem>>
    %54 = arith.mulf %29, %53 : f32
    %55 = vector.broadcast %54 : f32 to vector<16x128xf32>
    %56 = arith.mulf %48, %55 : vector<16x128xf32>
    %57 = vector.extract_strided_slice %28 {offsets = [0 : i64, 384 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %58 = arith.addi %14, %c3_i32 : i32
    %59 = arith.index_cast %58 : i32 to index
    %60 = arith.addi %c0_i32, %c0_i32 : i32
    %61 = arith.index_cast %60 : i32 to index
    %62 = memref.load %w_scale_kept[%59, %61] : memref<8x2xf32, #tpu.memory_space<smem>>
    %63 = arith.mulf %29, %62 : f32
    %64 = vector.broadcast %63 : f32 to vector<16x128xf32>
    %65 = arith.mulf %57, %64 : vector<16x128xf32>
    %66 = vector.load %x_kept[%c0, %c128] : memref<32x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<16x128xf8E4M3FN>
    %67 = vector.load %w_ring[%24, %c0, %c128] : memref<1x1024x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x512x128xf8E4M3FN>
    %68 = vector.shape_cast %67 : vector<1x512x128xf8E4M3FN> to vector<512x128xf8E4M3FN>
    %69 = tpu.matmul %66, %68, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<16x128xf8E4M3FN>, vector<512x128xf8E4M3FN>, vector<16x512xf32> -> vector<16x512xf32>
    %70 = memref.load %x_scale_kept[%c0, %c1] : memref<1x2xf32, #tpu.memory_space<smem>>
    %71 = vector.extract_strided_slice %69 {offsets = [0 : i64, 0 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %72 = arith.addi %14, %c0_i32 : i32
    %73 = arith.index_cast %72 : i32 to index
    %74 = arith.addi %c0_i32, %c1_i32 : i32
    %75 = arith.index_cast %74 : i32 to index
    %76 = memref.load %w_scale_kept[%73, %75] : memref<8x2xf32, #tpu.memory_space<smem>>
    %77 = arith.mulf %70, %76 : f32
    %78 = vector.broadcast %77 : f32 to vector<16x128xf32>
    %79 = arith.mulf %71, %78 : vector<16x128xf32>
    %80 = vector.extract_strided_slice %69 {offsets = [0 : i64, 128 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %81 = arith.addi %14, %c1_i32 : i32
    %82 = arith.index_cast %81 : i32 to index
    %83 = arith.addi %c0_i32, %c1_i32 : i32
    %84 = arith.index_cast %83 : i32 to index
    %85 = memref.load %w_scale_kept[%82, %84] : memref<8x2xf32, #tpu.memory_space<smem>>
    %86 = arith.mulf %70, %85 : f32
    %87 = vector.broadcast %86 : f32 to vector<16x128xf32>
    %88 = arith.mulf %80, %87 : vector<16x128xf32>
    %89 = vector.extract_strided_slice %69 {offsets = [0 : i64, 256 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %90 = arith.addi %14, %c2_i32 : i32
    %91 = arith.index_cast %90 : i32 to index
    %92 = arith.addi %c0_i32, %c1_i32 : i32
    %93 = arith.index_cast %92 : i32 to index
    %94 = memref.load %w_scale_kept[%91, %93] : memref<8x2xf32, #tpu.memory_space<smem>>
    %95 = arith.mulf %70, %94 : f32
    %96 = vector.broadcast %95 : f32 to vector<16x128xf32>
    %97 = arith.mulf %89, %96 : vector<16x128xf32>
    %98 = vector.extract_strided_slice %69 {offsets = [0 : i64, 384 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %99 = arith.addi %14, %c3_i32 : i32
    %100 = arith.index_cast %99 : i32 to index
    %101 = arith.addi %c0_i32, %c1_i32 : i32
    %102 = arith.index_cast %101 : i32 to index
    %103 = memref.load %w_scale_kept[%100, %102] : memref<8x2xf32, #tpu.memory_space<smem>>
    %104 = arith.mulf %70, %103 : f32
    %105 = vector.broadcast %104 : f32 to vector<16x128xf32>
    %106 = arith.mulf %98, %105 : vector<16x128xf32>
    %107 = arith.addf %38, %79 : vector<16x128xf32>
    %108 = arith.addf %47, %88 : vector<16x128xf32>
    %109 = arith.addf %56, %97 : vector<16x128xf32>
    %110 = arith.addf %65, %106 : vector<16x128xf32>
    %111 = arith.muli %n, %c1024_i32 : i32
    %112 = arith.addi %111, %c0_i32 : i32
    %113 = tpu.assume_multiple %112, 128 : i32
    %114 = arith.index_cast %113 : i32 to index
    tpu.vector_store %out_kept[%c0, %114], %107 {strides = array<i32>} : memref<16x1024xf32, #tpu.memory_space<vmem>>, vector<16x128xf32>,
    %115 = arith.muli %n, %c1024_i32 : i32
    %116 = arith.addi %115, %c128_i32 : i32
    %117 = tpu.assume_multiple %116, 128 : i32
    %118 = arith.index_cast %117 : i32 to index
    tpu.vector_store %out_kept[%c0, %118], %108 {strides = array<i32>} : memref<16x1024xf32, #tpu.memory_space<vmem>>, vector<16x128xf32>,
    %119 = arith.muli %n, %c1024_i32 : i32
    %120 = arith.addi %119, %c256_i32 : i32
    %121 = tpu.assume_multiple %120, 128 : i32
    %122 = arith.index_cast %121 : i32 to index
    tpu.vector_store %out_kept[%c0, %122], %109 {strides = array<i32>} : memref<16x1024xf32, #tpu.memory_space<vmem>>, vector<16x128xf32>,
    %123 = arith.muli %n, %c1024_i32 : i32
    %124 = arith.addi %123, %c384_i32 : i32
    %125 = tpu.assume_multiple %124, 128 : i32
    %126 = arith.index_cast %125 : i32 to index
    tpu.vector_store %out_kept[%c0, %126], %110 {strides = array<i32>} : memref<16x1024xf32, #tpu.memory_space<vmem>>, vector<16x128xf32>,
    %127 = vector.load %x_kept[%c0, %c0] : memref<32x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<16x128xf8E4M3FN>
    %128 = vector.load %w_ring[%24, %c512, %c0] : memref<1x1024x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x512x128xf8E4M3FN>
    %129 = vector.shape_cast %128 : vector<1x512x128xf8E4M3FN> to vector<512x128xf8E4M3FN>
    %130 = tpu.matmul %127, %129, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<16x128xf8E4M3FN>, vector<512x128xf8E4M3FN>, vector<16x512xf32> -> vector<16x512xf32>
    %131 = memref.load %x_scale_kept[%c0, %c0] : memref<1x2xf32, #tpu.memory_space<smem>>
    %132 = vector.extract_strided_slice %130 {offsets = [0 : i64, 0 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %133 = arith.addi %14, %c4_i32 : i32
    %134 = arith.index_cast %133 : i32 to index
    %135 = arith.addi %c0_i32, %c0_i32 : i32
    %136 = arith.index_cast %135 : i32 to index
    %137 = memref.load %w_scale_kept[%134, %136] : memref<8x2xf32, #tpu.memory_space<smem>>
    %138 = arith.mulf %131, %137 : f32
    %139 = vector.broadcast %138 : f32 to vector<16x128xf32>
    %140 = arith.mulf %132, %139 : vector<16x128xf32>
    %141 = vector.extract_strided_slice %130 {offsets = [0 : i64, 128 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %142 = arith.addi %14, %c5_i32 : i32
    %143 = arith.index_cast %142 : i32 to index
    %144 = arith.addi %c0_i32, %c0_i32 : i32
    %145 = arith.index_cast %144 : i32 to index
    %146 = memref.load %w_scale_kept[%143, %145] : memref<8x2xf32, #tpu.memory_space<smem>>
    %147 = arith.mulf %131, %146 : f32
    %148 = vector.broadcast %147 : f32 to vector<16x128xf32>
    %149 = arith.mulf %141, %148 : vector<16x128xf32>
    %150 = vector.extract_strided_slice %130 {offsets = [0 : i64, 256 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %151 = arith.addi %14, %c6_i32 : i32
    %152 = arith.index_cast %151 : i32 to index
    %153 = arith.addi %c0_i32, %c0_i32 : i32
    %154 = arith.index_cast %153 : i32 to index
    %155 = memref.load %w_scale_kept[%152, %154] : memref<8x2xf32, #tpu.memory_space<smem>>
    %156 = arith.mulf %131, %155 : f32
    %157 = vector.broadcast %156 : f32 to vector<16x128xf32>
    %158 = arith.mulf %150, %157 : vector<16x128xf32>
    %159 = vector.extract_strided_slice %130 {offsets = [0 : i64, 384 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %160 = arith.addi %14, %c7_i32 : i32
    %161 = arith.index_cast %160 : i32 to index
    %162 = arith.addi %c0_i32, %c0_i32 : i32
    %163 = arith.index_cast %162 : i32 to index
    %164 = memref.load %w_scale_kept[%161, %163] : memref<8x2xf32, #tpu.memory_space<smem>>
    %165 = arith.mulf %131, %164 : f32
    %166 = vector.broadcast %165 : f32 to vector<16x128xf32>
    %167 = arith.mulf %159, %166 : vector<16x128xf32>
    %168 = vector.load %x_kept[%c0, %c128] : memref<32x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<16x128xf8E4M3FN>
    %169 = vector.load %w_ring[%24, %c512, %c128] : memref<1x1024x256xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x512x128xf8E4M3FN>
    %170 = vector.shape_cast %169 : vector<1x512x128xf8E4M3FN> to vector<512x128xf8E4M3FN>
    %171 = tpu.matmul %168, %170, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<16x128xf8E4M3FN>, vector<512x128xf8E4M3FN>, vector<16x512xf32> -> vector<16x512xf32>
    %172 = memref.load %x_scale_kept[%c0, %c1] : memref<1x2xf32, #tpu.memory_space<smem>>
    %173 = vector.extract_strided_slice %171 {offsets = [0 : i64, 0 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %174 = arith.addi %14, %c4_i32 : i32
    %175 = arith.index_cast %174 : i32 to index
    %176 = arith.addi %c0_i32, %c1_i32 : i32
    %177 = arith.index_cast %176 : i32 to index
    %178 = memref.load %w_scale_kept[%175, %177] : memref<8x2xf32, #tpu.memory_space<smem>>
    %179 = arith.mulf %172, %178 : f32
    %180 = vector.broadcast %179 : f32 to vector<16x128xf32>
    %181 = arith.mulf %173, %180 : vector<16x128xf32>
    %182 = vector.extract_strided_slice %171 {offsets = [0 : i64, 128 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %183 = arith.addi %14, %c5_i32 : i32
    %184 = arith.index_cast %183 : i32 to index
    %185 = arith.addi %c0_i32, %c1_i32 : i32
    %186 = arith.index_cast %185 : i32 to index
    %187 = memref.load %w_scale_kept[%184, %186] : memref<8x2xf32, #tpu.memory_space<smem>>
    %188 = arith.mulf %172, %187 : f32
    %189 = vector.broadcast %188 : f32 to vector<16x128xf32>
    %190 = arith.mulf %182, %189 : vector<16x128xf32>
    %191 = vector.extract_strided_slice %171 {offsets = [0 : i64, 256 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %192 = arith.addi %14, %c6_i32 : i32
    %193 = arith.index_cast %192 : i32 to index
    %194 = arith.addi %c0_i32, %c1_i32 : i32
    %195 = arith.index_cast %194 : i32 to index
    %196 = memref.load %w_scale_kept[%193, %195] : memref<8x2xf32, #tpu.memory_space<smem>>
    %197 = arith.mulf %172, %196 : f32
    %198 = vector.broadcast %197 : f32 to vector<16x128xf32>
    %199 = arith.mulf %191, %198 : vector<16x128xf32>
    %200 = vector.extract_strided_slice %171 {offsets = [0 : i64, 384 : i64], sizes = [16 : i64, 128 : i64], strides = [1 : i64, 1 : i64]} : vector<16x512xf32> to vector<16x128xf32>
    %201 = arith.addi %14, %c7_i32 : i32
    %202 = arith.index_cast %201 : i32 to index
    %203 = arith.addi %c0_i32, %c1_i32 : i32
    %204 = arith.index_cast %203 : i32 to index
    %205 = memref.load %w_scale_kept[%202, %204] : memref<8x2xf32, #tpu.memory_space<smem>>
    %206 = arith.mulf %172, %205 : f32
    %207 = vector.broadcast %206 : f32 to vector<16x128xf32>
    %208 = arith.mulf %200, %207 : vector<16x128xf32>
    %209 = arith.addf %140, %181 : vector<16x128xf32>
    %210 = arith.addf %149, %190 : vector<16x128xf32>
    %211 = arith.addf %158, %199 : vector<16x128xf32>
    %212 = arith.addf %167, %208 : vector<16x128xf32>
    %213 = arith.muli %n, %c1024_i32 : i32
    %214 = arith.addi %213, %c512_i32 : i32
    %215 = tpu.assume_multiple %214, 128 : i32
    %216 = arith.index_cast %215 : i32 to index
    tpu.vector_store %out_kept[%c0, %216], %209 {strides = array<i32>} : memref<16x1024xf32, #tpu.memory_space<vmem>>, vector<16x128xf32>,
    %217 = arith.muli %n, %c1024_i32 : i32
    %218 = arith.addi %217, %c640_i32 : i32
    %219 = tpu.assume_multiple %218, 128 : i32
    %220 = arith.index_cast %219 : i32 to index
    tpu.vector_store %out_kept[%c0, %220], %210 {strides = array<i32>} : memref<16x1024xf32, #tpu.memory_space<vmem>>, vector<16x128xf32>,
    %221 = arith.muli %n, %c1024_i32 : i32
    %222 = arith.addi %221, %c768_i32 : i32
    %223 = tpu.assume_multiple %222, 128 : i32
    %224 = arith.index_cast %223 : i32 to index
    tpu.vector_store %out_kept[%c0, %224], %211 {strides = array<i32>} : memref<16x1024xf32, #tpu.memory_space<vmem>>, vector<16x128xf32>,
    %225 = arith.muli %n, %c1024_i32 : i32
    %226 = arith.addi %225, %c896_i32 : i32
    %227 = tpu.assume_multiple %226, 128 : i32
    %228 = arith.index_cast %227 : i32 to index
    tpu.vector_store %out_kept[%c0, %228], %212 {strides = array<i32>} : memref<16x1024xf32, #tpu.memory_space<vmem>>, vector<16x128xf32>,
    %229 = tpu.memref_slice %out_kept[%c0_i32, %c0_i32] : memref<16x1024xf32, #tpu.memory_space<vmem>> -> memref<16x1024xf32, #tpu.memory_space<vmem>>
    %230 = tpu.memref_slice %out[%c0_i32, %c0_i32] : memref<16x1024xf32, #tpu.memory_space<hbm>> -> memref<16x1024xf32, #tpu.memory_space<hbm>>
    %231 = tpu.memref_slice %semaphores[%c4_i32] : memref<6x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    %232 = tpu.memref_squeeze %231 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    tpu.enqueue_dma source(%229 : memref<16x1024xf32, #tpu.memory_space<vmem>>) target(%230 : memref<16x1024xf32, #tpu.memory_space<hbm>>) target_semaphore(%232 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start out")
    %233 = arith.cmpi eq, %n, %c0_i32 : i32
    scf.if %233 {
      %234 = tpu.memref_slice %out_kept[%c0_i32, %c0_i32] : memref<16x1024xf32, #tpu.memory_space<vmem>> -> memref<16x1024xf32, #tpu.memory_space<vmem>>
      %235 = tpu.memref_slice %out[%c0_i32, %c0_i32] : memref<16x1024xf32, #tpu.memory_space<hbm>> -> memref<16x1024xf32, #tpu.memory_space<hbm>>
      %236 = tpu.memref_slice %semaphores[%c4_i32] : memref<6x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %237 = tpu.memref_squeeze %236 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.wait_dma2 semaphore(%237 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%234 : memref<16x1024xf32, #tpu.memory_space<vmem>>) dst(%235 : memref<16x1024xf32, #tpu.memory_space<hbm>>) loc("wait out")
    }
    return
  }
}
