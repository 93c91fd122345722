//! From what the user names to versions: which files belong together.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

/// Files of a version's folder that are no dump.
const OTHER_FILES: [&str; 4] =
    [super::manifest::FILE_NAME, "executable.bin", "stablehlo.mlir", "kernel.cubin"];
/// How the optimized HLO of a version is called where it lies beside the version's folder.
const HLO_SUFFIX: &str = "_hlo.txt";
/// More cannot be a dump of one kernel, and would not fit in memory several times.
const LARGEST: u64 = 2 << 30;

/// Files that are about one kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// What to call the version.
    pub name: String,
    /// Its folder, or its only file.
    pub path: PathBuf,
    /// What to read.
    pub files: Vec<PathBuf>,
}

/// The versions in everything that was named.
pub fn groups(inputs: &[PathBuf]) -> Result<Vec<Group>> {
    let mut groups = Vec::new();
    for input in inputs {
        let found = if input.is_dir() { in_folder(input)? } else { vec![single(input)?] };
        if found.is_empty() {
            bail!("there is no dump in {}: write some with `octile inspect -o DIR`", input.display());
        }
        groups.extend(found);
    }
    Ok(groups)
}

fn single(file: &Path) -> Result<Group> {
    if !file.exists() {
        let path = file.display();
        bail!("there is no {path}: name a dump or a folder of dumps, or write some with `octile inspect`");
    }
    Ok(Group { name: version_of(file), path: file.to_owned(), files: vec![file.to_owned()] })
}

/// One version where the folder itself holds the files of one; else each sub-folder, and each named file by itself.
fn in_folder(folder: &Path) -> Result<Vec<Group>> {
    let entries = entries(folder)?;
    let (folders, mut files): (Vec<_>, Vec<_>) = entries.into_iter().partition(|path| path.is_dir());
    if folder.join(super::manifest::FILE_NAME).exists() {
        return Ok(one(folder, files).into_iter().collect());
    }
    let mut groups = Vec::new();
    for version in folders {
        let mut inside = self::entries(&version)?;
        inside.retain(|path| path.is_file());
        inside.extend(files.iter().filter(|file| named_version(file) == Some(file_name(&version))).cloned());
        groups.extend(one(&version, inside));
    }
    let has_folder = |name: &str| folder.join(name).is_dir();
    if groups.is_empty() && files.iter().any(|file| named_version(file).is_none()) {
        return Ok(one(folder, files).into_iter().collect());
    }
    // Beside versions, a file that is not named like one is something else: a report, a record.
    files.retain(|file| named_version(file).is_some_and(|name| !has_folder(name)));
    for file in files {
        groups.push(single(&file)?);
    }
    groups.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(groups)
}

/// The version of a folder, unless there is nothing to read in it.
fn one(folder: &Path, mut files: Vec<PathBuf>) -> Option<Group> {
    let has_manifest = folder.join(super::manifest::FILE_NAME).exists();
    files.retain(|file| !OTHER_FILES.contains(&file_name(file)));
    let path = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let name = file_name(&path).to_owned();
    (has_manifest || !files.is_empty()).then(|| Group { name, path: folder.to_owned(), files })
}

/// The dumps of a kernel that prepares operands for that of a folder; what is missing, its manifest misses.
pub fn helper(folder: &Path, names: &[&str]) -> Vec<PathBuf> {
    let dumps = names.iter().filter(|name| !OTHER_FILES.contains(name));
    dumps.map(|name| folder.join(name)).filter(|path| path.is_file()).collect()
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let list = || -> std::io::Result<Vec<PathBuf>> {
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect()
    };
    let mut entries = list().with_context(|| format!("cannot list {}", folder.display()))?;
    entries.retain(|path| !file_name(path).starts_with('.'));
    entries.sort();
    Ok(entries)
}

/// Reads a file whole.
pub fn read(file: &Path) -> Result<Vec<u8>> {
    let read = || -> Result<Vec<u8>> {
        if fs::metadata(file)?.len() > LARGEST {
            bail!("it is larger than {LARGEST} bytes");
        }
        Ok(fs::read(file)?)
    };
    read().with_context(|| format!("cannot read {}", file.display()))
}

/// `v2_manual_async_dma_hlo.txt` is of version `v2_manual_async_dma`.
fn named_version(file: &Path) -> Option<&str> {
    file_name(file).strip_suffix(HLO_SUFFIX)
}

fn version_of(file: &Path) -> String {
    let stem = || file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    named_version(file).unwrap_or_else(stem).to_owned()
}

/// The last part of a path.
pub fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
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
        let found = groups(&[root.to_owned()]).unwrap();
        let names: Vec<_> = found.iter().map(|group| (group.name.as_str(), group.files.len())).collect();
        assert_eq!(names, [("v1_auto", 2), ("v2_dma", 0), ("v3_smem", 1)]);
        assert_eq!(groups(&[root.join("v1_auto")]).unwrap()[0].files.len(), 1);
        assert!(groups(&[root.join("empty")]).unwrap_err().to_string().starts_with("there is no dump in"));
        assert!(groups(&[root.join("v9")]).unwrap_err().to_string().starts_with("there is no"));
    }
}
