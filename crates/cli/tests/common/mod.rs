//! libtpu for tests.

use std::path::{Path, PathBuf};

use octile_cli::tools::{LIBTPU, ToolPaths, install};

/// The TPU compiler: found as `octile` finds it, else fetched into the target folder. A test that needs it
/// fails without it, because a pass would claim that kernels compile.
pub(crate) fn libtpu() -> PathBuf {
    let mut places = ToolPaths::of_process(&LIBTPU, None);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    places.active_environment.get_or_insert(root.join(".venv"));
    if let Ok(found) = LIBTPU.find(&places) {
        return found.path;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("octile-tools");
    match install(&LIBTPU, &folder) {
        Ok(installed) => installed.path,
        Err(error) => {
            panic!("this test did not run, because the TPU compiler could not be fetched: {error:#}")
        }
    }
}
