//! Entry points for modules, launches and graphs, and those for tests.

use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void},
    sync::Arc,
};

use cudarc::driver::sys::{
    CUfunction, CUfunction_attribute, CUgraph, CUgraphExec, CUjit_option as Jit, CUlaunchAttributeID as Id,
    CUlaunchConfig, CUmodule, CUresult, CUstream, CUstreamCaptureMode, CUstreamCaptureStatus as Status,
    CUtensorMap, CUtensorMapDataType as Data, CUtensorMapFloatOOBfill, CUtensorMapInterleave,
    CUtensorMapL2promotion, CUtensorMapSwizzle,
};
use octile_ptx::simulate::{LaunchConfig, ParameterKind, TensorMap};

use crate::{
    entry::{SUCCESS, give, handle, pointer},
    kernel::{Argument, Kernel, Launched},
    state::driver,
    stream::Work,
};

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadDataEx(
    module: *mut CUmodule,
    image: *const c_void,
    options: c_uint,
    names: *mut Jit,
    values: *mut *mut c_void,
) -> CUresult {
    // SAFETY: the caller passes a NUL-terminated string.
    let text = unsafe { CStr::from_ptr(image.cast()) }.to_string_lossy().into_owned();
    if driver().streams.forbid_unsafe_calls() {
        return driver().fault("loads a module during capture".to_owned());
    }
    match Kernel::compile(&text) {
        Ok(kernel) => {
            let mut driver = driver();
            let new = driver.handle();
            driver.modules.insert(new, Arc::new(kernel));
            driver.streams.modules.insert(new);
            // SAFETY: the caller's promise.
            unsafe { give(module, pointer(new)) }
        }
        Err(error) => {
            // SAFETY: by the driver API, there are that many options and values.
            let (names, values) = unsafe {
                let count = options as usize;
                (std::slice::from_raw_parts(names, count), std::slice::from_raw_parts(values, count))
            };
            let value = |wanted: Jit| names.iter().position(|&name| name == wanted).map(|at| values[at]);
            let room = value(Jit::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES).map_or(0, |value| value.addr());
            if let Some(log) = value(Jit::CU_JIT_ERROR_LOG_BUFFER) {
                let kept = error.len().min(room.saturating_sub(1));
                // SAFETY: by the driver API, the log has this length.
                unsafe { log.cast::<u8>().copy_from_nonoverlapping(error.as_ptr(), kept) };
            }
            CUresult::CUDA_ERROR_INVALID_PTX
        }
    }
}

/// A function's handle is that of its module.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleGetFunction(
    function: *mut CUfunction,
    module: CUmodule,
    name: *const c_char,
) -> CUresult {
    // SAFETY: the caller passes a NUL-terminated string.
    let name = unsafe { CStr::from_ptr(name) };
    let found = driver().modules.get(&handle(module)).map(|kernel| kernel.program.entry.clone());
    if found.as_deref() != name.to_str().ok() {
        return CUresult::CUDA_ERROR_NOT_FOUND;
    }
    // SAFETY: the caller's promise.
    unsafe { give(function, pointer(handle(module))) }
}

/// Does not wait for running kernels: the API does not promise that.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleUnload(module: CUmodule) -> CUresult {
    let mut driver = driver();
    if driver.streams.modules.remove(&handle(module)) {
        SUCCESS
    } else {
        driver.fault("unloads a module twice".to_owned())
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuFuncSetAttribute(_: CUfunction, _: CUfunction_attribute, bytes: c_int) -> CUresult {
    if (0..=227 << 10).contains(&bytes) { SUCCESS } else { CUresult::CUDA_ERROR_INVALID_VALUE }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuFuncGetAttribute(to: *mut c_int, _: CUfunction_attribute, _: CUfunction) -> CUresult {
    // SAFETY: the caller's promise.
    unsafe { give(to, 0) }
}

/// The stand-in's contents of a 128-byte tensor map, after a magic number.
const MAP: u64 = 0x6f63_7469_6c65_6d61;

#[unsafe(no_mangle)]
unsafe extern "C" fn cuTensorMapEncodeTiled(
    map: *mut CUtensorMap,
    data: Data,
    rank: c_uint,
    address: *mut c_void,
    sizes: *const u64,
    strides: *const u64,
    boxes: *const u32,
    _: *const u32,
    _: CUtensorMapInterleave,
    _: CUtensorMapSwizzle,
    _: CUtensorMapL2promotion,
    _: CUtensorMapFloatOOBfill,
) -> CUresult {
    // SAFETY: by the driver API for rank 2, which is checked first.
    let (size, stride, boxed) = unsafe { (*sizes.cast::<[u64; 2]>(), *strides, *boxes.cast::<[u32; 2]>()) };
    let element = if data == Data::CU_TENSOR_MAP_DATA_TYPE_UINT16 { 2 } else { 1 };
    let is_valid = rank == 2
        && handle(address).is_multiple_of(16)
        && stride.is_multiple_of(16)
        && stride < 1 << 40
        && size.iter().all(|size| (1..=1 << 32).contains(size))
        && boxed.iter().all(|side| (1..=256).contains(side))
        && u64::from(boxed[0]) * element <= 128;
    if !is_valid {
        return CUresult::CUDA_ERROR_INVALID_VALUE;
    }
    let mut opaque = [0; 16];
    let boxed = boxed.map(u64::from);
    opaque[..8].copy_from_slice(&[
        MAP,
        handle(address),
        element,
        size[0],
        size[1],
        stride,
        boxed[0],
        boxed[1],
    ]);
    // SAFETY: the caller's promise.
    unsafe { give(map, CUtensorMap { opaque }) }
}

/// Decodes a tensor map.
fn decoded(words: [u64; 16]) -> Option<TensorMap> {
    let [MAP, address, element, columns, rows, stride, box_columns, box_rows, ..] = words else {
        return None;
    };
    Some(TensorMap {
        address,
        element: element as usize,
        size: (columns as usize, rows as usize),
        stride: stride as usize,
        boxes: (box_columns as usize, box_rows as usize),
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchKernelEx(
    config: *const CUlaunchConfig,
    function: CUfunction,
    parameters: *mut *mut c_void,
    _: *mut *mut c_void,
) -> CUresult {
    // SAFETY: the caller's promise.
    let config = unsafe { &*config };
    let mut driver = driver();
    let Some(kernel) = driver.modules.get(&handle(function)).cloned() else {
        return driver.fault("launches a kernel that was never loaded".to_owned());
    };
    if !driver.streams.modules.contains(&handle(function)) {
        return driver.fault(format!("launches {}, whose module was unloaded", kernel.program.entry));
    }
    let argument = |(index, (_, kind)): (usize, &(String, ParameterKind))| {
        // SAFETY: by the driver API, there is one pointer per declared parameter, to a value of its type.
        unsafe {
            let at = *parameters.add(index);
            match kind {
                ParameterKind::TensorMap => Argument::Map(decoded(at.cast::<[u64; 16]>().read())),
                ParameterKind::Pointer => Argument::Pointer(at.cast::<u64>().read()),
                ParameterKind::Number => Argument::Number(at.cast::<u32>().read()),
            }
        }
    };
    let arguments = kernel.program.parameters.iter().enumerate().map(argument).collect();
    let (mut cluster, mut overlaps) = (1, false);
    // SAFETY: by the driver API, there are that many attributes, with the union member of their id.
    unsafe {
        for attribute in std::slice::from_raw_parts(config.attrs, config.numAttrs as usize) {
            match attribute.id {
                Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION => cluster = attribute.value.clusterDim.x,
                Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION => {
                    overlaps = attribute.value.programmaticStreamSerializationAllowed != 0;
                }
                _ => {}
            }
        }
    }
    let launched = Launched {
        module: handle(function),
        config: LaunchConfig {
            grid: (config.gridDimX, config.gridDimY),
            threads: config.blockDimX,
            cluster,
            shared_bytes: config.sharedMemBytes,
        },
        overlaps,
        arguments,
        kernel,
    };
    let LaunchConfig { grid, threads, .. } = launched.config;
    let is_valid = threads > 0
        && threads as usize <= launched.kernel.program.max_threads
        && grid.0 > 0
        && (1..=65_535).contains(&grid.1)
        && grid.0.is_multiple_of(cluster);
    if !is_valid {
        return CUresult::CUDA_ERROR_INVALID_VALUE;
    }
    driver.put(handle(config.hStream), Work::Kernel(launched))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamBeginCapture_v2(stream: CUstream, mode: CUstreamCaptureMode) -> CUresult {
    match driver().streams.all.get_mut(&handle(stream)) {
        Some(stream) => {
            stream.begin_capture(mode);
            SUCCESS
        }
        None => CUresult::CUDA_ERROR_INVALID_VALUE,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamIsCapturing(stream: CUstream, status: *mut Status) -> CUresult {
    let driver = driver();
    let recording = driver.streams.all.get(&handle(stream)).and_then(|stream| stream.recording.as_ref());
    let value = match recording {
        None => Status::CU_STREAM_CAPTURE_STATUS_NONE,
        Some(Ok(_)) => Status::CU_STREAM_CAPTURE_STATUS_ACTIVE,
        Some(Err(())) => Status::CU_STREAM_CAPTURE_STATUS_INVALIDATED,
    };
    // SAFETY: the caller's promise.
    unsafe { give(status, value) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph) -> CUresult {
    let mut driver = driver();
    let recording = driver.streams.all.get_mut(&handle(stream)).and_then(|stream| stream.recording.take());
    let Some(Ok(recorded)) = recording else {
        return CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    };
    let new = driver.handle();
    driver.graphs.insert(new, recorded);
    // SAFETY: the caller's promise.
    unsafe { give(graph, pointer(new)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphInstantiateWithFlags(
    executable: *mut CUgraphExec,
    graph: CUgraph,
    _: c_ulonglong,
) -> CUresult {
    let mut driver = driver();
    let Some(recorded) = driver.graphs.get(&handle(graph)).cloned() else {
        return driver.fault("instantiates a graph that does not exist".to_owned());
    };
    let new = driver.handle();
    driver.graphs.insert(new, recorded);
    // SAFETY: the caller's promise.
    unsafe { give(executable, pointer(new)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphUpload(_: CUgraphExec, _: CUstream) -> CUresult {
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphLaunch(executable: CUgraphExec, stream: CUstream) -> CUresult {
    let mut driver = driver();
    let Some(recorded) = driver.graphs.get(&handle(executable)).cloned() else {
        return driver.fault("launches a graph that does not exist".to_owned());
    };
    recorded
        .into_iter()
        .map(|work| driver.put(handle(stream), work))
        .find(|&result| result != SUCCESS)
        .unwrap_or(SUCCESS)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphExecDestroy(executable: CUgraphExec) -> CUresult {
    driver().graphs.remove(&handle(executable));
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphDestroy(graph: CUgraph) -> CUresult {
    driver().graphs.remove(&handle(graph));
    SUCCESS
}

/// Sets the GPUs: see [`crate::StandIn::pretend`].
#[unsafe(no_mangle)]
unsafe extern "C" fn octile_standin_pretend(gpus: *const c_char, version: c_int) {
    // SAFETY: the caller passes a NUL-terminated string.
    let gpus = unsafe { CStr::from_ptr(gpus) };
    let mut driver = driver();
    driver.pretend(&gpus.to_string_lossy());
    driver.version = version;
}

/// Sets whether kernels are interpreted.
#[unsafe(no_mangle)]
extern "C" fn octile_standin_interpret(is_interpreted: bool) {
    driver().streams.is_interpreted = is_interpreted;
}

/// Runs all queued work, writes the faults since the last call to `text`, one per line, and returns their
/// length.
#[unsafe(no_mangle)]
unsafe extern "C" fn octile_standin_faults(text: *mut u8, room: usize) -> usize {
    let mut driver = driver();
    driver.wait_for_all();
    let lines = std::mem::take(&mut driver.faults).join("\n");
    let kept = lines.len().min(room);
    // SAFETY: the caller's buffer has this length.
    unsafe { text.copy_from_nonoverlapping(lines.as_ptr(), kept) };
    kept
}
