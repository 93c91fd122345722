//! Writing a plan: into a work folder beside the output, which is renamed into place when complete.

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
pub(crate) use scale::is_power_of_two;

use crate::{
    Checkpoint, CheckpointPlan, OutputShard,
    error::{CheckpointError, Result},
};
use place::{Place, Work};

/// Limit on threads, each of which holds buffers: bounds memory.
const MOST_THREADS: usize = 48;

/// Threads to use: those wanted, or one per core.
pub(crate) fn thread_count(wanted: Option<usize>) -> usize {
    let wanted = wanted.or_else(|| std::thread::available_parallelism().ok().map(usize::from));
    wanted.unwrap_or(1).clamp(1, MOST_THREADS)
}

/// Where to write, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Output folder, or output file for a single-file checkpoint.
    pub path: PathBuf,
    /// Replaces an existing checkpoint.
    pub force: bool,
    /// Number of threads; `None` uses one per core.
    pub threads: Option<usize>,
}

/// Receives progress, from any thread.
pub trait Progress: Sync {
    /// Reports that `bytes` of input tensors were processed.
    fn advance(&self, bytes: u64);
    /// Reports that a shard was started.
    fn begin(&self, _shard: &str) {}
}

impl Progress for () {
    fn advance(&self, _: u64) {}
}

/// Summary of a completed run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Number of shards reused from an interrupted run.
    pub resumed: usize,
    /// Other files that were copied.
    pub copied: Vec<OtherFile>,
}

impl CheckpointPlan {
    /// Files that will be copied unchanged.
    pub fn other_files(checkpoint: &Checkpoint) -> Result<Vec<OtherFile>> {
        files::others(checkpoint)
    }

    /// Rejects an output that cannot or must not be written. Changes nothing.
    pub fn check_output(checkpoint: &Checkpoint, output: &Output) -> Result<()> {
        Place::new(checkpoint, output).map(|_| ())
    }
}

/// Writes the output of a plan, atomically: it appears complete or not at all.
///
/// After a kill, the same call resumes. After an error, nothing is left behind.
pub fn write(
    checkpoint: &Checkpoint,
    plan: &CheckpointPlan,
    output: &Output,
    progress: &dyn Progress,
) -> Result<Outcome> {
    let place = Place::new(checkpoint, output)?;
    let others = files::others(checkpoint)?;
    let threads = thread_count(output.threads);
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

/// Rejects an output that does not fit on the disk.
fn require_space(
    place: &Place,
    plan: &CheckpointPlan,
    others: &[OtherFile],
    finished: &[String],
) -> Result<()> {
    let shards = plan.shards.iter().filter(|shard| !finished.contains(&shard.name)).map(|shard| shard.bytes);
    let needed = shards.sum::<u64>() + others.iter().map(|file| file.bytes).sum::<u64>();
    match available_bytes(&place.parent) {
        Some(available) if needed > available => {
            Err(CheckpointError::NoSpace { path: place.path.clone(), needed, available })
        }
        // If the file system does not report free space, let the write fail.
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

/// Removes a file or a folder.
fn remove(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(kind) if kind.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
