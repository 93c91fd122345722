//! Temporary files and folders left behind by a killed process.

use std::{fs, path::Path, time::Duration};

/// Age at which a temporary file counts as abandoned; a download may not touch its folder for hours.
pub(crate) const AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// Removes abandoned entries of `folder` whose names start with `prefix`. Errors are ignored.
pub(crate) fn remove(folder: &Path, prefix: &str) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(prefix);
        let modified = entry.metadata().and_then(|metadata| metadata.modified()).ok();
        let age = modified.and_then(|at| at.elapsed().ok());
        if is_ours && age.is_some_and(|age| age > AGE) {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let _ = if is_folder { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) };
        }
    }
}
