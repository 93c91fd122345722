//! Loading the stand-in in tests.

use std::{
    ffi::{CString, c_char, c_int},
    path::PathBuf,
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
};

use libloading::Library;

/// The stand-in, loaded into this process. One test at a time holds it.
pub struct StandIn {
    library: &'static Library,
    _alone: MutexGuard<'static, ()>,
}

static LIBRARY: LazyLock<Library> = LazyLock::new(|| {
    // SAFETY: the library has no initializers, and is never unloaded.
    unsafe { Library::new(StandIn::path()) }.expect("cargo built the stand-in driver beside this test")
});
static ALONE: Mutex<()> = Mutex::new(());

impl StandIn {
    /// Loads the stand-in, which must precede any use of CUDA: an H200 and a driver for CUDA 13.0.
    pub fn load() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let standin = Self { library: &LIBRARY, _alone: alone };
        standin.pretend("NVIDIA H200,9.0,132", 13_000);
        standin.interpret(true);
        standin.faults();
        standin
    }

    /// Path of the library; a child process uses it as the driver if it is preloaded.
    pub fn path() -> PathBuf {
        let test = std::env::current_exe().expect("a test has a path");
        let folder = test.ancestors().skip(1).map(|folder| folder.join("liboctile_standin_driver.so"));
        let deps = test.ancestors().skip(1).map(|folder| folder.join("deps/liboctile_standin_driver.so"));
        folder
            .chain(deps)
            .find(|path| path.exists())
            .expect("cargo built the stand-in driver beside this test")
    }

    /// Sets the GPUs, `name,major.minor,SMs` each, separated by semicolons, and the driver version.
    pub fn pretend(&self, gpus: &str, version: i32) {
        let gpus = CString::new(gpus).expect("names hold no zero byte");
        // SAFETY: the library exports it with this type; the string outlives the call.
        unsafe {
            let call =
                self.library.get::<unsafe extern "C" fn(*const c_char, c_int)>(b"octile_standin_pretend");
            call.expect("the stand-in exports it")(gpus.as_ptr(), version);
        }
    }

    /// Sets whether kernels are interpreted, or only their arguments checked.
    pub fn interpret(&self, is_interpreted: bool) {
        // SAFETY: the library exports it with this type.
        unsafe {
            let call = self.library.get::<extern "C" fn(bool)>(b"octile_standin_interpret");
            call.expect("the stand-in exports it")(is_interpreted);
        }
    }

    /// Runs all queued work; returns the faults since the last call.
    pub fn faults(&self) -> Vec<String> {
        let mut text = vec![0; 1 << 16];
        // SAFETY: the library exports it with this type; the buffer has the given length.
        let written = unsafe {
            let call =
                self.library.get::<unsafe extern "C" fn(*mut u8, usize) -> usize>(b"octile_standin_faults");
            call.expect("the stand-in exports it")(text.as_mut_ptr(), text.len())
        };
        String::from_utf8_lossy(&text[..written]).lines().map(str::to_owned).collect()
    }
}
