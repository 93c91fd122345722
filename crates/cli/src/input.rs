//! Input files: read whole, or refused with one sentence before they block or exhaust the program.
//!
//! Everything that a command reads comes through here: only regular files, never more than a limit, and nothing
//! that a symbolic link fetches from outside the folder that was named.

use std::{
    fs::{self, File, FileType, Metadata},
    io::{self, Read},
    path::{Path, PathBuf},
};

use thiserror::Error;

use crate::{plain_path::PlainPath, print::shown};

/// Most bytes of a manifest.
pub const MANIFEST_BYTES: u64 = 4 << 20;
/// Most bytes of a benchmark record.
pub const RECORD_BYTES: u64 = 64 << 20;
/// Most bytes of a dump, a kernel or a module.
pub const DUMP_BYTES: u64 = 128 << 20;
/// Most bytes of a file with tensors.
pub const TENSOR_BYTES: u64 = 4 << 30;
/// Most bytes that one command reads from folders of dumps.
const TOTAL_BYTES: u64 = 512 << 20;
/// Most files and folders that one command looks at in folders of dumps.
const TOTAL_ENTRIES: usize = 10_000;

/// Why a file or a folder is not read.
#[derive(Debug, Error)]
pub enum InputError {
    /// The operating system does not give it.
    #[error("cannot read {}: {error}", shown(path))]
    Io {
        /// Which one.
        path: PathBuf,
        /// Its reason.
        error: io::Error,
    },
    /// Reading it could block, never end, or have side effects.
    #[error(
        "cannot read {}: it is {kind}, not a regular file; save its content to a file and use that",
        shown(path)
    )]
    NotRegular {
        /// Which one.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// It is no text.
    #[error("{} is not text: give the text that the compiler wrote or reads", shown(path))]
    NotText {
        /// Which one.
        path: PathBuf,
    },
    /// It belongs to something else than the folder that was named.
    #[error(
        "cannot read {}: it is a symbolic link that leaves {}; put the file itself there",
        shown(path),
        shown(folder)
    )]
    Outside {
        /// The link.
        path: PathBuf,
        /// Where it lies.
        folder: PathBuf,
    },
    /// It cannot be what it is read as.
    #[error("cannot read {}: it is larger than {} MiB, the most that is read of such a file", shown(path), limit >> 20)]
    TooLarge {
        /// Which one.
        path: PathBuf,
        /// The most that is read.
        limit: u64,
    },
    /// ClusterMode the files are too large.
    #[error("cannot read {}: one command reads {} MiB of dumps at most; name fewer files or folders", shown(path), TOTAL_BYTES >> 20)]
    TooMuch {
        /// The file that did not fit any more.
        path: PathBuf,
    },
    /// There are too many files.
    #[error(
        "cannot list {}: one command looks at {TOTAL_ENTRIES} files at most; name the folder of one version",
        shown(path)
    )]
    TooMany {
        /// The folder that did not fit any more.
        path: PathBuf,
    },
}

impl InputError {
    /// Whether there is nothing of this name.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io { error, .. } if error.kind() == io::ErrorKind::NotFound)
    }
}

/// Reads a regular file whole, unless it is larger than `limit` bytes.
pub fn read(path: &Path, limit: u64) -> Result<Vec<u8>, InputError> {
    let refused = |error| InputError::Io { path: path.to_owned(), error };
    // Before it is opened, because opening alone has effects on some devices; and again on what was opened, because
    // the name may mean another file by then.
    require_regular(path, &fs::metadata(path).map_err(refused)?)?;
    let file = open(path).map_err(refused)?;
    let metadata = file.metadata().map_err(refused)?;
    require_regular(path, &metadata)?;
    let too_large = || InputError::TooLarge { path: path.to_owned(), limit };
    if metadata.len() > limit {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(metadata.len() as usize).map_err(|error| refused(error.into()))?;
    // The length is a promise only: files may grow, and those of /proc have none.
    file.take(limit + 1).read_to_end(&mut bytes).map_err(refused)?;
    if bytes.len() as u64 > limit { Err(too_large()) } else { Ok(bytes) }
}

/// Reads a kernel or a module.
pub fn read_text(path: &Path) -> Result<String, InputError> {
    String::from_utf8(read(path, DUMP_BYTES)?).map_err(|_| InputError::NotText { path: path.to_owned() })
}

/// Resolves a name within a folder; whatever links lead through, the file lies in the folder.
pub fn within(folder: &Path, name: &PlainPath) -> Result<PathBuf, InputError> {
    let path = folder.join(name.as_path());
    require_inside(folder, &path)?;
    Ok(path)
}

/// Opens without waiting for a writer, should the file have become a FIFO.
fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    }
    options.open(path)
}

fn require_regular(path: &Path, metadata: &Metadata) -> Result<(), InputError> {
    match metadata.is_file() {
        true => Ok(()),
        false => Err(InputError::NotRegular { path: path.to_owned(), kind: kind(metadata.file_type()) }),
    }
}

fn kind(file: FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        match () {
            () if file.is_fifo() => return "a FIFO",
            () if file.is_socket() => return "a socket",
            () if file.is_char_device() || file.is_block_device() => return "a device",
            () => {}
        }
    }
    if file.is_dir() { "a folder" } else { "something else" }
}

fn require_inside(folder: &Path, path: &Path) -> Result<(), InputError> {
    let resolve = |path: &Path| {
        // The parent of a bare file name is written as nothing.
        let named = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        fs::canonicalize(named).map_err(|error| InputError::Io { path: path.to_owned(), error })
    };
    let (root, target) = (resolve(folder)?, resolve(path)?);
    match target != root && target.starts_with(&root) {
        true => Ok(()),
        false => Err(InputError::Outside { path: path.to_owned(), folder: folder.to_owned() }),
    }
}

/// What lies in a folder.
#[derive(Debug, Default)]
pub struct Listing {
    /// Regular files, by name.
    pub files: Vec<PathBuf>,
    /// Folders, by name.
    pub folders: Vec<PathBuf>,
}

/// What one command may still read from folders of dumps.
#[derive(Debug)]
pub struct Allowance {
    bytes: u64,
    entries: usize,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { bytes: TOTAL_BYTES, entries: TOTAL_ENTRIES }
    }
}

impl Allowance {
    /// Reads a dump.
    pub fn read(&mut self, path: &Path) -> Result<Vec<u8>, InputError> {
        let bytes = read(path, DUMP_BYTES.min(self.bytes)).map_err(|error| match error {
            InputError::TooLarge { path, limit } if limit < DUMP_BYTES => InputError::TooMuch { path },
            other => other,
        })?;
        self.bytes -= bytes.len() as u64;
        Ok(bytes)
    }

    /// Lists a folder without what is hidden. Anything but regular files and folders in it is refused, and links that
    /// leave it.
    pub fn list(&mut self, folder: &Path) -> Result<Listing, InputError> {
        let refused = |error| InputError::Io { path: folder.to_owned(), error };
        let mut listing = Listing::default();
        for entry in fs::read_dir(folder).map_err(refused)? {
            let too_many = || InputError::TooMany { path: folder.to_owned() };
            self.entries = self.entries.checked_sub(1).ok_or_else(too_many)?;
            let entry = entry.map_err(refused)?;
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let path = entry.path();
            if entry.file_type().map_err(refused)?.is_symlink() {
                require_inside(folder, &path)?;
            }
            let metadata =
                fs::metadata(&path).map_err(|error| InputError::Io { path: path.clone(), error })?;
            match metadata.is_dir() {
                true => listing.folders.push(path),
                false => {
                    require_regular(&path, &metadata)?;
                    listing.files.push(path);
                }
            }
        }
        listing.files.sort();
        listing.folders.sort();
        Ok(listing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_read_than_the_limit() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        fs::write(&path, "12345").unwrap();
        assert_eq!(read(&path, 5).unwrap(), b"12345");
        assert!(matches!(read(&path, 4), Err(InputError::TooLarge { limit: 4, .. })));
        let mut few = Allowance { bytes: 7, entries: 2 };
        assert_eq!(few.read(&path).unwrap().len(), 5);
        assert!(matches!(few.read(&path), Err(InputError::TooMuch { .. })));
        assert_eq!(few.list(place.path()).unwrap().files, [path]);
        fs::write(place.path().join("other"), "").unwrap();
        assert!(matches!(few.list(place.path()), Err(InputError::TooMany { .. })));
        assert!(read(&place.path().join("none"), 1).unwrap_err().is_missing());
        assert!(matches!(read(place.path(), 1), Err(InputError::NotRegular { kind: "a folder", .. })));
    }

    /// Files of /proc have no length, and more in them.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_length_is_not_relied_on() {
        assert!(read(Path::new("/proc/self/status"), 1 << 20).unwrap().len() > 100);
        assert!(matches!(read(Path::new("/proc/self/status"), 100), Err(InputError::TooLarge { .. })));
        assert!(matches!(
            read(Path::new("/dev/zero"), 100),
            Err(InputError::NotRegular { kind: "a device", .. })
        ));
    }
}
