//! Reads the files of a version once: those that its manifest lists or, without a manifest, all.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};
use octile_dump::facts::{FileKind, Source};

use super::{
    find::{Group, may_be_dump},
    manifest::{self, ListedFile, Manifest},
};
use crate::{
    command::inspect::collect,
    input::{self, Allowance, InputError},
    kernel_file,
    print::shown,
};

/// A file of a version.
#[derive(Debug)]
pub struct Content {
    /// Name in evidence.
    pub name: String,
    /// Its path.
    pub path: PathBuf,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// The content of a version.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Dumps of its kernel, sorted by name.
    pub own: Vec<Content>,
    /// Dumps of kernels that prepare operands, by folder.
    pub helpers: BTreeMap<String, Vec<Content>>,
    /// Listed files that were changed, one sentence each.
    pub troubles: Vec<String>,
}

impl Contents {
    /// Reads the files of a version.
    pub(super) fn read(
        group: &Group,
        manifest: Option<&Manifest>,
        allowance: &mut Allowance,
    ) -> Result<Self> {
        let mut contents = match manifest {
            Some(manifest) => Self::listed(group, manifest, allowance)?,
            None => Self::unlisted(group, allowance)?,
        };
        contents.own.sort_by(|a, b| a.name.cmp(&b.name));
        if let Some(path) = &group.beside {
            let beside = content(path, allowance)?;
            let is_copy = contents.own.iter().any(|own| own.bytes == beside.bytes);
            match manifest {
                _ if is_copy => {}
                None => contents.own.push(beside),
                Some(_) => bail!(
                    "{} differs from the HLO that {} lists: remove it, or run `octile inspect` again",
                    shown(path),
                    shown(&group.path.join(manifest::FILE_NAME))
                ),
            }
        }
        Ok(contents)
    }

    /// Reads every file of a folder without a manifest.
    fn unlisted(group: &Group, allowance: &mut Allowance) -> Result<Self> {
        let own = group.files.iter().map(|path| content(path, allowance));
        let mut own = own.collect::<Result<Vec<_>, _>>()?;
        // A kernel that is named by itself may have any form that the simulator takes.
        if let Some(only) = own.first_mut().filter(|only| only.path == group.path)
            && let Some(text) = kernel_file::mosaic_text(&only.path, &only.bytes)?
        {
            only.bytes = text.into_bytes();
        }
        Ok(Self { own, ..Self::default() })
    }

    /// Reads the files that a manifest lists.
    fn listed(group: &Group, manifest: &Manifest, allowance: &mut Allowance) -> Result<Self> {
        refuse_unlisted(&group.path, manifest, allowance)?;
        let mut contents = Self::default();
        for file in &manifest.files {
            let path = group.path.join(file.name.as_path());
            let bytes = match input::within(&group.path, &file.name).and_then(|path| allowance.read(&path)) {
                Ok(bytes) => bytes,
                Err(error) if error.is_missing() => {
                    contents.report(&path, "is missing");
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            if let Some(change) = file.change(&bytes) {
                contents.report(&path, &change);
            }
            if may_be_dump(&path) && !is_raw(file) {
                contents.place(file).push(Content { name: file.name.to_string(), path, bytes });
            }
        }
        Ok(contents)
    }

    /// The kernel that a listed file belongs to.
    fn place(&mut self, file: &ListedFile) -> &mut Vec<Content> {
        match file.name.folder() {
            "" => &mut self.own,
            helper => self.helpers.entry(helper.to_owned()).or_default(),
        }
    }

    fn report(&mut self, path: &Path, change: &str) {
        let path = shown(path);
        self.troubles.push(format!("{path} {change}, unlike its manifest: compile that version again"));
    }
}

fn content(path: &Path, allowance: &mut Allowance) -> Result<Content, InputError> {
    let bytes = allowance.read(path)?;
    Ok(Content { name: input::file_name(path), path: path.to_owned(), bytes })
}

/// Whether a listed file is other compiler output, kept with `--keep-dumps`.
fn is_raw(file: &ListedFile) -> bool {
    file.name.as_path().starts_with(collect::RAW)
}

/// Rejects dumps in or below the folder of a version that its manifest does not list: they may be of another
/// kernel. Other files, such as reports, are ignored.
fn refuse_unlisted(version: &Path, manifest: &Manifest, allowance: &mut Allowance) -> Result<()> {
    let listed: BTreeSet<_> = manifest.files.iter().map(|file| version.join(file.name.as_path())).collect();
    let mut folders = vec![version.to_owned()];
    while let Some(folder) = folders.pop() {
        let found = allowance.list(&folder)?;
        let unlisted = found.files.iter().filter(|path| !listed.contains(*path));
        if let Some(path) = first_dump(unlisted, allowance)? {
            bail!(
                "{} is a compiler dump that {} does not list: move it out of that folder, or run `octile \
                 inspect` again",
                shown(path),
                shown(&version.join(manifest::FILE_NAME))
            );
        }
        folders.extend(found.folders);
    }
    Ok(())
}

/// Returns the first file that is a compiler dump.
pub(super) fn first_dump<'f>(
    files: impl IntoIterator<Item = &'f PathBuf>,
    allowance: &mut Allowance,
) -> Result<Option<&'f Path>, InputError> {
    for file in files.into_iter().filter(|file| may_be_dump(file)) {
        let bytes = &allowance.read(file)?;
        if FileKind::of(bytes).target().is_some() {
            return Ok(Some(file));
        }
    }
    Ok(None)
}

/// Borrows the files as sources of facts.
pub(super) fn sources(contents: &[Content]) -> Vec<Source<'_>> {
    contents.iter().map(|Content { name, bytes, .. }| Source { name, bytes }).collect()
}
