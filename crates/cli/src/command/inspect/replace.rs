//! Results appear whole or not at all: they are made beside their place and moved there.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

/// A temporary folder on the file system of `output`, so that results can be moved there in one step.
pub fn work_folder(output: &Path) -> Result<TempDir> {
    let parent = parent(output)?;
    tempfile::Builder::new()
        .prefix(".octile-inspect-")
        .tempdir_in(&parent)
        .with_context(|| format!("cannot write to {}", parent.display()))
}

/// Moves the folder and the HLO file of a version into `output`, in place of those that were there.
pub fn put_in_place(work: &Path, output: &Path, version: &str) -> Result<PathBuf> {
    let put = || -> Result<PathBuf> {
        fs::create_dir_all(output)?;
        let folder = output.join(version);
        if folder.exists() {
            // Into the temporary folder, which is deleted when all is done.
            fs::rename(&folder, work.join(format!("{version}.old")))?;
        }
        fs::rename(work.join(version), &folder)?;
        let hlo = format!("{version}_hlo.txt");
        fs::rename(work.join(&hlo), output.join(&hlo))?;
        Ok(folder)
    };
    put().with_context(|| format!("cannot write {version} to {}", output.display()))
}

/// A temporary folder for the compiler, whose flags cannot hold a path with a space.
pub fn dump_folder() -> Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("octile-dump-").tempdir();
    let folder = folder.context("cannot create a temporary folder")?;
    if folder.path().display().to_string().contains(char::is_whitespace) {
        let path = folder.path().display();
        bail!(
            "the TPU compiler cannot write to '{path}', because of the space in it: set TMPDIR to another folder"
        );
    }
    Ok(folder)
}

/// The nearest folder above `output` that exists.
fn parent(output: &Path) -> Result<PathBuf> {
    let absolute = std::path::absolute(output).with_context(|| format!("bad path {}", output.display()))?;
    let above = absolute.ancestors().skip(1).find(|folder| folder.is_dir());
    Ok(above.unwrap_or(Path::new("/")).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_replaced_as_a_whole() {
        let place = TempDir::new().unwrap();
        let output = place.path().join("a/b");
        for round in ["first", "second"] {
            let work = work_folder(&output).unwrap();
            fs::create_dir(work.path().join("v1")).unwrap();
            fs::write(work.path().join("v1").join(round), "").unwrap();
            fs::write(work.path().join("v1_hlo.txt"), round).unwrap();
            assert_eq!(put_in_place(work.path(), &output, "v1").unwrap(), output.join("v1"));
        }
        let names = |folder: &Path| {
            let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
            let mut names: Vec<_> = entries.collect();
            names.sort();
            names
        };
        assert_eq!(names(&output), ["v1", "v1_hlo.txt"]);
        assert_eq!(names(&output.join("v1")), ["second"]);
        assert_eq!(names(place.path()), ["a"]);
    }
}
