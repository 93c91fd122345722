//! Input files, read whole or rejected before they can block or exhaust the process.
//!
//! Every command reads through this module: regular files and the streams that a shell passes (`-`,
//! `/dev/stdin`, `<(command)`), never more than a limit, and no symbolic link that leaves the folder named by
//! the user.

use std::{
    fs::{self, File, FileType, Metadata},
    io::{self, Read},
    path::{Path, PathBuf},
};

use thiserror::Error;

use crate::{
    plain_path::PlainPath,
    print::{one_line, shown},
};

/// Size limit of a manifest or a model's configuration.
pub const MANIFEST_BYTES: u64 = 4 << 20;
/// Size limit of a benchmark record or a list of shapes.
pub const RECORD_BYTES: u64 = 64 << 20;
/// Size limit of a dump, a kernel or a module.
pub const DUMP_BYTES: u64 = 128 << 20;
/// Size limit of a tensor file.
pub const TENSOR_BYTES: u64 = 4 << 30;
/// Bytes of dumps that one command may read.
const TOTAL_BYTES: u64 = 512 << 20;
/// Files and folders that one command may list.
const TOTAL_ENTRIES: usize = 10_000;

/// Why a file or folder cannot be read.
#[derive(Debug, Error)]
pub enum InputError {
    /// The operating system reports an error.
    #[error("cannot read {}: {error}", shown(path))]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Reading it could block, never end, or have side effects.
    #[error(
        "cannot read {}: it is {kind}, not a regular file; save its content to a file and use that",
        shown(path)
    )]
    NotRegular {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        kind: &'static str,
    },
    /// It is not UTF-8.
    #[error("{} is not text: pass a text dump, not a binary", shown(path))]
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// A symbolic link leaves the folder named by the user.
    #[error(
        "cannot read {}: it is a symbolic link that leaves {}; copy the file there instead",
        shown(path),
        shown(folder)
    )]
    Outside {
        /// The link.
        path: PathBuf,
        /// The folder that it leaves.
        folder: PathBuf,
    },
    /// It exceeds the size limit.
    #[error(
        "cannot read {}: it is larger than {} MiB, the limit for this kind of file",
        shown(path),
        limit >> 20
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit in bytes.
        limit: u64,
    },
    /// All files together exceed the limit of one command.
    #[error(
        "cannot read {}: one command reads at most {} MiB of dumps; name fewer files or folders",
        shown(path),
        TOTAL_BYTES >> 20
    )]
    TooMuch {
        /// The file that exceeds it.
        path: PathBuf,
    },
    /// There are too many files.
    #[error(
        "cannot list {}: one command lists at most {TOTAL_ENTRIES} files; name the folder of one version",
        shown(path)
    )]
    TooMany {
        /// The folder that exceeds the limit.
        path: PathBuf,
    },
}

impl InputError {
    /// Whether the file does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io { error, .. } if error.kind() == io::ErrorKind::NotFound)
    }
}

/// Reads a regular file, or a stream that a shell passes, of at most `limit` bytes.
pub fn read(path: &Path, limit: u64) -> Result<Vec<u8>, InputError> {
    let refused = |error| InputError::Io { path: path.to_owned(), error };
    match Stream::named(path) {
        Some(Stream::Stdin) => return read_stream(path, io::stdin().lock(), limit),
        Some(Stream::Descriptor) => return read_stream(path, open_pipe(path)?, limit),
        None => {}
    }
    // Checked before opening, which alone has side effects on some devices, and again afterwards, because the
    // name may refer to another file by then.
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
    // The length is only a hint: files may grow, and those of /proc have none.
    file.take(limit + 1).read_to_end(&mut bytes).map_err(refused)?;
    if bytes.len() as u64 > limit { Err(too_large()) } else { Ok(bytes) }
}

/// A file name that stands for a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    /// `-` or `/dev/stdin`.
    Stdin,
    /// `/dev/fd/63`, as a shell writes `<(command)`.
    Descriptor,
}

impl Stream {
    fn named(path: &Path) -> Option<Self> {
        if ["-", "/dev/stdin"].iter().any(|name| path.as_os_str() == *name) {
            return Some(Self::Stdin);
        }
        let is_descriptor =
            ["/dev/fd", "/proc/self/fd"].iter().any(|folder| path.parent() == Some(Path::new(folder)));
        is_descriptor.then_some(Self::Descriptor)
    }
}

/// Whether a path named on the command line stands for a stream.
pub fn is_stream(path: &Path) -> bool {
    Stream::named(path).is_some()
}

/// What to call a file in messages: its name without folders.
pub fn file_name(path: &Path) -> String {
    match Stream::named(path) {
        Some(Stream::Stdin) => "stdin".to_owned(),
        Some(Stream::Descriptor) => "pipe".to_owned(),
        None => one_line(&path.file_name().unwrap_or_default().to_string_lossy()),
    }
}

fn open_pipe(path: &Path) -> Result<File, InputError> {
    let refused = |error| InputError::Io { path: path.to_owned(), error };
    let file = File::open(path).map_err(refused)?;
    let metadata = file.metadata().map_err(refused)?;
    match kind(metadata.file_type()) {
        FIFO => Ok(file),
        _ => require_regular(path, &metadata).map(|()| file),
    }
}

fn read_stream(path: &Path, stream: impl Read, limit: u64) -> Result<Vec<u8>, InputError> {
    let mut bytes = Vec::new();
    let read = stream.take(limit + 1).read_to_end(&mut bytes);
    read.map_err(|error| InputError::Io { path: path.to_owned(), error })?;
    match bytes.len() as u64 > limit {
        true => Err(InputError::TooLarge { path: path.to_owned(), limit }),
        false => Ok(bytes),
    }
}

/// Reads a kernel or a module.
pub fn read_text(path: &Path) -> Result<String, InputError> {
    String::from_utf8(read(path, DUMP_BYTES)?).map_err(|_| InputError::NotText { path: path.to_owned() })
}

/// Resolves a name in a folder, and rejects links that leave it.
pub fn within(folder: &Path, name: &PlainPath) -> Result<PathBuf, InputError> {
    let path = folder.join(name.as_path());
    require_inside(folder, &path)?;
    Ok(path)
}

/// Opens without blocking, should the file have become a FIFO meanwhile.
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

const FIFO: &str = "a FIFO";

fn kind(file: FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        match () {
            () if file.is_fifo() => return FIFO,
            () if file.is_socket() => return "a socket",
            () if file.is_char_device() || file.is_block_device() => return "a device",
            () => {}
        }
    }
    if file.is_dir() { "a folder" } else { "something else" }
}

fn require_inside(folder: &Path, path: &Path) -> Result<(), InputError> {
    let resolve = |path: &Path| {
        // The parent of a bare file name is empty.
        let named = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        fs::canonicalize(named).map_err(|error| InputError::Io { path: path.to_owned(), error })
    };
    let (root, target) = (resolve(folder)?, resolve(path)?);
    match target != root && target.starts_with(&root) {
        true => Ok(()),
        false => Err(InputError::Outside { path: path.to_owned(), folder: folder.to_owned() }),
    }
}

/// The content of a folder.
#[derive(Debug, Default)]
pub struct Listing {
    /// Regular files, sorted.
    pub files: Vec<PathBuf>,
    /// Folders, sorted.
    pub folders: Vec<PathBuf>,
}

/// What one command may still read.
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

    /// Lists a folder without hidden files. Rejects devices, pipes, and links that leave the folder.
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
    fn reads_at_most_the_limit() {
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

    /// Files of /proc report length 0 and have content.
    #[cfg(target_os = "linux")]
    #[test]
    fn does_not_trust_the_reported_length() {
        assert!(read(Path::new("/proc/self/status"), 1 << 20).unwrap().len() > 100);
        assert!(matches!(read(Path::new("/proc/self/status"), 100), Err(InputError::TooLarge { .. })));
        assert!(matches!(
            read(Path::new("/dev/zero"), 100),
            Err(InputError::NotRegular { kind: "a device", .. })
        ));
    }
}
