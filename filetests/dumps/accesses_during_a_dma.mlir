// run: check copies-balanced
// expect: copies-balanced Pass: 1 semaphore, all at zero at the end
// A DMA into rows 4 to 7 of %v is in flight. Every access that overlaps it races; an access that cannot be
// followed proves nothing.
!near = memref<8x128xf32, #tpu.memory_space<vmem>>
!half = memref<4x128xf32, #tpu.memory_space<vmem>>
!hbm = memref<4x128xf32, #tpu.memory_space<hbm>>
!dma = memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
!rows = vector<4x128xf32>
module {
  func.func @k(%i: i32, %x: !hbm, %v: !near, %o: !near, %s: !dma) attributes {iteration_bounds = array<i64: 1>} {
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %four = arith.constant 4 : i32
    %zero = arith.constant 0 : i32
    %half = tpu.memref_slice %v[%four, %zero] : !near -> !half
    %w = vector.load %o[%c0, %c0] : !near, !rows
    tpu.enqueue_dma source(%x : !hbm) target(%half : !half) target_semaphore(%s : !dma)
    // without => copies-balanced Fail: line 35 waits on %s for a DMA that was never started
    %a = vector.load %v[%c0, %c0] : !near, !rows
    // without => copies-balanced Pass: 1 semaphore, all at zero at the end
    // instead %a = vector.load %v[%c4, %c0] : !near, !rows => copies-balanced Fail: line 20 reads %v while the DMA of line 18 is still writing it
    // instead tpu.vector_store %v[%c4, %c0], %w {strides = array<i32>} : !near, !rows, => copies-balanced Fail: line 20 writes %v while the DMA of line 18 is writing it
    // instead "tpu.region"() ({ tpu.vector_store %v[%c4, %c0], %w {strides = array<i32>} : !near, !rows, "tpu.yield"() : () -> () }) : () -> () => copies-balanced Fail: line 20 writes %v while the DMA of line 18 is writing it
    // instead memref.copy %v, %o : !near to !near => copies-balanced Fail: line 20 reads %v while the DMA of line 18 is still writing it
    // instead memref.copy %o, %o : !near to !near => copies-balanced Pass: 1 semaphore, all at zero at the end
    // instead %a = tpu.strided_load %v[%c0, %c0] {strides = array<i32: 2, 1>} : !near, !rows => copies-balanced Obscured: the Mosaic text does not determine every address and predicate of its copies, waits and accesses
    // instead %a = tpu.strided_load %v[%c0, %c0] {strides = array<i32: 1, 1>} : !near, !rows => copies-balanced Pass: 1 semaphore, all at zero at the end
    // instead %a = tpu.strided_load %v[%c4, %c0] {strides = array<i32: 1, 1>} : !near, !rows => copies-balanced Fail: line 20 reads %v while the DMA of line 18 is still writing it
    // instead %a = "tpu.load"(%v, %c4, %c0) <{sublane_mask = array<i1: true, true, true, true>, sublane_stride = 1 : i32}> : (!near, index, index) -> !rows => copies-balanced Fail: line 20 reads %v while the DMA of line 18 is still writing it
    // instead %a = "tpu.load"(%v, %c4, %c0) <{sublane_mask = array<i1: true, false, true, true>, sublane_stride = 1 : i32}> : (!near, index, index) -> !rows => copies-balanced Obscured: the Mosaic text does not determine every address and predicate of its copies, waits and accesses
    // instead func.call @helper(%v) : (!near) -> () => copies-balanced Obscured: the Mosaic text does not determine every address and predicate of its copies, waits and accesses
    // instead "tpu.enqueue_indirect_dma"(%v, %o) : (!near, !near) -> () => copies-balanced Obscured: the Mosaic text does not determine every address and predicate of its copies, waits and accesses
    // instead tpu.sem_signal %s, %four : !dma => copies-balanced Obscured: the Mosaic text does not determine every address and predicate of its copies, waits and accesses
    tpu.wait_dma2 semaphore(%s : !dma) src(%x : !hbm) dst(%half : !half)
    // without => copies-balanced Fail: %s holds 2048 bytes at the end: a DMA was never waited for
    return
  }
  func.func private @helper(%v: !near) {
    return
  }
}
