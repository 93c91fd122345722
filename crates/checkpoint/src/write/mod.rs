//! Writing what was planned: in a work folder beside the output, which is moved into place once it is whole.

mod block;
mod files;
mod journal;
mod place;
mod scale;
mod schedule;
mod shard;
mod unit;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

pub use files::OtherFile;

use crate::{
    Checkpoint, OutputShard, Plan,
    error::{CheckpointError, Result},
};
use place::{Place, Work};

/// Threads beyond these would take more memory than is promised.
const MOST_THREADS: usize = 48;

/// Where to write, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// The folder, or for a checkpoint of one file the file.
    pub path: PathBuf,
    /// Replaces a checkpoint that is there.
    pub force: bool,
    /// Threads to use instead of one per core.
    pub threads: Option<usize>,
}

/// Is told what was done, from any thread.
pub trait Progress: Sync {
    /// So many bytes of input tensors were processed.
    fn advance(&self, bytes: u64);
    /// A shard was begun.
    fn begin(&self, _shard: &str) {}
}

impl Progress for () {
    fn advance(&self, _: u64) {}
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Shards that an earlier run, which was interrupted, had finished.
    pub resumed: usize,
    /// Files beside the shards that were copied.
    pub copied: Vec<OtherFile>,
}

impl Plan {
    /// The files that will be copied as they are.
    pub fn other_files(checkpoint: &Checkpoint) -> Result<Vec<OtherFile>> {
        files::others(checkpoint)
    }

    /// Refuses an output that cannot or must not be written, without changing anything.
    pub fn check_output(checkpoint: &Checkpoint, output: &Output) -> Result<()> {
        Place::new(checkpoint, output).map(|_| ())
    }
}

/// Writes what a plan says. The output appears whole, or not at all.
///
/// After a kill the same call goes on where the last one stopped; after an error nothing is left behind.
pub fn write(
    checkpoint: &Checkpoint,
    plan: &Plan,
    output: &Output,
    progress: &dyn Progress,
) -> Result<Outcome> {
    let place = Place::new(checkpoint, output)?;
    let others = files::others(checkpoint)?;
    let wanted = output.threads.or_else(|| std::thread::available_parallelism().ok().map(usize::from));
    let threads = wanted.unwrap_or(1).clamp(1, MOST_THREADS);
    let (work, finished) = Work::open(&place, &journal::fingerprint(checkpoint, plan), &plan.shards)?;
    let fill = || -> Result<()> {
        require_space(&place, plan, &others, &finished)?;
        let is_finished = |shard: &&OutputShard| finished.contains(&shard.name);
        let (done, shards): (Vec<_>, Vec<_>) = plan.shards.iter().partition(is_finished);
        done.into_iter().for_each(|shard| progress.advance(shard::input_bytes(checkpoint, shard)));
        schedule::write(checkpoint, &shards, threads, &work, progress)?;
        files::write(checkpoint, plan, &others, &work.content())
    };
    match fill().and_then(|()| work.publish(&place, &plan.shards)) {
        Ok(()) => Ok(Outcome { resumed: finished.len(), copied: others }),
        Err(error) => {
            work.discard();
            Err(error)
        }
    }
}

/// Refuses to begin what the disk cannot hold.
fn require_space(place: &Place, plan: &Plan, others: &[OtherFile], finished: &[String]) -> Result<()> {
    let shards = plan.shards.iter().filter(|shard| !finished.contains(&shard.name)).map(|shard| shard.bytes);
    let needed = shards.sum::<u64>() + others.iter().map(|file| file.bytes).sum::<u64>();
    match available_bytes(&place.parent) {
        Some(available) if needed > available => {
            Err(CheckpointError::NoSpace { path: place.path.clone(), needed, available })
        }
        // Where the file system does not tell, writing will.
        _ => Ok(()),
    }
}

#[cfg(unix)]
fn available_bytes(folder: &Path) -> Option<u64> {
    let state = rustix::fs::statvfs(folder).ok()?;
    Some(state.f_bavail.saturating_mul(state.f_frsize))
}

#[cfg(not(unix))]
fn available_bytes(_: &Path) -> Option<u64> {
    None
}

/// Removes a file or folder, whichever it is.
fn remove(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(kind) if kind.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
