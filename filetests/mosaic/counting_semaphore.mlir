// run: simulate
// expect: output_not_written out: elements 1024, of 1024
    tpu.sem_signal %r, %eight : !count
    // without => deadlock: available 0, needed 8, semaphore r, signalled_by [], wait line 6
    // instead tpu.sem_signal %r, %one : !count => deadlock: available 1, needed 8, semaphore r, signalled_by [line 3], wait line 6
    tpu.sem_wait %r, %eight : !count
    // without => semaphore_left_over: count 8, semaphore r, signalled_by [line 3]; output_not_written out: elements 1024, of 1024
    // instead tpu.sem_wait %r, %one : !count => semaphore_left_over: count 7, semaphore r, signalled_by [line 3]; output_not_written out: elements 1024, of 1024
