// run: simulate
// expect: out 0 .. 1023
// A double-buffered loop would be wrong with one buffer: iteration i + 1 overwrites what i still copies.
    tpu.enqueue_dma source(%x0 : !rows) target(%a : !vmem) target_semaphore(%s : !dma)
    tpu.wait_dma2 semaphore(%s : !dma) src(%x0 : !rows) dst(%a : !vmem)
    scf.for %i = %zero to %eight step %one : i32 {
    // instead scf.for %i = %zero to %eight step %zero : i32 { => 6:1: loop step must be positive, got 0
      %v = vector.load %a[%c0, %c0] : !vmem, !vector
      vector.store %v, %b[%c0, %c0] : !vmem, !vector
      tpu.enqueue_dma source(%b : !vmem) target(%out : !rows) target_semaphore(%s : !dma)
      tpu.wait_dma2 semaphore(%s : !dma) src(%b : !vmem) dst(%out : !rows)
      // without => overwritten_during_copy_out b: copy line 10, semaphore s, write line 9; semaphore_left_over: count 32768, semaphore s, signalled_by [line 4, line 10]; out 0 .. 1023
    }
