//! One safetensors file of a checkpoint.

use std::{
    fs::{File, Metadata},
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::Header;
use crate::{
    error::{CheckpointError, Result, WithPath},
    positioned::read_exact_at,
};

/// A file with a validated header.
#[derive(Debug, Clone)]
pub struct Shard {
    /// Name inside the folder.
    pub name: String,
    /// Path of the file.
    pub path: PathBuf,
    /// Its tensors.
    pub header: Header,
    /// Size of the file.
    pub bytes: u64,
    modified: Option<SystemTime>,
}

impl Shard {
    /// Reads the header of the file at `path`.
    pub fn read(path: &Path) -> Result<Self> {
        let (file, metadata) = open_regular(path)?;
        let bytes = metadata.len();
        let header = Header::read(path, &file, bytes)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { name, path: path.to_owned(), header, bytes, modified: metadata.modified().ok() })
    }

    /// Modification time.
    pub fn modified(&self) -> Option<SystemTime> {
        self.modified
    }

    /// Opens the file, which must be unchanged since its header was read.
    pub fn open(&self) -> Result<ShardFile> {
        let (file, metadata) = open_regular(&self.path)?;
        if metadata.len() != self.bytes || metadata.modified().ok() != self.modified {
            return Err(CheckpointError::ChangedInput { path: self.path.clone() });
        }
        Ok(ShardFile { file, path: self.path.clone() })
    }
}

/// An open shard that any number of threads can read.
#[derive(Debug)]
pub struct ShardFile {
    file: File,
    path: PathBuf,
}

impl ShardFile {
    /// Fills `bytes` from `offset` of the file.
    pub fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        read_exact_at(&self.file, bytes, offset).map_err(|reason| match reason.kind() {
            std::io::ErrorKind::UnexpectedEof => CheckpointError::ChangedInput { path: self.path.clone() },
            _ => CheckpointError::Read { path: self.path.clone(), reason },
        })
    }
}

/// Opens a regular file or a link to one. Opening a pipe would block forever.
fn open_regular(path: &Path) -> Result<(File, Metadata)> {
    if !std::fs::metadata(path).reading(path)?.is_file() {
        return Err(CheckpointError::NotSafetensors {
            path: path.to_owned(),
            why: "it is not a regular file",
        });
    }
    let file = File::open(path).reading(path)?;
    let metadata = file.metadata().reading(path)?;
    Ok((file, metadata))
}
