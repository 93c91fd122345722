//! Temporary files and folders that an interrupted command left behind.

use std::{fs, path::Path, time::Duration};

/// A command whose temporary file or folder is so old was interrupted. Work may not touch it for long, as downloading does not.
pub const AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// Removes those in `folder` whose names begin like this, as far as that can be done.
pub fn remove(folder: &Path, prefix: &str) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(prefix);
        let modified = entry.metadata().and_then(|metadata| metadata.modified()).ok();
        let age = modified.and_then(|at| at.elapsed().ok());
        if is_ours && age.is_some_and(|age| age > AGE) {
            // It is in nobody's way if it stays.
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let _ = if is_folder { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) };
        }
    }
}
