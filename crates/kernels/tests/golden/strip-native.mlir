// strip large 512x512x1024:512 x=fp8 scales=block out=bf16 print=mosaic
module attributes {stable_mosaic.version = 15 : i64} {
  func.func @octile_strip_large(%m: i32, %n: i32, %k: i32, %x: memref<512x1024xf8E4M3FN, #tpu.memory_space<hbm>>, %w_q: memref<512x1024xf8E4M3FN, #tpu.memory_space<hbm>>, %w_scale: memref<1x2xf32, #tpu.memory_space<hbm>>, %x_scale: memref<1x2xf32, #tpu.memory_space<hbm>>, %out: memref<512x512xbf16, #tpu.memory_space<hbm>>, %x_kept: memref<512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, %w_ring: memref<1x512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, %w_scale_kept: memref<1x2xf32, #tpu.memory_space<smem>>, %x_scale_kept: memref<1x2xf32, #tpu.memory_space<smem>>, %out_kept: memref<512x512xbf16, #tpu.memory_space<vmem>>, %semaphores: memref<6x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) attributes {dimension_semantics = [#tpu.dimension_semantics<arbitrary>, #tpu.dimension_semantics<arbitrary>, #tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 1, 1, 1>, scalar_prefetch = 0 : i64, scratch_operands = 6 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{}, {}, {}, {}, {}]} {
    %c0_i32 = arith.constant 0 : i32
    %c2_i32 = arith.constant 2 : i32
    %c3_i32 = arith.constant 3 : i32
    %c5_i32 = arith.constant 5 : i32
    %c1_i32 = arith.constant 1 : i32
    %c0 = arith.constant 0 : index
    %cst = arith.constant dense<0.000000e+00> : vector<256x256xf32>
    %c512 = arith.constant 512 : index
    %c1 = arith.constant 1 : index
    %c512_i32 = arith.constant 512 : i32
    %c256 = arith.constant 256 : index
    %c256_i32 = arith.constant 256 : i32
    %c4_i32 = arith.constant 4 : i32
    %0 = arith.cmpi eq, %n, %c0_i32 : i32
    scf.if %0 {
      %1 = tpu.memref_slice %semaphores[%c0_i32] : memref<6x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %2 = tpu.memref_squeeze %1 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %3 = tpu.memref_slice %semaphores[%c2_i32] : memref<6x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %4 = tpu.memref_squeeze %3 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %5 = tpu.memref_slice %semaphores[%c3_i32] : memref<6x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %6 = tpu.memref_squeeze %5 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%x : memref<512x1024xf8E4M3FN, #tpu.memory_space<hbm>>) target(%x_kept : memref<512x1024xf8E4M3FN, #tpu.memory_space<vmem>>) target_semaphore(%2 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start x")
      tpu.enqueue_dma source(%w_scale : memref<1x2xf32, #tpu.memory_space<hbm>>) target(%w_scale_kept : memref<1x2xf32, #tpu.memory_space<smem>>) target_semaphore(%4 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start w_scale")
      tpu.enqueue_dma source(%x_scale : memref<1x2xf32, #tpu.memory_space<hbm>>) target(%x_scale_kept : memref<1x2xf32, #tpu.memory_space<smem>>) target_semaphore(%6 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start x_scale")
      %7 = arith.addi %c0_i32, %c5_i32 : i32
      %8 = tpu.memref_slice %w_q[%c0_i32, %c0_i32] : memref<512x1024xf8E4M3FN, #tpu.memory_space<hbm>> -> memref<512x1024xf8E4M3FN, #tpu.memory_space<hbm>>
      %9 = tpu.memref_slice %w_ring[%c0_i32, %c0_i32, %c0_i32] : memref<1x512x1024xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<1x512x1024xf8E4M3FN, #tpu.memory_space<vmem>>
      %10 = tpu.memref_squeeze %9 : memref<1x512x1024xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<512x1024xf8E4M3FN, #tpu.memory_space<vmem>>
      %11 = tpu.memref_slice %semaphores[%7] : memref<6x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %12 = tpu.memref_squeeze %11 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.enqueue_dma source(%8 : memref<512x1024xf8E4M3FN, #tpu.memory_space<hbm>>) target(%10 : memref<512x1024xf8E4M3FN, #tpu.memory_space<vmem>>) target_semaphore(%12 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start w_q")
      tpu.wait_dma2 semaphore(%2 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%x : memref<512x1024xf8E4M3FN, #tpu.memory_space<hbm>>) dst(%x_kept : memref<512x1024xf8E4M3FN, #tpu.memory_space<vmem>>) loc("wait x")
      tpu.wait_dma2 semaphore(%4 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%w_scale : memref<1x2xf32, #tpu.memory_space<hbm>>) dst(%w_scale_kept : memref<1x2xf32, #tpu.memory_space<smem>>) loc("wait w_scale")
      tpu.wait_dma2 semaphore(%6 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%x_scale : memref<1x2xf32, #tpu.memory_space<hbm>>) dst(%x_scale_kept : memref<1x2xf32, #tpu.memory_space<smem>>) loc("wait x_scale")
    }
    %13 = arith.muli %n, %c1_i32 : i32
    %14 = arith.muli %n, %c1_i32 : i32
    %15 = arith.addi %14, %c0_i32 : i32
    %16 = arith.remsi %15, %c1_i32 : i32
    %17 = arith.addi %c0_i32, %c5_i32 : i32
    %18 = tpu.memref_slice %w_q[%c0_i32, %c0_i32] : memref<512x1024xf8E4M3FN, #tpu.memory_space<hbm>> -> memref<512x1024xf8E4M3FN, #tpu.memory_space<hbm>>
    %19 = tpu.memref_slice %w_ring[%c0_i32, %c0_i32, %c0_i32] : memref<1x512x1024xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<1x512x1024xf8E4M3FN, #tpu.memory_space<vmem>>
    %20 = tpu.memref_squeeze %19 : memref<1x512x1024xf8E4M3FN, #tpu.memory_space<vmem>> -> memref<512x1024xf8E4M3FN, #tpu.memory_space<vmem>>
    %21 = tpu.memref_slice %semaphores[%17] : memref<6x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    %22 = tpu.memref_squeeze %21 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    tpu.wait_dma2 semaphore(%22 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%18 : memref<512x1024xf8E4M3FN, #tpu.memory_space<hbm>>) dst(%20 : memref<512x1024xf8E4M3FN, #tpu.memory_space<vmem>>) loc("wait w_q")
    %23 = arith.index_cast %c0_i32 : i32 to index
    %24 = vector.load %x_kept[%c0, %c0] : memref<512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, vector<256x512xf8E4M3FN>
    %25 = vector.load %w_ring[%23, %c0, %c0] : memref<1x512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x256x512xf8E4M3FN>
    %26 = vector.shape_cast %25 : vector<1x256x512xf8E4M3FN> to vector<256x512xf8E4M3FN>
    %27 = tpu.matmul %24, %26, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<256x512xf8E4M3FN>, vector<256x512xf8E4M3FN>, vector<256x256xf32> -> vector<256x256xf32>
    %28 = memref.load %x_scale_kept[%c0, %c0] : memref<1x2xf32, #tpu.memory_space<smem>>
    %29 = arith.addi %13, %c0_i32 : i32
    %30 = arith.index_cast %29 : i32 to index
    %31 = arith.addi %c0_i32, %c0_i32 : i32
    %32 = arith.index_cast %31 : i32 to index
    %33 = memref.load %w_scale_kept[%30, %32] : memref<1x2xf32, #tpu.memory_space<smem>>
    %34 = arith.mulf %28, %33 : f32
    %35 = vector.broadcast %34 : f32 to vector<256x256xf32>
    %36 = arith.mulf %27, %35 : vector<256x256xf32>
    %37 = vector.load %x_kept[%c0, %c512] : memref<512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, vector<256x512xf8E4M3FN>
    %38 = vector.load %w_ring[%23, %c0, %c512] : memref<1x512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x256x512xf8E4M3FN>
    %39 = vector.shape_cast %38 : vector<1x256x512xf8E4M3FN> to vector<256x512xf8E4M3FN>
    %40 = tpu.matmul %37, %39, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<256x512xf8E4M3FN>, vector<256x512xf8E4M3FN>, vector<256x256xf32> -> vector<256x256xf32>
    %41 = memref.load %x_scale_kept[%c0, %c1] : memref<1x2xf32, #tpu.memory_space<smem>>
    %42 = arith.addi %13, %c0_i32 : i32
    %43 = arith.index_cast %42 : i32 to index
    %44 = arith.addi %c0_i32, %c1_i32 : i32
    %45 = arith.index_cast %44 : i32 to index
    %46 = memref.load %w_scale_kept[%43, %45] : memref<1x2xf32, #tpu.memory_space<smem>>
    %47 = arith.mulf %41, %46 : f32
    %48 = vector.broadcast %47 : f32 to vector<256x256xf32>
    %49 = arith.mulf %40, %48 : vector<256x256xf32>
    %50 = arith.addf %36, %49 : vector<256x256xf32>
    %51 = arith.truncf %50 : vector<256x256xf32> to vector<256x256xbf16>
    %52 = arith.muli %n, %c512_i32 : i32
    %53 = arith.addi %52, %c0_i32 : i32
    %54 = tpu.assume_multiple %53, 128 : i32
    %55 = arith.index_cast %54 : i32 to index
    tpu.vector_store %out_kept[%c0, %55], %51 {strides = array<i32>} : memref<512x512xbf16, #tpu.memory_space<vmem>>, vector<256x256xbf16>,
    %56 = vector.load %x_kept[%c256, %c0] : memref<512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, vector<256x512xf8E4M3FN>
    %57 = vector.load %w_ring[%23, %c0, %c0] : memref<1x512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x256x512xf8E4M3FN>
    %58 = vector.shape_cast %57 : vector<1x256x512xf8E4M3FN> to vector<256x512xf8E4M3FN>
    %59 = tpu.matmul %56, %58, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<256x512xf8E4M3FN>, vector<256x512xf8E4M3FN>, vector<256x256xf32> -> vector<256x256xf32>
    %60 = memref.load %x_scale_kept[%c0, %c0] : memref<1x2xf32, #tpu.memory_space<smem>>
    %61 = arith.addi %13, %c0_i32 : i32
    %62 = arith.index_cast %61 : i32 to index
    %63 = arith.addi %c0_i32, %c0_i32 : i32
    %64 = arith.index_cast %63 : i32 to index
    %65 = memref.load %w_scale_kept[%62, %64] : memref<1x2xf32, #tpu.memory_space<smem>>
    %66 = arith.mulf %60, %65 : f32
    %67 = vector.broadcast %66 : f32 to vector<256x256xf32>
    %68 = arith.mulf %59, %67 : vector<256x256xf32>
    %69 = vector.load %x_kept[%c256, %c512] : memref<512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, vector<256x512xf8E4M3FN>
    %70 = vector.load %w_ring[%23, %c0, %c512] : memref<1x512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x256x512xf8E4M3FN>
    %71 = vector.shape_cast %70 : vector<1x256x512xf8E4M3FN> to vector<256x512xf8E4M3FN>
    %72 = tpu.matmul %69, %71, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<256x512xf8E4M3FN>, vector<256x512xf8E4M3FN>, vector<256x256xf32> -> vector<256x256xf32>
    %73 = memref.load %x_scale_kept[%c0, %c1] : memref<1x2xf32, #tpu.memory_space<smem>>
    %74 = arith.addi %13, %c0_i32 : i32
    %75 = arith.index_cast %74 : i32 to index
    %76 = arith.addi %c0_i32, %c1_i32 : i32
    %77 = arith.index_cast %76 : i32 to index
    %78 = memref.load %w_scale_kept[%75, %77] : memref<1x2xf32, #tpu.memory_space<smem>>
    %79 = arith.mulf %73, %78 : f32
    %80 = vector.broadcast %79 : f32 to vector<256x256xf32>
    %81 = arith.mulf %72, %80 : vector<256x256xf32>
    %82 = arith.addf %68, %81 : vector<256x256xf32>
    %83 = arith.truncf %82 : vector<256x256xf32> to vector<256x256xbf16>
    %84 = arith.muli %n, %c512_i32 : i32
    %85 = arith.addi %84, %c0_i32 : i32
    %86 = tpu.assume_multiple %85, 128 : i32
    %87 = arith.index_cast %86 : i32 to index
    tpu.vector_store %out_kept[%c256, %87], %83 {strides = array<i32>} : memref<512x512xbf16, #tpu.memory_space<vmem>>, vector<256x256xbf16>,
    %88 = vector.load %x_kept[%c0, %c0] : memref<512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, vector<256x512xf8E4M3FN>
    %89 = vector.load %w_ring[%23, %c256, %c0] : memref<1x512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x256x512xf8E4M3FN>
    %90 = vector.shape_cast %89 : vector<1x256x512xf8E4M3FN> to vector<256x512xf8E4M3FN>
    %91 = tpu.matmul %88, %90, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<256x512xf8E4M3FN>, vector<256x512xf8E4M3FN>, vector<256x256xf32> -> vector<256x256xf32>
    %92 = memref.load %x_scale_kept[%c0, %c0] : memref<1x2xf32, #tpu.memory_space<smem>>
    %93 = arith.addi %13, %c0_i32 : i32
    %94 = arith.index_cast %93 : i32 to index
    %95 = arith.addi %c0_i32, %c0_i32 : i32
    %96 = arith.index_cast %95 : i32 to index
    %97 = memref.load %w_scale_kept[%94, %96] : memref<1x2xf32, #tpu.memory_space<smem>>
    %98 = arith.mulf %92, %97 : f32
    %99 = vector.broadcast %98 : f32 to vector<256x256xf32>
    %100 = arith.mulf %91, %99 : vector<256x256xf32>
    %101 = vector.load %x_kept[%c0, %c512] : memref<512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, vector<256x512xf8E4M3FN>
    %102 = vector.load %w_ring[%23, %c256, %c512] : memref<1x512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x256x512xf8E4M3FN>
    %103 = vector.shape_cast %102 : vector<1x256x512xf8E4M3FN> to vector<256x512xf8E4M3FN>
    %104 = tpu.matmul %101, %103, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<256x512xf8E4M3FN>, vector<256x512xf8E4M3FN>, vector<256x256xf32> -> vector<256x256xf32>
    %105 = memref.load %x_scale_kept[%c0, %c1] : memref<1x2xf32, #tpu.memory_space<smem>>
    %106 = arith.addi %13, %c0_i32 : i32
    %107 = arith.index_cast %106 : i32 to index
    %108 = arith.addi %c0_i32, %c1_i32 : i32
    %109 = arith.index_cast %108 : i32 to index
    %110 = memref.load %w_scale_kept[%107, %109] : memref<1x2xf32, #tpu.memory_space<smem>>
    %111 = arith.mulf %105, %110 : f32
    %112 = vector.broadcast %111 : f32 to vector<256x256xf32>
    %113 = arith.mulf %104, %112 : vector<256x256xf32>
    %114 = arith.addf %100, %113 : vector<256x256xf32>
    %115 = arith.truncf %114 : vector<256x256xf32> to vector<256x256xbf16>
    %116 = arith.muli %n, %c512_i32 : i32
    %117 = arith.addi %116, %c256_i32 : i32
    %118 = tpu.assume_multiple %117, 128 : i32
    %119 = arith.index_cast %118 : i32 to index
    tpu.vector_store %out_kept[%c0, %119], %115 {strides = array<i32>} : memref<512x512xbf16, #tpu.memory_space<vmem>>, vector<256x256xbf16>,
    %120 = vector.load %x_kept[%c256, %c0] : memref<512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, vector<256x512xf8E4M3FN>
    %121 = vector.load %w_ring[%23, %c256, %c0] : memref<1x512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x256x512xf8E4M3FN>
    %122 = vector.shape_cast %121 : vector<1x256x512xf8E4M3FN> to vector<256x512xf8E4M3FN>
    %123 = tpu.matmul %120, %122, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<256x512xf8E4M3FN>, vector<256x512xf8E4M3FN>, vector<256x256xf32> -> vector<256x256xf32>
    %124 = memref.load %x_scale_kept[%c0, %c0] : memref<1x2xf32, #tpu.memory_space<smem>>
    %125 = arith.addi %13, %c0_i32 : i32
    %126 = arith.index_cast %125 : i32 to index
    %127 = arith.addi %c0_i32, %c0_i32 : i32
    %128 = arith.index_cast %127 : i32 to index
    %129 = memref.load %w_scale_kept[%126, %128] : memref<1x2xf32, #tpu.memory_space<smem>>
    %130 = arith.mulf %124, %129 : f32
    %131 = vector.broadcast %130 : f32 to vector<256x256xf32>
    %132 = arith.mulf %123, %131 : vector<256x256xf32>
    %133 = vector.load %x_kept[%c256, %c512] : memref<512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, vector<256x512xf8E4M3FN>
    %134 = vector.load %w_ring[%23, %c256, %c512] : memref<1x512x1024xf8E4M3FN, #tpu.memory_space<vmem>>, vector<1x256x512xf8E4M3FN>
    %135 = vector.shape_cast %134 : vector<1x256x512xf8E4M3FN> to vector<256x512xf8E4M3FN>
    %136 = tpu.matmul %133, %135, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, transpose_lhs_hint = false} : vector<256x512xf8E4M3FN>, vector<256x512xf8E4M3FN>, vector<256x256xf32> -> vector<256x256xf32>
    %137 = memref.load %x_scale_kept[%c0, %c1] : memref<1x2xf32, #tpu.memory_space<smem>>
    %138 = arith.addi %13, %c0_i32 : i32
    %139 = arith.index_cast %138 : i32 to index
    %140 = arith.addi %c0_i32, %c1_i32 : i32
    %141 = arith.index_cast %140 : i32 to index
    %142 = memref.load %w_scale_kept[%139, %141] : memref<1x2xf32, #tpu.memory_space<smem>>
    %143 = arith.mulf %137, %142 : f32
    %144 = vector.broadcast %143 : f32 to vector<256x256xf32>
    %145 = arith.mulf %136, %144 : vector<256x256xf32>
    %146 = arith.addf %132, %145 : vector<256x256xf32>
    %147 = arith.truncf %146 : vector<256x256xf32> to vector<256x256xbf16>
    %148 = arith.muli %n, %c512_i32 : i32
    %149 = arith.addi %148, %c256_i32 : i32
    %150 = tpu.assume_multiple %149, 128 : i32
    %151 = arith.index_cast %150 : i32 to index
    tpu.vector_store %out_kept[%c256, %151], %147 {strides = array<i32>} : memref<512x512xbf16, #tpu.memory_space<vmem>>, vector<256x256xbf16>,
    %152 = tpu.memref_slice %out_kept[%c0_i32, %c0_i32] : memref<512x512xbf16, #tpu.memory_space<vmem>> -> memref<512x512xbf16, #tpu.memory_space<vmem>>
    %153 = tpu.memref_slice %out[%c0_i32, %c0_i32] : memref<512x512xbf16, #tpu.memory_space<hbm>> -> memref<512x512xbf16, #tpu.memory_space<hbm>>
    %154 = tpu.memref_slice %semaphores[%c4_i32] : memref<6x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    %155 = tpu.memref_squeeze %154 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    tpu.enqueue_dma source(%152 : memref<512x512xbf16, #tpu.memory_space<vmem>>) target(%153 : memref<512x512xbf16, #tpu.memory_space<hbm>>) target_semaphore(%155 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) loc("start out")
    %156 = arith.cmpi eq, %n, %c0_i32 : i32
    scf.if %156 {
      %157 = tpu.memref_slice %out_kept[%c0_i32, %c0_i32] : memref<512x512xbf16, #tpu.memory_space<vmem>> -> memref<512x512xbf16, #tpu.memory_space<vmem>>
      %158 = tpu.memref_slice %out[%c0_i32, %c0_i32] : memref<512x512xbf16, #tpu.memory_space<hbm>> -> memref<512x512xbf16, #tpu.memory_space<hbm>>
      %159 = tpu.memref_slice %semaphores[%c4_i32] : memref<6x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      %160 = tpu.memref_squeeze %159 : memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>> -> memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
      tpu.wait_dma2 semaphore(%160 : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%157 : memref<512x512xbf16, #tpu.memory_space<vmem>>) dst(%158 : memref<512x512xbf16, #tpu.memory_space<hbm>>) loc("wait out")
    }
    return
  }
}
