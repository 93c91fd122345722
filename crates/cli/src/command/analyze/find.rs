//! From what the user names to versions: which files belong together.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::{contents::first_dump, manifest};
use crate::{
    input::{Allowance, Listing},
    print::{one_line, shown},
};

/// Files of a version's folder that are no dump.
const OTHER_FILES: [&str; 4] = [manifest::FILE_NAME, "executable.bin", "stablehlo.mlir", "kernel.cubin"];
/// How the optimized HLO of a version is called where it lies beside the version's folder.
const HLO_SUFFIX: &str = "_hlo.txt";

/// Files that are about one kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// What to call the version.
    pub name: String,
    /// Its folder, or its only file.
    pub path: PathBuf,
    /// What lies in the folder, or the only file.
    pub files: Vec<PathBuf>,
    /// Its HLO, where that lies beside the folder.
    pub beside: Option<PathBuf>,
}

/// The versions in everything that was named.
pub fn groups(inputs: &[PathBuf], allowance: &mut Allowance) -> Result<Vec<Group>> {
    let mut groups = Vec::new();
    for input in inputs {
        let found = if input.is_dir() { in_folder(input, allowance)? } else { vec![single(input)?] };
        if found.is_empty() {
            bail!("there is no dump in {}: write some with `octile inspect -o DIR`", shown(input));
        }
        groups.extend(found);
    }
    Ok(groups)
}

fn single(file: &Path) -> Result<Group> {
    if !file.exists() {
        let path = shown(file);
        bail!("there is no {path}: name a dump or a folder of dumps, or write some with `octile inspect`");
    }
    let path = file.to_owned();
    Ok(Group { name: version_of(file), files: vec![path.clone()], path, beside: None })
}

/// One version where the folder itself holds the files of one; else each sub-folder, and each named file by itself.
fn in_folder(folder: &Path, allowance: &mut Allowance) -> Result<Vec<Group>> {
    let Listing { files, folders } = allowance.list(folder)?;
    if has_manifest(folder) {
        return Ok(one(folder, files, None).into_iter().collect());
    }
    let (named, others): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| named_version(file).is_some());
    let mut groups = Vec::new();
    for version in &folders {
        let inside = allowance.list(version)?;
        if inside.files.is_empty() && !inside.folders.is_empty() {
            bail!(
                "{} holds folders and no files: name it by itself, or move it out of {}",
                shown(version),
                shown(folder)
            );
        }
        let beside = named.iter().find(|file| named_version(file) == Some(file_name(version))).cloned();
        groups.extend(one(version, inside.files, beside));
    }
    if groups.is_empty() && named.is_empty() {
        return Ok(one(folder, others, None).into_iter().collect());
    }
    // Beside versions, a file that is not named like one is something else: a report, a record.
    if let Some(dump) = first_dump(&others, allowance)? {
        if groups.is_empty() {
            return Ok(one(folder, [named, others].concat(), None).into_iter().collect());
        }
        bail!(
            "{} is a compiler dump beside folders of dumps: move it into the folder of its version, or name it by itself",
            shown(dump)
        );
    }
    let has_folder = |file: &&PathBuf| named_version(file).is_some_and(|name| folder.join(name).is_dir());
    for file in named.iter().filter(|file| !has_folder(file)) {
        groups.push(single(file)?);
    }
    groups.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(groups)
}

/// The version of a folder, unless there is nothing to read in it.
fn one(folder: &Path, mut files: Vec<PathBuf>, beside: Option<PathBuf>) -> Option<Group> {
    files.retain(|file| may_be_dump(file));
    let path = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let name = one_line(file_name(&path));
    let has_files = has_manifest(folder) || !files.is_empty() || beside.is_some();
    has_files.then(|| Group { name, path: folder.to_owned(), files, beside })
}

/// Whether there is anything of this name: what is wrong with it is said when it is read.
fn has_manifest(folder: &Path) -> bool {
    folder.join(manifest::FILE_NAME).symlink_metadata().is_ok()
}

/// Whether a file of a version's folder is looked at, going by its name.
pub fn may_be_dump(file: &Path) -> bool {
    !OTHER_FILES.contains(&file_name(file))
}

/// `v2_manual_async_dma_hlo.txt` is of version `v2_manual_async_dma`.
fn named_version(file: &Path) -> Option<&str> {
    file_name(file).strip_suffix(HLO_SUFFIX)
}

fn version_of(file: &Path) -> String {
    let stem = || file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    one_line(named_version(file).unwrap_or_else(stem))
}

/// The last part of a path.
pub fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn folders_and_files_become_versions() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        for folder in ["v1_auto", "v2_dma", "empty"] {
            fs::create_dir(root.join(folder)).unwrap();
        }
        let files = ["v1_auto/mosaic.mlir", "v1_auto/executable.bin", "v2_dma/manifest.json"];
        for file in files.into_iter().chain(["v1_auto_hlo.txt", "v3_smem_hlo.txt", "report.html"]) {
            fs::write(root.join(file), file).unwrap();
        }
        let groups = |path: &Path| groups(&[path.to_owned()], &mut Allowance::default());
        let found = groups(root).unwrap();
        let count = |group: &Group| group.files.len() + usize::from(group.beside.is_some());
        let names: Vec<_> = found.iter().map(|group| (group.name.as_str(), count(group))).collect();
        assert_eq!(names, [("v1_auto", 2), ("v2_dma", 0), ("v3_smem", 1)]);
        assert_eq!(groups(&root.join("v1_auto")).unwrap()[0].files.len(), 1);
        let refusal = |path: &Path| groups(path).unwrap_err().to_string();
        assert!(refusal(&root.join("empty")).starts_with("there is no dump in"));
        assert!(refusal(&root.join("v9")).starts_with("there is no"));
        fs::create_dir_all(root.join("nested/deep/deeper")).unwrap();
        assert!(refusal(root).contains("nested holds folders and no files: name it by itself"));
        fs::remove_dir_all(root.join("nested")).unwrap();
        fs::write(root.join("stray"), ".version 8.0\n").unwrap();
        assert!(refusal(root).contains("stray is a compiler dump beside folders of dumps"));
    }
}
