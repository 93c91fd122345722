//! Tables of tuned plans in files: those that come with the library, and the user's.
//!
//! The user's are in `$OCTILE_TUNED_DIR`, or else in `octile/tuned` below `$XDG_DATA_HOME` or
//! `~/.local/share`. `OCTILE_TUNED=off` ignores all of them, and so does `OCTILE_BATCH_INVARIANT=1`, because
//! plans of tables depend on the number of rows.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::OnceLock,
};

use octile_core::{
    Problem,
    tuned::{
        MOST_BYTES, TableError, TunedDevice, TunedEntry, TunedTable, TunedTables, TunedTarget, TunedWith,
    },
};
use tempfile::NamedTempFile;

use crate::switches::{INVARIANT, Switch};

/// Turns tables off.
pub const SWITCH: Switch = Switch { variable: "OCTILE_TUNED", default: true };
/// Environment variable that names the user's folder.
pub const FOLDER_VARIABLE: &str = "OCTILE_TUNED_DIR";
/// What to do about a file that is no table.
const ADVICE: &str = "move it away, or name another folder with OCTILE_TUNED_DIR";
/// The same about an error of the operating system.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        // Files that are refused here come with their own advice.
        io::ErrorKind::Other => "",
        _ => "; repair that, or name another folder with OCTILE_TUNED_DIR",
    }
}

/// Files of a folder that are locked or not finished.
const LOCK: &str = ".lock";
const DRAFT: &str = ".octile-tuned-draft-";
/// Random characters that follow.
const DRAFT_CHARACTERS: usize = 8;

/// Whether plans of tables are used in this process. They are not where a variable has a value that means
/// nothing: [`crate::switches::require_known`] reports it.
pub fn is_enabled() -> bool {
    SWITCH.is_on().unwrap_or(false) && !INVARIANT.is_on().unwrap_or(true)
}

/// The tables of a kind of device to use in this process: read once, `None` where they are turned off.
pub fn for_use(target: TunedTarget) -> Option<&'static TunedTables> {
    is_enabled().then(|| &of_process(target).tables)
}

/// Tables, and what is wrong with a file that was passed over.
#[derive(Debug)]
struct LoadedTables {
    tables: TunedTables,
    /// One sentence about a file that could not be read.
    note: Option<String>,
}

/// The tables as they were when the process first asked.
fn of_process(target: TunedTarget) -> &'static LoadedTables {
    static LOADED: [OnceLock<LoadedTables>; TunedTarget::ALL.len()] =
        [const { OnceLock::new() }; TunedTarget::ALL.len()];
    LOADED[target as usize].get_or_init(|| {
        let read = TunedFolder::of_user().map_or_else(|| Ok(TunedTable::default()), |user| user.read(target));
        let note = read.as_ref().err().map(|error| format!("ignoring your tuned plans: {error}"));
        let tables = TunedTables::of_user(read.unwrap_or_default()).over_shipped(target);
        LoadedTables { tables, note }
    })
}

/// What a user should know about the tables of a device before these problems are multiplied: a file that
/// cannot be read, and entries that do not count. `with` as for [`TunedTables::lookup`].
pub fn notes(
    device: &TunedDevice,
    problems: &[Problem],
    with: impl Fn(&TunedEntry) -> Option<TunedWith>,
) -> Vec<String> {
    if !is_enabled() {
        return Vec::new();
    }
    let LoadedTables { tables, note } = of_process(device.target);
    let problems: HashSet<&Problem> = problems.iter().collect();
    let stale = tables.stale(device, |problem| problems.contains(problem), with);
    let stale = stale.map(|note| format!("{note}: run `octile tune` to measure again"));
    note.iter().cloned().chain(stale).collect()
}

/// A folder of tables cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TunedError {
    /// The operating system reports an error.
    #[error("cannot {doing} {}: {error}{}", path.display(), advice(error))]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The file is no table.
    #[error("cannot use {}: {error}; {ADVICE}", path.display())]
    Table {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: TableError,
    },
}

/// The user's folder of tables, one file per kind of device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunedFolder(PathBuf);

impl TunedFolder {
    /// The folder of this process's user; `None` where no variable tells a place.
    pub fn of_user() -> Option<Self> {
        let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let data = || folder("XDG_DATA_HOME").filter(|path| path.is_absolute());
        let home = || folder("HOME").map(|home| home.join(".local/share"));
        folder(FOLDER_VARIABLE).or_else(|| Some(data().or_else(home)?.join("octile/tuned"))).map(Self)
    }

    /// Another folder.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The table of a kind of device.
    pub fn file(&self, target: TunedTarget) -> PathBuf {
        self.0.join(target.file_name())
    }

    /// The file that a process locks which writes tables; beside the real one where the table is a link.
    pub fn lock_file(&self, target: TunedTarget) -> PathBuf {
        let file = self.file(target);
        fs::canonicalize(&file).unwrap_or(file).with_file_name(LOCK)
    }

    /// Reads a table; an empty one if there is no file.
    pub fn read(&self, target: TunedTarget) -> Result<TunedTable, TunedError> {
        let path = self.file(target);
        let text = match read_text(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(TunedTable::default()),
            Err(error) => return Err(TunedError::Io { doing: "read", path, error }),
        };
        TunedTable::parse(&text).map_err(|error| TunedError::Table { path, error })
    }

    /// Adds an entry to the table of its device. Other processes may do so at the same time, and a process
    /// that is killed leaves the table as it was before or after.
    pub fn record(&self, entry: TunedEntry) -> Result<(), TunedError> {
        let target = entry.device.target;
        let place = TablePlace::lock(self.file(target))?;
        let mut table = self.read(target)?;
        table.merge(vec![entry]);
        let draft = place.draft(&table)?;
        draft.persist(&place.file).map_err(|error| place.failed("write", error.error))?;
        Ok(())
    }

    /// Whether entries could be added now: finds out before hours of measuring.
    pub fn require_writable(&self, target: TunedTarget) -> Result<(), TunedError> {
        let place = TablePlace::lock(self.file(target))?;
        place.draft(&self.read(target)?).map(drop)
    }
}

/// Where a table is written, while no other process writes there.
struct TablePlace {
    /// The table itself: a link to a table that is kept elsewhere stays a link.
    file: PathBuf,
    folder: PathBuf,
    /// Released when the file is closed, also by a process that is killed.
    lock: File,
}

impl TablePlace {
    fn lock(file: PathBuf) -> Result<Self, TunedError> {
        let failed = |doing: &'static str| {
            let path = file.clone();
            move |error| TunedError::Io { doing, path, error }
        };
        let folder = |file: &Path| file.parent().map(Path::to_owned).unwrap_or_default();
        fs::create_dir_all(folder(&file)).map_err(failed("make the folder of"))?;
        let table = fs::canonicalize(&file).unwrap_or_else(|_| file.clone());
        let folder = folder(&table);
        let lock_path = folder.join(LOCK);
        // Opening a FIFO would wait for a reader.
        if fs::metadata(&lock_path).is_ok_and(|lock| !lock.is_file()) {
            let error = io::Error::other(format!("{} is not a regular file; {ADVICE}", lock_path.display()));
            return Err(failed("lock")(error));
        }
        let lock = File::options().create(true).truncate(false).write(true).open(lock_path);
        let lock = lock.map_err(failed("lock"))?;
        lock.lock().map_err(failed("lock"))?;
        Ok(Self { file: table, folder, lock })
    }

    fn failed(&self, doing: &'static str, error: io::Error) -> TunedError {
        TunedError::Io { doing, path: self.file.clone(), error }
    }

    /// A finished file that can become the table by a rename.
    fn draft(&self, table: &TunedTable) -> Result<NamedTempFile, TunedError> {
        let failed = |error| self.failed("write", error);
        self.remove_drafts();
        let text = table.to_text();
        if text.len() as u64 > MOST_BYTES {
            // It could not be read again.
            let reason = format!("it would be larger than {} MiB; {ADVICE}", MOST_BYTES >> 20);
            return Err(failed(io::Error::other(reason)));
        }
        let mut builder = tempfile::Builder::new();
        builder.prefix(DRAFT).rand_bytes(DRAFT_CHARACTERS);
        // The full error names the temporary file, which the user does not know.
        let unnamed = |error: io::Error| failed(io::Error::from(error.kind()));
        let mut draft = builder.tempfile_in(&self.folder).map_err(unnamed)?;
        // Temporary files are private, but other users of a shared folder read its tables. The lock has the
        // permissions that this process gives to new files.
        let like = fs::metadata(&self.file).or_else(|_| self.lock.metadata()).map_err(failed)?;
        draft.as_file().set_permissions(like.permissions()).map_err(failed)?;
        draft.as_file_mut().write_all(text.as_bytes()).map_err(failed)?;
        draft.as_file().sync_all().map_err(failed)?;
        Ok(draft)
    }

    /// Removes drafts of processes that were killed. Only the holder of the lock has one.
    fn remove_drafts(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            // Of the entry itself: a link to a file is none of ours.
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            if is_file && is_draft(&entry.file_name().to_string_lossy()) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Whether a draft has such a name: a folder may hold files of others.
fn is_draft(name: &str) -> bool {
    let random = name.strip_prefix(DRAFT).unwrap_or_default();
    random.len() == DRAFT_CHARACTERS && random.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Reads a regular file of bounded size.
fn read_text(path: &Path) -> io::Result<String> {
    let refused = |what: &str| io::Error::other(format!("{what}; {ADVICE}"));
    if !fs::metadata(path)?.is_file() {
        return Err(refused("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(refused(&format!("it is larger than {} MiB", MOST_BYTES >> 20)));
    }
    String::from_utf8(bytes).map_err(|_| refused("it is not text"))
}

#[cfg(test)]
mod tests {
    use octile_core::tuned::{TunedDevice, TunedSamples, TunedWith};

    use super::*;

    fn entry(m: usize) -> TunedEntry {
        TunedEntry {
            device: TunedDevice { target: TunedTarget::Cpu, name: "test".to_owned(), units: 1 },
            with: TunedWith::new("0", ""),
            problem: format!("{m}x64x64:128").parse().unwrap(),
            choice: None,
            speedup: 1.0,
            candidates: 1,
            date: String::new(),
            samples: vec![TunedSamples {
                call: "warm".to_owned(),
                unit: "ms".to_owned(),
                default: vec![1.0],
                tuned: Vec::new(),
            }],
        }
    }

    #[test]
    fn threads_that_record_at_once_lose_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let tables = TunedFolder::new(folder.path().join("new/folder"));
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let tables = &tables;
                scope.spawn(move || (1..=10).for_each(|m| tables.record(entry(100 * thread + m)).unwrap()));
            }
        });
        assert_eq!(tables.read(TunedTarget::Cpu).unwrap().entries.len(), 80);
        assert!(tables.read(TunedTarget::Gpu).unwrap().entries.is_empty());
    }

    #[test]
    fn a_draft_of_a_killed_process_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let draft = path(&format!("{DRAFT}abcDEF12"));
        let foreign =
            [".draft-novel.txt", ".draft-abcdef", &format!("{DRAFT}notes.md"), &format!("{DRAFT}a")];
        for file in [&draft].into_iter().cloned().chain(foreign.map(path)) {
            fs::write(file, "{").unwrap();
        }
        let subfolder = path(&format!("{DRAFT}12345678"));
        fs::create_dir(&subfolder).unwrap();
        TunedFolder::new(folder.path()).record(entry(1)).unwrap();
        assert!(!draft.exists());
        assert!(foreign.map(path).iter().all(|file| file.exists()) && subfolder.exists());
        // Names that Octile makes are recognized.
        let place = TablePlace::lock(path("cpu.json")).unwrap();
        let made = place.draft(&TunedTable::default()).unwrap();
        assert!(is_draft(&made.path().file_name().unwrap().to_string_lossy()), "{}", made.path().display());
    }

    #[cfg(unix)]
    #[test]
    fn a_linked_table_stays_where_it_is_with_its_permissions() {
        use std::os::unix::fs::{PermissionsExt, symlink};

        let (folder, shared) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let tables = TunedFolder::new(folder.path());
        let (link, real) = (tables.file(TunedTarget::Cpu), shared.path().join("table.json"));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        tables.record(entry(1)).unwrap();
        assert_eq!(mode(&link), mode(&folder.path().join(LOCK)), "as any other file of this process");
        fs::rename(&link, &real).unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&real, &link).unwrap();
        tables.record(entry(2)).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(mode(&real), 0o640);
        assert_eq!(TunedTable::parse(&fs::read_to_string(&real).unwrap()).unwrap().entries.len(), 2);
        fs::remove_file(&real).unwrap();
        tables.record(entry(3)).unwrap();
        assert_eq!(tables.read(TunedTarget::Cpu).unwrap().entries.len(), 1, "a link to nothing is replaced");
    }

    #[test]
    fn a_folder_is_tried_before_anything_is_measured() {
        let folder = tempfile::tempdir().unwrap();
        let tables = TunedFolder::new(folder.path());
        tables.require_writable(TunedTarget::Cpu).unwrap();
        assert!(!tables.file(TunedTarget::Cpu).exists(), "trying writes no table");
        let inside_a_file = TunedFolder::new(folder.path().join(LOCK).join("folder"));
        let message = inside_a_file.require_writable(TunedTarget::Cpu).unwrap_err().to_string();
        assert!(message.starts_with("cannot make the folder of "), "{message}");
        assert!(
            message.ends_with("; repair that, or name another folder with OCTILE_TUNED_DIR"),
            "{message}"
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
    }

    #[test]
    fn a_table_grows_no_larger_than_can_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let tables = TunedFolder::new(folder.path());
        let long = |m| TunedEntry { date: "x".repeat(MOST_BYTES as usize / 2), ..entry(m) };
        tables.record(long(1)).unwrap();
        let message = tables.record(long(2)).unwrap_err().to_string();
        assert!(message.contains("it would be larger than 32 MiB; move it away"), "{message}");
        assert_eq!(tables.read(TunedTarget::Cpu).unwrap().entries.len(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn a_lock_that_is_no_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(LOCK)).unwrap();
        let message = TunedFolder::new(folder.path()).record(entry(1)).unwrap_err().to_string();
        assert!(message.contains(".lock is not a regular file; move it away"), "{message}");
    }

    #[test]
    fn a_damaged_table_is_one_sentence_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let tables = TunedFolder::new(folder.path());
        let path = tables.file(TunedTarget::Cpu);
        fs::write(&path, "{\"schema\":").unwrap();
        let message = tables.read(TunedTarget::Cpu).unwrap_err().to_string();
        assert!(
            message.starts_with(&format!("cannot use {}: it is not a table", path.display())),
            "{message}"
        );
        assert!(!message.contains('\n'));
        assert_eq!(tables.record(entry(1)).unwrap_err().to_string(), message);
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"schema\":");
        fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(tables.read(TunedTarget::Cpu).unwrap_err().to_string().contains("it is not text; move"));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(tables.read(TunedTarget::Cpu).is_err());
    }
}
