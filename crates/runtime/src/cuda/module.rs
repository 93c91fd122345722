//! Compiling PTX with the driver. The text always comes from `octile-kernels`: a launch relies on its
//! parameters and memory accesses.
//!
//! The driver caches compiled kernels on disk, keyed by the text, the GPU and its own version, in
//! `~/.nv/ComputeCache` or `CUDA_CACHE_PATH`. Octile has no cache of its own, because there is no documented
//! way to read the machine code back: only the driver's linker returns it, and code compiled for linking
//! loses `setmaxnreg`, on which the kernels rely. The assembler says so ("'setmaxnreg' ignored to maintain
//! compatibility across compilation units"); `.maxnreg`, `.reqntid` and a register limit do not change it.

use std::{
    ffi::{CString, c_void},
    ptr,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use cudarc::driver::{
    result::module,
    sys::{self, CUfunction_attribute, CUjit_option as Jit},
};
use octile_kernels::hopper::Kernel as KernelText;

use super::{CudaError, Gpu, error::DoingExt};

/// A loaded module with one kernel.
#[derive(Debug)]
pub(super) struct Module {
    module: sys::CUmodule,
    function: sys::CUfunction,
    text: KernelText,
    /// Dynamic shared memory that launches may ask for, in bytes.
    reserved: Mutex<u32>,
    /// Unloading waits for this GPU's stream.
    gpu: Gpu,
}

// SAFETY: the driver lets every thread use a module's handles.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

impl Module {
    pub(super) fn load(gpu: &Gpu, text: &KernelText) -> Result<Arc<Self>, CudaError> {
        gpu.bind()?;
        let module = compile(text)?;
        let name = CString::new(&*text.entry).expect("entry names hold no zero byte");
        // SAFETY: the module was loaded just now.
        let function = unsafe { module::get_function(module, name) };
        let function = match function.doing("find a kernel") {
            Ok(function) => function,
            Err(error) => {
                // SAFETY: loaded just now, used by no one.
                let _ = unsafe { module::unload(module) };
                return Err(error);
            }
        };
        let (text, gpu) = (text.clone(), gpu.clone());
        Ok(Arc::new(Self { module, function, text, reserved: Mutex::new(0), gpu }))
    }

    pub(super) fn function(&self) -> sys::CUfunction {
        self.function
    }

    pub(super) fn entry(&self) -> &str {
        &self.text.entry
    }

    /// Raises the limit on dynamic shared memory to at least `bytes`.
    pub(super) fn reserve_shared(&self, bytes: u32) -> Result<(), CudaError> {
        let mut reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes > *reserved {
            let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function belongs to the module, which is loaded.
            unsafe { sys::cuFuncSetAttribute(self.function, attribute, bytes as i32) }
                .result()
                .doing("reserve shared memory")?;
            *reserved = bytes;
        }
        Ok(())
    }
}

/// Modules shared by the plans of one weight: most of them differ in launch parameters only.
#[derive(Debug, Default)]
pub(super) struct ModuleCache {
    loaded: Mutex<Vec<Weak<Module>>>,
}

impl ModuleCache {
    /// Loads a kernel, unless one with the same text is still loaded.
    pub(super) fn load(&self, gpu: &Gpu, text: &KernelText) -> Result<Arc<Module>, CudaError> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.retain(|module| module.strong_count() > 0);
        if let Some(module) = loaded.iter().filter_map(Weak::upgrade).find(|module| module.text == *text) {
            return Ok(module);
        }
        let module = Module::load(gpu, text)?;
        loaded.push(Arc::downgrade(&module));
        Ok(module)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // Queued kernels need the module, and the driver does not promise to wait for them. If waiting fails,
        // leak the module.
        if self.gpu.wait().is_ok() {
            // SAFETY: everyone who can launch its kernels holds the module, so no launch can follow; earlier
            // ones are done.
            let _ = unsafe { module::unload(self.module) };
        }
    }
}

/// Compiles and loads a module.
fn compile(text: &KernelText) -> Result<sys::CUmodule, CudaError> {
    const LOG_BYTES: usize = 8 << 10;
    let mut log = vec![0u8; LOG_BYTES];
    let mut options = [Jit::CU_JIT_ERROR_LOG_BUFFER, Jit::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    let mut values = [log.as_mut_ptr().cast::<c_void>(), ptr::without_provenance_mut(LOG_BYTES)];
    let ptx = CString::new(&*text.ptx).expect("PTX holds no zero byte");
    let mut module = ptr::null_mut();
    // SAFETY: the text is NUL-terminated; options and values have two elements, and the log has the given
    // size.
    let loaded = unsafe {
        sys::cuModuleLoadDataEx(
            &mut module,
            ptx.as_ptr().cast(),
            2,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    loaded.result().map_err(|error| {
        let end = log.iter().position(|&byte| byte == 0).unwrap_or(LOG_BYTES);
        let log = String::from_utf8_lossy(&log[..end]).trim().to_owned();
        let log = if log.is_empty() { format!("error {}", error.0 as u32) } else { log };
        CudaError::Compile { entry: text.entry.clone(), log }
    })?;
    Ok(module)
}
