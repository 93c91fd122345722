//! Groups the files that the user names into versions.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::{compiler_dump, contents::first_dump, manifest};
use crate::{
    input::{self, Allowance, Listing},
    print::{one_line, shown},
};

/// Files of a version's folder that are not dumps.
const OTHER_FILES: [&str; 4] = [manifest::FILE_NAME, "executable.bin", "stablehlo.mlir", "kernel.cubin"];
/// Name suffix of optimized HLO beside a version's folder.
const HLO_SUFFIX: &str = "_hlo.txt";

/// The files of one kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    /// Name of the version.
    pub name: String,
    /// Its folder, or its only file.
    pub path: PathBuf,
    /// The files of the folder, or the only file.
    pub files: Vec<PathBuf>,
    /// HLO beside the folder.
    pub beside: Option<PathBuf>,
    /// Name of the kernel's operation in the HLO, for a kernel that Octile did not generate.
    pub operation: Option<String>,
    /// Files of a compiler's dump folder that belong to no kernel; counted with its first kernel.
    pub ignored: usize,
}

/// Lists the versions in files and folders.
pub(super) fn groups(inputs: &[PathBuf], allowance: &mut Allowance) -> Result<Vec<Group>> {
    let mut groups = Vec::new();
    for input in inputs {
        let found = if input.is_dir() { in_folder(input, allowance)? } else { vec![single(input)?] };
        if found.is_empty() {
            bail!("no dumps in {}: write some with `octile inspect -o DIR`", shown(input));
        }
        groups.extend(found);
    }
    Ok(groups)
}

fn single(file: &Path) -> Result<Group> {
    if !file.exists() && !input::is_stream(file) {
        let path = shown(file);
        bail!("{path} does not exist: name a dump or a folder of dumps, or write some with `octile inspect`");
    }
    let path = file.to_owned();
    Ok(Group {
        name: version_of(file),
        files: vec![path.clone()],
        path,
        beside: None,
        operation: None,
        ignored: 0,
    })
}

/// Lists the versions of a folder: the folder itself if it holds files of one, else every sub-folder and HLO
/// file.
fn in_folder(folder: &Path, allowance: &mut Allowance) -> Result<Vec<Group>> {
    let Listing { files, folders } = allowance.list(folder)?;
    if has_manifest(folder) {
        return Ok(one(folder, files, None).into_iter().collect());
    }
    if !folders.iter().any(|folder| has_manifest(folder))
        && let Some(kernels) = compiler_dump::kernels(folder, allowance)?
    {
        return Ok(kernels);
    }
    let (named, others): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| named_version(file).is_some());
    let mut groups = Vec::new();
    for version in &folders {
        let inside = allowance.list(version)?;
        if inside.files.is_empty() && !inside.folders.is_empty() {
            bail!(
                "{} contains folders but no files: name it directly, or move it out of {}",
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
    // Other files beside versions are reports or records, unless they turn out to be dumps.
    if let Some(dump) = first_dump(&others, allowance)? {
        if groups.is_empty() {
            return Ok(one(folder, [named, others].concat(), None).into_iter().collect());
        }
        bail!(
            "{} is a compiler dump beside folders of dumps: move it into the folder of its version, or name it \
             directly",
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

/// The version of a folder; `None` if there is nothing to read in it.
fn one(folder: &Path, mut files: Vec<PathBuf>, beside: Option<PathBuf>) -> Option<Group> {
    files.retain(|file| may_be_dump(file));
    let path = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let name = one_line(file_name(&path));
    let has_files = has_manifest(folder) || !files.is_empty() || beside.is_some();
    has_files.then(|| Group { name, path: folder.to_owned(), files, beside, operation: None, ignored: 0 })
}

/// Whether there is a manifest; reading it reports what is wrong with it.
fn has_manifest(folder: &Path) -> bool {
    folder.join(manifest::FILE_NAME).symlink_metadata().is_ok()
}

/// Whether the name of a file allows it to be a dump.
pub(super) fn may_be_dump(file: &Path) -> bool {
    !OTHER_FILES.contains(&file_name(file))
}

/// Returns the version of an HLO file: `v2_manual_async_dma` of `v2_manual_async_dma_hlo.txt`.
fn named_version(file: &Path) -> Option<&str> {
    file_name(file).strip_suffix(HLO_SUFFIX)
}

fn version_of(file: &Path) -> String {
    let name = input::file_name(file);
    let stem = || name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem);
    named_version(file).map_or_else(|| stem().to_owned(), one_line)
}

/// Returns the last component of a path.
pub(super) fn file_name(path: &Path) -> &str {
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
        assert!(refusal(&root.join("empty")).starts_with("no dumps in"));
        assert!(refusal(&root.join("v9")).contains("does not exist"));
        fs::create_dir_all(root.join("nested/deep/deeper")).unwrap();
        assert!(refusal(root).contains("nested contains folders but no files: name it directly"));
        fs::remove_dir_all(root.join("nested")).unwrap();
        fs::write(root.join("stray"), ".version 8.0\n").unwrap();
        assert!(refusal(root).contains("stray is a compiler dump beside folders of dumps"));
    }
}
