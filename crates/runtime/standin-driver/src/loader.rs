//! How tests put the stand-in in the place of the driver.

use std::{
    ffi::{CString, c_char, c_int},
    path::PathBuf,
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
};

use libloading::Library;

/// The stand-in, loaded into this process. Only one test at a time has it.
pub struct StandIn {
    library: &'static Library,
    _alone: MutexGuard<'static, ()>,
}

static LIBRARY: LazyLock<Library> = LazyLock::new(|| {
    // SAFETY: nothing runs when the library is loaded, and it is never unloaded.
    unsafe { Library::new(StandIn::path()) }.expect("cargo built the stand-in driver beside this test")
});
static ALONE: Mutex<()> = Mutex::new(());

impl StandIn {
    /// Loads it, before anything opens the driver: an H200 with a driver for CUDA 13.0.
    pub fn load() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let standin = Self { library: &LIBRARY, _alone: alone };
        standin.pretend("NVIDIA H200,9.0,132", 13_000);
        standin.interpret(true);
        standin.faults();
        standin
    }

    /// Where the library is; a child process that preloads it finds it in the place of the driver.
    pub fn path() -> PathBuf {
        let test = std::env::current_exe().expect("a test has a path");
        let folder = test.ancestors().skip(1).map(|folder| folder.join("liboctile_standin_driver.so"));
        let deps = test.ancestors().skip(1).map(|folder| folder.join("deps/liboctile_standin_driver.so"));
        folder
            .chain(deps)
            .find(|path| path.exists())
            .expect("cargo built the stand-in driver beside this test")
    }

    /// Has GPUs like these, `name,major.minor,multiprocessors` each with semicolons between them, and a driver of this version.
    pub fn pretend(&self, gpus: &str, version: i32) {
        let gpus = CString::new(gpus).expect("names hold no zero byte");
        // SAFETY: the library exports it with this type; the text lives until it returns.
        unsafe {
            let call =
                self.library.get::<unsafe extern "C" fn(*const c_char, c_int)>(b"octile_standin_pretend");
            call.expect("the stand-in exports it")(gpus.as_ptr(), version);
        }
    }

    /// Whether kernels are interpreted, or only their arguments looked at.
    pub fn interpret(&self, is_interpreted: bool) {
        // SAFETY: the library exports it with this type.
        unsafe {
            let call = self.library.get::<extern "C" fn(bool)>(b"octile_standin_interpret");
            call.expect("the stand-in exports it")(is_interpreted);
        }
    }

    /// Runs what is left on all streams; gives the faults since the last call.
    pub fn faults(&self) -> Vec<String> {
        let mut text = vec![0; 1 << 16];
        // SAFETY: the library exports it with this type; the text has the room that is named.
        let written = unsafe {
            let call =
                self.library.get::<unsafe extern "C" fn(*mut u8, usize) -> usize>(b"octile_standin_faults");
            call.expect("the stand-in exports it")(text.as_mut_ptr(), text.len())
        };
        String::from_utf8_lossy(&text[..written]).lines().map(str::to_owned).collect()
    }
}
