//! The output path, and the work folder beside it that holds an incomplete output.

use std::{
    fs::{self, File, Metadata, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
};

use super::{Output, files, journal, journal::Finished, remove};
use crate::{
    Checkpoint, OutputShard,
    error::{CheckpointError, Result, WithPath},
};

/// A validated output path.
#[derive(Debug)]
pub(super) struct Place {
    /// The output as the user named it.
    pub path: PathBuf,
    /// Its parent folder.
    pub parent: PathBuf,
    name: String,
    is_folder: bool,
    force: bool,
}

impl Place {
    pub(super) fn new(checkpoint: &Checkpoint, output: &Output) -> Result<Self> {
        let path = output.path.clone();
        let bad = |why: String| CheckpointError::BadOutput { path: path.clone(), why };
        let is_folder = checkpoint.is_folder();
        let Some(name) = path.file_name() else { return Err(bad("name a new folder or file".to_owned())) };
        let Some(name) = name.to_str() else { return Err(bad("its name is not UTF-8".to_owned())) };
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let parent = fs::canonicalize(folder)
            .ok()
            .filter(|parent| parent.is_dir())
            .ok_or_else(|| bad(format!("there is no folder {}", folder.display())))?;
        if !is_folder && !name.ends_with(".safetensors") {
            return Err(bad(
                "one file becomes one file, so give it a name that ends with .safetensors".to_owned()
            ));
        }
        let place =
            Self { path: path.clone(), name: name.to_owned(), is_folder, force: output.force, parent };
        place.require_apart(checkpoint)?;
        place.require_free()?;
        Ok(place)
    }

    /// Canonical path of the output.
    fn target(&self) -> PathBuf {
        self.parent.join(&self.name)
    }

    /// Rejects an output that contains the input, or lies inside it.
    fn require_apart(&self, checkpoint: &Checkpoint) -> Result<()> {
        let target = self.target();
        let bad = |why: &str| CheckpointError::BadOutput { path: self.path.clone(), why: why.to_owned() };
        let input = fs::canonicalize(checkpoint.path()).reading(checkpoint.path())?;
        if target == input {
            return Err(bad("it is the input, which is never changed, so name another output"));
        }
        if checkpoint.is_folder() && target.starts_with(&input) {
            return Err(bad("it is inside the input, so name a place outside"));
        }
        let mut used = vec![input];
        used.extend(checkpoint.shards().iter().filter_map(|shard| fs::canonicalize(&shard.path).ok()));
        if used.iter().any(|used| used.starts_with(&target)) {
            return Err(bad("the input is inside it, so name another output"));
        }
        Ok(())
    }

    /// Rejects an existing output, unless `force` is set and it is a checkpoint.
    fn require_free(&self) -> Result<()> {
        let path = self.path.clone();
        let Ok(found) = self.target().symlink_metadata() else { return Ok(()) };
        let bad = |why: &str| CheckpointError::BadOutput { path: path.clone(), why: why.to_owned() };
        if found.is_symlink() {
            return Err(bad("it is a symbolic link, so name its target"));
        }
        if self.is_folder && !found.is_dir() {
            return Err(bad("it is a file, but the output is a folder"));
        }
        if !self.is_folder && !found.is_file() {
            return Err(bad("it is not a file, but the output is one"));
        }
        if self.is_folder && is_empty(&self.target()) {
            return Ok(());
        }
        if !self.force {
            return Err(CheckpointError::OutputExists { path });
        }
        let is_checkpoint = !self.is_folder || files::holds_safetensors(&self.target());
        if is_checkpoint { Ok(()) } else { Err(CheckpointError::OutputForeign { path }) }
    }
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

/// The work folder.
#[derive(Debug)]
pub(super) struct Work {
    folder: PathBuf,
    /// Locked while this process uses the folder.
    _lock: File,
}

impl Work {
    /// Resumes an interrupted run of the same plan, or starts afresh. Also returns the finished shards.
    pub(super) fn open(
        place: &Place,
        fingerprint: &str,
        shards: &[OutputShard],
    ) -> Result<(Self, Vec<String>)> {
        let folder = place.parent.join(format!(".{}.octile-work", place.name));
        // Errors name the output: users do not know the work folder.
        let named = |reason: io::Error| CheckpointError::Write { path: place.path.clone(), reason };
        match fs::create_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if let Err(why) = require_own(&folder) {
                    return Err(CheckpointError::BadOutput { path: place.path.clone(), why });
                }
            }
            created => created.map_err(named)?,
        }
        let lock = open_lock(&folder.join(LOCK)).map_err(named)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(CheckpointError::OutputBusy { path: place.path.clone() });
            }
            Err(TryLockError::Error(error)) => return Err(named(error)),
        }
        let work = Self { folder, _lock: lock };
        let (replaced, target) = (work.folder.join(REPLACED), place.target());
        if replaced.exists() && !target.exists() {
            // The previous run was killed between the two renames of `publish`.
            fs::rename(replaced, target).map_err(named)?;
        }
        let finished = work.resume(fingerprint, shards).map_err(|error| {
            work.discard();
            named(error)
        })?;
        Ok((work, finished))
    }

    fn resume(&self, fingerprint: &str, shards: &[OutputShard]) -> io::Result<Vec<String>> {
        let is_same = fs::read_to_string(self.plan()).is_ok_and(|found| found == fingerprint);
        let journal = fs::read_to_string(self.journal()).unwrap_or_default();
        let mut finished = if is_same { journal::parse(&journal) } else { Vec::new() };
        finished.retain(|record| {
            shards.iter().any(|shard| shard.name == record.shard) && record.holds(&self.content())
        });
        fs::create_dir_all(self.content())?;
        for entry in fs::read_dir(self.content())? {
            let entry = entry?;
            if !finished.iter().any(|record| entry.file_name() == record.shard.as_str()) {
                remove(&entry.path())?;
            }
        }
        remove(&self.folder.join(REPLACED))?;
        let lines: String = finished.iter().map(line).collect();
        // A plan without a journal means nothing is finished; a journal without a plan is meaningless.
        remove(&self.plan())?;
        fs::write(self.journal(), lines)?;
        fs::write(self.plan(), fingerprint)?;
        Ok(finished.into_iter().map(|record| record.shard).collect())
    }

    /// Records a finished shard in the journal.
    pub(super) fn finished(&self, record: &Finished) -> Result<()> {
        let path = self.journal();
        let mut journal = fs::OpenOptions::new().append(true).open(&path).writing(&path)?;
        journal.write_all(line(record).as_bytes()).writing(&path)
    }

    /// Renames the output into place and removes the work folder.
    pub(super) fn publish(&self, place: &Place, shards: &[OutputShard]) -> Result<()> {
        place.require_free()?;
        let target = place.target();
        let publish = || -> io::Result<()> {
            if let (false, [shard]) = (place.is_folder, shards) {
                return fs::rename(self.content().join(&shard.name), &target);
            }
            let replaced = self.folder.join(REPLACED);
            if is_empty(&target) {
                fs::remove_dir(&target)?;
            } else if target.exists() {
                fs::rename(&target, &replaced)?;
            }
            fs::rename(self.content(), &target).inspect_err(|_| {
                // Restore the old output; the error is reported either way.
                let _ = fs::rename(&replaced, &target);
            })
        };
        publish().writing(&place.path)?;
        self.discard();
        Ok(())
    }

    /// Removes the work folder, ignoring failures.
    pub(super) fn discard(&self) {
        let _ = fs::remove_dir_all(&self.folder);
    }

    /// Path of the incomplete output.
    pub(super) fn content(&self) -> PathBuf {
        self.folder.join(CONTENT)
    }

    fn journal(&self) -> PathBuf {
        self.folder.join(JOURNAL)
    }

    fn plan(&self) -> PathBuf {
        self.folder.join(PLAN)
    }
}

/// Requires an existing work folder to be one that a run of this user left: nothing in it may lead elsewhere.
fn require_own(folder: &Path) -> Result<(), String> {
    let in_the_way = |why: &str| format!("{} is in the way, so remove it{why}", folder.display());
    let Some(found) = folder.symlink_metadata().ok().filter(Metadata::is_dir) else {
        return Err(in_the_way(""));
    };
    if !is_own(&found) {
        return Err(in_the_way(": it belongs to another user"));
    }
    let require = |name: &str, expected: &str, is_expected: fn(&Metadata) -> bool| match folder
        .join(name)
        .symlink_metadata()
    {
        Ok(found) if !is_expected(&found) => {
            Err(in_the_way(&format!(": its entry '{name}' is not a {expected}")))
        }
        _ => Ok(()),
    };
    for name in [CONTENT, REPLACED] {
        require(name, "folder", Metadata::is_dir)?;
    }
    [LOCK, JOURNAL, PLAN].into_iter().try_for_each(|name| require(name, "regular file", Metadata::is_file))
}

#[cfg(unix)]
fn is_own(found: &Metadata) -> bool {
    std::os::unix::fs::MetadataExt::uid(found) == rustix::process::geteuid().as_raw()
}

#[cfg(not(unix))]
fn is_own(_: &Metadata) -> bool {
    true
}

/// Creates or opens the lock, but does not follow a link.
fn open_lock(path: &Path) -> io::Result<File> {
    let mut options = fs::OpenOptions::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    }
    options.write(true).create(true).truncate(true).open(path)
}

const LOCK: &str = "lock";
const CONTENT: &str = "content";
const JOURNAL: &str = "finished";
const PLAN: &str = "plan";
/// Name of the previous output while it is being replaced.
const REPLACED: &str = "replaced";

fn line(record: &Finished) -> String {
    let text = serde_json::to_string(record).expect("strings and numbers can always be written as JSON");
    format!("{text}\n")
}
