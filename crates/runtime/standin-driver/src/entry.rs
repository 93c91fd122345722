//! Entry points for devices, contexts, streams, events and memory. Their contracts are those of the CUDA
//! driver API.

use std::{
    cell::Cell,
    ffi::{CStr, c_char, c_int, c_uint, c_void},
};

use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdevice_attribute as Attribute, CUdeviceptr, CUevent, CUresult, CUstream,
};

use crate::{
    state::driver,
    stream::{Stream, Work},
};

pub(crate) const SUCCESS: CUresult = CUresult::CUDA_SUCCESS;
const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

thread_local! {
    /// The device of this thread's current context.
    static CURRENT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Writes a result to the caller's pointer.
pub(crate) unsafe fn give<T>(to: *mut T, value: T) -> CUresult {
    // SAFETY: by the driver API, the pointer is valid for one result.
    unsafe { to.write(value) };
    SUCCESS
}

/// Converts a handle to a pointer.
pub(crate) fn pointer<T>(handle: u64) -> *mut T {
    std::ptr::without_provenance_mut(handle as usize)
}

/// Converts a pointer to a handle.
pub(crate) fn handle<T>(pointer: *mut T) -> u64 {
    pointer.addr() as u64
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuInit(_: c_uint) -> CUresult {
    if driver().models.is_empty() { CUresult::CUDA_ERROR_NO_DEVICE } else { SUCCESS }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> CUresult {
    // SAFETY: the caller's promise.
    unsafe { give(version, driver().version) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> CUresult {
    // SAFETY: the caller's promise.
    unsafe { give(count, driver().models.len() as c_int) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int) -> CUresult {
    if ordinal as usize >= driver().models.len() {
        return CUresult::CUDA_ERROR_INVALID_DEVICE;
    }
    // SAFETY: the caller's promise.
    unsafe { give(device, ordinal) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetName(to: *mut c_char, len: c_int, device: CUdevice) -> CUresult {
    let name = driver().models[device as usize].name.clone();
    let kept = name.len().min(len as usize - 1);
    // SAFETY: by the driver API, the buffer has this length.
    unsafe {
        to.copy_from_nonoverlapping(name.as_ptr().cast(), kept);
        to.add(kept).write(0);
    }
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, _: CUdevice) -> CUresult {
    // SAFETY: the caller's promise.
    unsafe { give(bytes, 141 << 30) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetAttribute(to: *mut c_int, which: Attribute, device: CUdevice) -> CUresult {
    let model = driver().models[device as usize].clone();
    let value = match which {
        Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR => model.capability.0,
        Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR => model.capability.1,
        Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT => model.sms,
        Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN => 227 << 10,
        Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR => 228 << 10,
        Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE => 60 << 20,
        Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED => 1,
        _ => return INVALID,
    };
    // SAFETY: the caller's promise.
    unsafe { give(to, value) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice) -> CUresult {
    // SAFETY: the caller's promise.
    unsafe { give(context, pointer(device as u64 + 1)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRelease_v2(_: CUdevice) -> CUresult {
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetCurrent(context: *mut CUcontext) -> CUresult {
    let current = CURRENT.get().map_or(0, |device| device as u64 + 1);
    // SAFETY: the caller's promise.
    unsafe { give(context, pointer(current)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxSetCurrent(context: CUcontext) -> CUresult {
    CURRENT.set((handle(context) as usize).checked_sub(1));
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxSynchronize() -> CUresult {
    driver().wait_for_all()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorString(error: CUresult, text: *mut *const c_char) -> CUresult {
    let words: &CStr = match error {
        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS => c"an illegal memory access was encountered",
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => c"out of memory",
        CUresult::CUDA_ERROR_INVALID_VALUE => c"invalid argument",
        CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED => {
            c"operation not permitted when stream is capturing"
        }
        _ => c"an error of the stand-in driver",
    };
    // SAFETY: the caller's promise.
    unsafe { give(text, words.as_ptr()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorName(error: CUresult, text: *mut *const c_char) -> CUresult {
    // SAFETY: the caller's promise is the same.
    unsafe { cuGetErrorString(error, text) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreate(stream: *mut CUstream, _: c_uint) -> CUresult {
    let Some(device) = CURRENT.get() else { return CUresult::CUDA_ERROR_INVALID_CONTEXT };
    let mut driver = driver();
    let new = driver.handle();
    driver.streams.all.insert(new, Stream::new(device));
    // SAFETY: the caller's promise.
    unsafe { give(stream, pointer(new)) }
}

/// Queued work still runs, as in the real driver.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamDestroy_v2(_: CUstream) -> CUresult {
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamSynchronize(stream: CUstream) -> CUresult {
    driver().wait(handle(stream))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventCreate(event: *mut CUevent, _: c_uint) -> CUresult {
    let new = driver().handle();
    // SAFETY: the caller's promise.
    unsafe { give(event, pointer(new)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventDestroy_v2(event: CUevent) -> CUresult {
    driver().events.remove(&handle(event));
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventRecord(event: CUevent, stream: CUstream) -> CUresult {
    let (mut driver, stream) = (driver(), handle(stream));
    let put = driver.put(stream, Work::Record);
    let position = driver.streams.all.get(&stream).map_or(0, |stream| stream.put);
    driver.events.insert(handle(event), (stream, position));
    put
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamWaitEvent(stream: CUstream, event: CUevent, _: c_uint) -> CUresult {
    let mut driver = driver();
    match driver.events.get(&handle(event)).copied() {
        Some((of, position)) => driver.put(handle(stream), Work::Wait { stream: of, position }),
        None => SUCCESS,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventSynchronize(event: CUevent) -> CUresult {
    let mut driver = driver();
    match driver.events.get(&handle(event)).copied() {
        Some((stream, _)) => driver.wait(stream),
        None => SUCCESS,
    }
}

/// `cuEventElapsedTime`. A warp instruction takes a nanosecond, and nothing else takes time: the same work
/// takes the same time, and a kernel that does more takes longer.
///
/// Not exported: a test that exports its symbols holds a second copy of the driver, and the dynamic linker
/// would resolve the pointer to this function to that copy, which knows no events.
unsafe extern "C" fn elapsed_time(milliseconds: *mut f32, start: CUevent, end: CUevent) -> CUresult {
    let driver = driver();
    let stamp = |event: CUevent| {
        let (stream, position) = driver.events.get(&handle(event))?;
        driver.streams.all.get(stream)?.stamp(*position)
    };
    let (Some(start), Some(end)) = (stamp(start), stamp(end)) else {
        return CUresult::CUDA_ERROR_NOT_READY;
    };
    // SAFETY: the caller's promise.
    unsafe { give(milliseconds, end.saturating_sub(start) as f32 / 1e6) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetProcAddress_v2(
    name: *const c_char,
    function: *mut *mut c_void,
    _: c_int,
    _: u64,
    _: *mut c_void,
) -> CUresult {
    // SAFETY: by the driver API, the name is NUL-terminated.
    if unsafe { CStr::from_ptr(name) } != c"cuEventElapsedTime" {
        return CUresult::CUDA_ERROR_NOT_FOUND;
    }
    // SAFETY: the caller's promise.
    unsafe { give(function, elapsed_time as *mut c_void) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAllocAsync(to: *mut CUdeviceptr, bytes: usize, stream: CUstream) -> CUresult {
    let mut driver = driver();
    let Some(device) = driver.streams.all.get(&handle(stream)).map(|stream| stream.device) else {
        return driver.fault("allocates on a stream that does not exist".to_owned());
    };
    if driver.streams.all[&handle(stream)].recording.is_some() {
        return driver.fault("allocates during capture".to_owned());
    }
    match driver.memory.allocate(device, bytes) {
        // SAFETY: the caller's promise.
        Some(address) => unsafe { give(to, address) },
        None => CUresult::CUDA_ERROR_OUT_OF_MEMORY,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemFreeAsync(address: CUdeviceptr, stream: CUstream) -> CUresult {
    driver().put(handle(stream), Work::Free(address))
}

/// Copies the bytes at once, as the real driver does for pageable memory.
unsafe fn staged(from: *const c_void, bytes: usize) -> Vec<u8> {
    // SAFETY: the caller's promise. Memory checkers watch this read.
    unsafe { std::slice::from_raw_parts(from.cast::<u8>(), bytes) }.to_vec()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyHtoDAsync_v2(
    to: CUdeviceptr,
    from: *const c_void,
    bytes: usize,
    stream: CUstream,
) -> CUresult {
    // SAFETY: the caller's promise.
    let bytes = unsafe { staged(from, bytes) };
    driver().put(handle(stream), Work::Write { to, bytes: bytes.into() })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpy2DAsync_v2(
    copy: *const cudarc::driver::sys::CUDA_MEMCPY2D,
    stream: CUstream,
) -> CUresult {
    // SAFETY: the caller's promise.
    let copy = unsafe { &*copy };
    let mut driver = driver();
    for row in 0..copy.Height {
        // SAFETY: the caller's promise.
        let bytes = unsafe { staged(copy.srcHost.byte_add(row * copy.srcPitch), copy.WidthInBytes) };
        let to = copy.dstDevice + (row * copy.dstPitch) as u64;
        driver.put(handle(stream), Work::Write { to, bytes: bytes.into() });
    }
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoHAsync_v2(
    to: *mut c_void,
    from: CUdeviceptr,
    bytes: usize,
    stream: CUstream,
) -> CUresult {
    let (mut driver, stream) = (driver(), handle(stream));
    let waited = driver.wait(stream);
    if waited != SUCCESS {
        return waited;
    }
    let device = driver.streams.all[&stream].device;
    match driver.memory.read(device, from, bytes).map(<[u8]>::to_vec) {
        Ok(read) => {
            // SAFETY: by the driver API, the buffer has this length. Memory checkers watch this write.
            unsafe { to.cast::<u8>().copy_from_nonoverlapping(read.as_ptr(), bytes) };
            SUCCESS
        }
        Err(fault) => driver.fault(fault),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoDAsync_v2(
    to: CUdeviceptr,
    from: CUdeviceptr,
    len: usize,
    stream: CUstream,
) -> CUresult {
    driver().put(handle(stream), Work::Copy { to, from, len })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemsetD8Async(at: CUdeviceptr, byte: u8, len: usize, stream: CUstream) -> CUresult {
    driver().put(handle(stream), Work::Fill { at, byte, len })
}
